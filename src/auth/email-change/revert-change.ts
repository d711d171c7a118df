import { type AuditContext, recordActivity } from '../../activity/record-activity.ts'
import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { isOperatorRole } from '../../http/scopes.ts'
import { revokeKeysOf } from '../api-keys/revoke-api-key.ts'
import type { Client } from '../client.ts'
import { type AuthContext, sendNotice } from '../context.ts'
import { deleteAdded } from '../factors/reset-factors.ts'
import { type Account, lockAccount } from '../factors/second-factors.ts'
import { insertResetToken, RESET_TOKEN_MS } from '../passwords/reset-password.ts'
import { revokeSessionsOf } from '../sessions.ts'
import { takeOverGuests } from '../take-over-guests.ts'
import { invalidOneTimeToken } from '../verify-email.ts'
import { setProvenAddress } from './confirm-change.ts'
import { deleteChangesFrom, findRevertible, type RevertibleChange } from './email-changes.ts'

/**
 * Sign-in methods and addresses added within this time before the change request are removed. Far longer than clocks
 * differ.
 */
const DISTRUST_MS = 7 * 24 * 3_600_000

/**
 * Restores or keeps the address to which the token was mailed. A stranger was in the account, so it ends every session,
 * removes the password and recent additions, and mails a token for a new password. Throws `invalid_one_time_token`.
 */
export async function revertEmailChange(context: AuthContext, token: string, client: Client, auditContext: AuditContext): Promise<void> {
  const { pool, revocations, adminFactors, now } = context
  const found = await findRevertible(pool, token, now())
  if (found === null) throw invalidOneTimeToken()
  const ended = await inTransaction(pool, async (tx) => {
    const account = await lockAccount(tx, found.user_id)
    // Reads the change again, since a second use at the same moment must find none.
    const change = await findRevertible(tx, token, now())
    if (account === null || change === null) throw invalidOneTimeToken()
    return takeBack(tx, context, { account, change, auditContext })
  })
  revocations.add(...ended)
  await adminFactors.refresh()
  client.record('email_change_reverted', { user_id: found.user_id })
}

async function takeBack(
  tx: Transaction,
  context: AuthContext,
  { account, change, auditContext }: { account: Account; change: RevertibleChange; auditContext: AuditContext },
): Promise<string[]> {
  const { sendAccountMail, now } = context
  const { id, role, language, email: lost } = account
  const owner = { id, email: change.old_email }
  const since = new Date(change.requested_at.getTime() - DISTRUST_MS)
  await setProvenAddress(tx, owner, now())
  await tx.query(sql`update users set password_hash = null where id = ${id}`)
  // While a customer's address was unproven, everything in the account may be a stranger's, like at the first password
  // reset.
  const isUnproven = role === 'customer' && change.old_email_verified_at === null
  const factors = await deleteAdded(tx, id, isUnproven ? null : since)
  await tx.query(sql`update customer_addresses set is_default = false where user_id = ${id} and is_default`)
  const addresses = await deleteChangesFrom(tx, change)
  // The mailboxes' holders own these orders.
  await tx.query(sql`update users set owner_id = null where owner_id = ${id} and email = any(${addresses}) and email <> ${owner.email}`)
  const guests = await takeOverGuests(tx, owner, now())
  const ended = [...guests, ...(await revokeSessionsOf(tx, id, null, now()))]

  if (lost !== owner.email) await sendNotice(tx, context, 'email_change_reverted', account)
  if (factors > 0) await sendNotice(tx, context, 'second_factor_removed', { ...owner, language })
  await tx.query(sql`delete from password_resets where user_id = ${id}`)
  const expiresAt = new Date(now().getTime() + RESET_TOKEN_MS)
  const token = await insertResetToken(tx, owner, expiresAt)
  const isForConsole = isOperatorRole(role)
  await sendAccountMail(tx, { kind: 'reset_password', to: owner.email, language, token, expiresAt, isForConsole })
  if (isOperatorRole(role)) {
    await recordActivity(tx, auditContext, { subjectType: 'account', subjectId: id, before: null, after: { email: 'change reverted' } })
    await revokeKeysOf(tx, id, { since, auditContext, now: now() })
  }
  return ended
}
