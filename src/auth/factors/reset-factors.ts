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
 * Removes every factor except the password, for an owner who has lost them, and ends the account's sessions (`ended`).
 * `isLastOfAdmins` means that no admin has a second factor now, so none needs one. Throws `invalid_token` for a deleted
 * account.
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

/**
 * Deletes the recovery codes and the second factors added since a time; null for all. Returns the numbers of deleted
 * factors.
 */
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
 * Deletes second factors, linked sign-ins and addresses added since `since`; null for all. An intruder could use them
 * to sign in again or redirect a parcel. Also deletes all recovery codes, whose age is unknown. Returns the number of
 * deleted factors.
 */
export async function deleteAdded(tx: Transaction, userId: string, since: Date | null): Promise<number> {
  const { passkeys, totp } = await deleteFactors(tx, userId, since)
  const from = since ?? '-infinity'
  await tx.query(sql`delete from oidc_identities where user_id = ${userId} and linked_at >= ${from}`)
  await tx.query(sql`delete from customer_addresses where user_id = ${userId} and created_at >= ${from}`)
  return passkeys + totp
}
