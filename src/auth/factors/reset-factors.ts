import { type AuditContext, recordActivity } from '../../activity/record-activity.ts'
import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { type AuthContext, sendNotice } from '../context.ts'
import { revokeSessionsOf } from '../sessions.ts'
import { getUser } from '../users.ts'
import { hasAdminFactor } from './admin-factor-policy.ts'
import { deleteChallengesOf } from './challenges.ts'
import { deleteRecoveryCodes } from './recovery-codes.ts'
import { lockAccount } from './second-factors.ts'

/**
 * Removes every factor but the password, for an owner who has lost them, and ends the account's sessions (`ended`).
 * `isLastOfAdmins`: it was the only admin with a second factor, so none needs one now. Throws `invalid_token` without
 * such an account.
 */
export async function resetFactors(
  tx: Transaction,
  userId: string,
  { sendAccountMail, auditContext, now }: Pick<AuthContext, 'sendAccountMail'> & { auditContext: AuditContext; now: Date },
): Promise<{ passkeys: number; totp: number; ended: string[]; isLastOfAdmins: boolean }> {
  await lockAccount(tx, userId)
  const account = await getUser(tx, userId)
  const hadAdminFactor = await hasAdminFactor(tx)
  const removed = await deleteFactors(tx, userId, null)
  const ended = await revokeSessionsOf(tx, userId, null, now)
  await sendNotice(tx, { sendAccountMail, now: () => now }, 'second_factor_removed', account)
  await recordActivity(tx, auditContext, { subjectType: 'account', subjectId: userId, before: removed, after: { passkeys: 0, totp: 0 } })
  return { ...removed, ended, isLastOfAdmins: hadAdminFactor && !(await hasAdminFactor(tx)) }
}

/** Deletes the factors besides the password that were added since a time, null for all, and the recovery codes. Returns how many there were. */
async function deleteFactors(tx: Transaction, userId: string, since: Date | null): Promise<{ passkeys: number; totp: number }> {
  const from = since ?? '-infinity'
  const { rowCount: passkeys } = await tx.query(sql`delete from passkeys where user_id = ${userId} and created_at >= ${from}`)
  const { rowCount: totp } = await tx.query(sql`delete from totp_authenticators
    where user_id = ${userId} and coalesce(confirmed_at, created_at) >= ${from}`)
  await deleteRecoveryCodes(tx, userId)
  await deleteChallengesOf(tx, userId)
  return { passkeys: passkeys ?? 0, totp: totp ?? 0 }
}

/**
 * Deletes second factors, linked sign-ins and addresses that were added since `since` (null: all). An intruder could otherwise sign in
 * again, or redirect a parcel. Recovery codes are always deleted, because their age is not known. Returns the number of deleted factors.
 */
export async function deleteAdded(tx: Transaction, userId: string, since: Date | null): Promise<number> {
  const { passkeys, totp } = await deleteFactors(tx, userId, since)
  const from = since ?? '-infinity'
  await tx.query(sql`delete from oidc_identities where user_id = ${userId} and linked_at >= ${from}`)
  await tx.query(sql`delete from customer_addresses where user_id = ${userId} and created_at >= ${from}`)
  return passkeys + totp
}
