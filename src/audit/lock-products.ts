import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

/**
 * Locks products, so that no other change can record the same version of one of them. Call `lockStock` first. Returns
 * the ids that exist.
 */
export async function lockProducts(tx: Transaction, ids: readonly string[]): Promise<string[]> {
  const { rows } = await tx.query<{ id: string }>(sql`select id from products where id = any(${ids}::uuid[]) order by id for no key update`)
  return rows.map(({ id }) => id)
}

/** Locks stock. Orders lock it in the same order, so the two cannot deadlock. */
export async function lockStock(tx: Transaction, productIds: readonly string[]): Promise<void> {
  await tx.query(sql`select from inventory where product_id = any(${productIds}::uuid[]) order by product_id for no key update`)
}
