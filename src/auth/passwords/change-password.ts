import { inTransaction } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import type { AccountCaller } from '../../http/caller.ts'
import type { Client } from '../client.ts'
import { type AuthContext, sendNotice } from '../context.ts'
import { deleteChallengesOf } from '../factors/challenges.ts'
import { revokeSessionsOf } from '../sessions.ts'
import { getUser, replacePassword, type UserWithPassword } from '../users.ts'

/**
 * Sets a new password and ends the other sessions. Throws `invalid_credentials`, `password_too_common`, `rate_limited`.
 */
export async function changePassword(
  context: AuthContext,
  caller: AccountCaller,
  input: { current_password: string; new_password: string },
  client: Client,
): Promise<void> {
  const { pool, passwords, revocations, throttle } = context
  const who = { user_id: caller.userId, session_id: caller.sessionId }
  const user = await getUser(pool, caller.userId)
  await passwords.assertAcceptable(input.new_password, user.email, 'new_password')
  const checked = await throttle.guardPassword(client, user.email, async () => {
    return (await passwords.verify(input.current_password, user.password_hash)) ? user : null
  })
  const ended = checked === null ? null : await storePassword(context, caller, checked, await passwords.hash(input.new_password))
  if (ended === null) {
    client.record('password_change_failed', { ...who, reason: 'wrong password' })
    throw new AppError('invalid_credentials', 'The current password is wrong.')
  }
  revocations.add(...ended)
  client.record('password_changed', who)
}

/** Returns the ended sessions; null if the password has changed since it was checked. */
async function storePassword(
  context: AuthContext,
  caller: AccountCaller,
  checked: UserWithPassword,
  hash: string,
): Promise<string[] | null> {
  const { pool, now } = context
  return inTransaction(pool, async (tx) => {
    if (!(await replacePassword(tx, checked, hash))) return null
    await tx.query('delete from password_resets where user_id = $1', [checked.id])
    await deleteChallengesOf(tx, checked.id)
    await sendNotice(tx, context, 'password_changed', checked)
    return revokeSessionsOf(tx, checked.id, caller.sessionId, now())
  })
}
