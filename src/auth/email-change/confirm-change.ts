import { recordActivity } from '../../activity/record-activity.ts'
import { translateConstraint } from '../../db/constraints.ts'
import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import { isOperatorRole } from '../../http/scopes.ts'
import type { OwnChange } from '../client.ts'
import type { AuthContext } from '../context.ts'
import { deleteChallengesOf } from '../factors/challenges.ts'
import { type Account, lockCaller } from '../factors/second-factors.ts'
import { revokeSessionsOf } from '../sessions.ts'
import { takeOverGuests } from '../take-over-guests.ts'
import { newToken } from '../tokens/opaque-token.ts'
import { getUser, type User } from '../users.ts'
import { invalidOneTimeToken } from '../verify-email.ts'
import { type ConfirmedChange, findConfirmed, markMade, withdrawChanges } from './email-changes.ts'

const REVERTIBLE_MS = 7 * 24 * 3_600_000

/**
 * Gives the caller's account the address to which the token was mailed, and ends its other sessions. A token for the
 * current address only proves it. Throws `invalid_one_time_token`, also for another account's token, and `email_taken`
 * if another account has taken the address meanwhile.
 */
export async function confirmEmailChange(context: AuthContext, token: string, { caller, client, auditContext }: OwnChange): Promise<User> {
  const { pool, revocations, now } = context
  const who = { user_id: caller.userId, session_id: caller.sessionId }
  try {
    const { user, isProof, ended } = await inTransaction(pool, async (tx) => {
      const account = await lockCaller(tx, caller, now())
      const change = await findConfirmed(tx, { userId: account.id, token, now: now() })
      if (change === null) throw invalidOneTimeToken()
      const isProof = change.new_email === change.old_email
      if (isProof) await withdrawChanges(tx, account.id)
      else await leaveOldAddress(tx, context, { account, change })
      await setProvenAddress(tx, { id: account.id, email: change.new_email }, now())
      const guests = await takeOverGuests(tx, { id: account.id, email: change.new_email }, now())
      const sessions = isProof ? [] : await revokeSessionsOf(tx, account.id, caller.sessionId, now())
      const after = { email: isProof ? 'proven' : 'changed' }
      if (auditContext !== null)
        await recordActivity(tx, auditContext, { subjectType: 'account', subjectId: account.id, before: null, after })
      const { password_hash: _, ...user } = await getUser(tx, account.id)
      return { user, isProof, ended: [...guests, ...sessions] }
    })
    revocations.add(...ended)
    client.record(isProof ? 'email_verified' : 'email_changed', who)
    return user
  } catch (error) {
    if (error instanceof AppError && error.code === 'email_taken') client.record('email_change_refused', { ...who, reason: error.code })
    throw error
  }
}

/**
 * Ends tokens mailed to the old address, and what others have begun with the new address. Mails the old address a token
 * that reverts the change.
 */
async function leaveOldAddress(
  tx: Transaction,
  { sendAccountMail, now }: AuthContext,
  { account: { id, role, language }, change }: { account: Account; change: ConfirmedChange },
): Promise<void> {
  const revertToken = newToken()
  const expiresAt = new Date(now().getTime() + REVERTIBLE_MS)
  await markMade(tx, { userId: id, id: change.id, revertToken, now: now(), expiresAt })
  await tx.query(sql`delete from password_resets where user_id = ${id}`)
  await tx.query(sql`delete from pending_registrations where email in (${change.old_email}, ${change.new_email})`)
  await deleteChallengesOf(tx, id)
  const isForConsole = isOperatorRole(role)
  await sendAccountMail(tx, { kind: 'email_changed', to: change.old_email, language, token: revertToken, expiresAt, isForConsole })
}

/** Sets an account's address, which a returned token has proven. Throws `email_taken`. */
export async function setProvenAddress(tx: Transaction, { id, email }: { id: string; email: string }, now: Date): Promise<void> {
  try {
    await tx.query(sql`update users set email = ${email}, email_verified_at = ${now} where id = ${id}`)
  } catch (error) {
    throw translateConstraint(error)
  }
}
