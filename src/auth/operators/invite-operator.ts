import { randomBytes, randomUUIDv7 } from 'node:crypto'
import { type AuditContext, recordActivity } from '../../activity/record-activity.ts'
import type { Transaction } from '../../db/pool.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import { isOperatorRole, type OperatorRole } from '../../http/scopes.ts'
import type { AuthContext } from '../context.ts'
import { parseEmail } from '../email-address.ts'
import { insertResetToken } from '../passwords/reset-password.ts'
import { getUser, insertUser } from '../users.ts'
import { getOperator, lockOperators, lockRoleHolder, type Operator, setRole } from './operators.ts'

/** Colleagues may read their mail days later. */
const INVITATION_MS = 3 * 86_400_000

/**
 * Makes an operator. A new address gets an account with an unknown password, and a mailed one-time token to set one,
 * which proves the address. A removed account that never accepted is invited the same way. Any other account gets the
 * role if its address is proven. Throws `email_taken` for an operator, `address_unproven`, `forbidden`, `invalid_body`.
 */
export async function inviteOperator(
  context: AuthContext,
  input: { email: string; role: OperatorRole },
  auditContext: AuditContext,
): Promise<{ operator: Operator; isInvited: boolean }> {
  const { pool, passwords, revocations, now } = context
  const email = parseEmail(input.email)
  const { role } = input
  const unknownPassword = await passwords.hash(randomBytes(32).toString('base64url'))
  const { id, ended, isInvited } = await inTransaction(pool, async (tx) => {
    await lockOperators(tx, auditContext)
    const holder = await lockRoleHolder(tx, { email })
    if (holder !== null) {
      if (isOperatorRole(holder.role))
        throw new AppError('email_taken', `This account is an operator's already, with the role ${holder.role}.`)
      const { id, isInvited } = holder
      // The mailed token proves the address of an invited account.
      const ended = await setRole(tx, isInvited ? { ...holder, isProven: true } : holder, role, auditContext)
      if (isInvited) await mailInvitation(tx, context, { id, email, role }, auditContext)
      return { id, ended, isInvited }
    }
    const id = randomUUIDv7()
    await insertUser(tx, { id, email, name: null, role, language: null, created_at: now() }, unknownPassword, null)
    await mailInvitation(tx, context, { id, email, role }, auditContext)
    await recordActivity(tx, auditContext, { subjectType: 'account', subjectId: id, before: null, after: { role } })
    return { id, ended: [], isInvited: true }
  })
  revocations.add(...ended)
  return { operator: await getOperator(pool, id), isInvited }
}

/** Mails a token to set a password to an account without its own password. */
export async function mailInvitation(
  tx: Transaction,
  { sendAccountMail, now }: AuthContext,
  { id, email, role }: { id: string; email: string; role: OperatorRole },
  { actor }: AuditContext,
): Promise<void> {
  const expiresAt = new Date(now().getTime() + INVITATION_MS)
  const token = await insertResetToken(tx, { id, email }, expiresAt)
  const inviter = actor.type === 'admin' && actor.id !== null ? (await getUser(tx, actor.id)).email : null
  await sendAccountMail(tx, { kind: 'operator_invited', to: email, language: null, token, isForConsole: true, role, inviter, expiresAt })
}
