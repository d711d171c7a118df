import { recordActivity } from '../../activity/record-activity.ts'
import type { Pool, Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import type { AuthContext } from '../context.ts'
import { canonicalEmail } from '../email-address.ts'
import { revokeSessionsOf } from '../sessions.ts'
import { findUserByEmail } from '../users.ts'
import { hasAdminFactor } from './admin-factor-policy.ts'
import { deleteChallengesOf } from './challenges.ts'
import { deleteRecoveryCodes } from './recovery-codes.ts'
import { lockAccount } from './second-factors.ts'

const NOTICE_MS = 24 * 3_600_000

/**
 * Removes every factor but the password, for an owner who has lost them, and ends the account's sessions. Null without such an account.
 * `isLastOfAdmins`: it was the only admin with a second factor, so none needs one now.
 */
export async function resetFactors(
  pool: Pool,
  email: string,
  sendAccountMail: AuthContext['sendAccountMail'],
): Promise<{ passkeys: number; totp: number; sessions: number; isLastOfAdmins: boolean } | null> {
  return inTransaction(pool, async (tx) => {
    const user = await findUserByEmail(tx, canonicalEmail(email))
    if (user === null || (await lockAccount(tx, user.id)) === null) return null
    const hadAdminFactor = await hasAdminFactor(tx)
    const removed = await deleteFactors(tx, user.id, null)
    const now = new Date()
    const sessions = await revokeSessionsOf(tx, user.id, null, now)
    await sendAccountMail(tx, {
      kind: 'second_factor_removed',
      to: user.email,
      language: user.language,
      expiresAt: new Date(now.getTime() + NOTICE_MS),
    })
    const doing = { actor: { type: 'system', id: null }, action: 'admin reset-factors', requestId: null } as const
    await recordActivity(tx, doing, { subjectType: 'account', subjectId: user.id, before: removed, after: { passkeys: 0, totp: 0 } })
    return { ...removed, sessions: sessions.length, isLastOfAdmins: hadAdminFactor && !(await hasAdminFactor(tx)) }
  })
}

/** Deletes the factors besides the password that were added since a time, null for all, and the recovery codes. Returns how many there were. */
export async function deleteFactors(tx: Transaction, userId: string, since: Date | null): Promise<{ passkeys: number; totp: number }> {
  const from = since ?? '-infinity'
  const { rowCount: passkeys } = await tx.query(sql`delete from passkeys where user_id = ${userId} and created_at >= ${from}`)
  const { rowCount: totp } = await tx.query(sql`delete from totp_authenticators
    where user_id = ${userId} and coalesce(confirmed_at, created_at) >= ${from}`)
  await deleteRecoveryCodes(tx, userId)
  await deleteChallengesOf(tx, userId)
  return { passkeys: passkeys ?? 0, totp: totp ?? 0 }
}
