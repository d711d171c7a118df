import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

/** Locks products, so that no other change of them gets the same version, and returns those that exist. Their stock is locked before them. */
export async function lockProducts(tx: Transaction, ids: readonly string[]): Promise<string[]> {
  const { rows } = await tx.query<{ id: string }>(sql`select id from products where id = any(${ids}::uuid[]) order by id for no key update`)
  return rows.map(({ id }) => id)
}

/** Locks the stock of products in the order of orders, so the two cannot wait for each other. */
export async function lockStock(tx: Transaction, productIds: readonly string[]): Promise<void> {
  await tx.query(sql`select from inventory where product_id = any(${productIds}::uuid[]) order by product_id for no key update`)
}
