import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { deleteFactors } from './factors/reset-factors.ts'

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
