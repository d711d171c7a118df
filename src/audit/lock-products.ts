import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

/** No other change of locked products gets the same version. Call `lockStock` first. Returns the existing ids. */
export async function lockProducts(tx: Transaction, ids: readonly string[]): Promise<string[]> {
  const { rows } = await tx.query<{ id: string }>(sql`select id from products where id = any(${ids}::uuid[]) order by id for no key update`)
  return rows.map(({ id }) => id)
}

/** Orders lock stock in the same order, so the two cannot deadlock. */
export async function lockStock(tx: Transaction, productIds: readonly string[]): Promise<void> {
  await tx.query(sql`select from inventory where product_id = any(${productIds}::uuid[]) order by product_id for no key update`)
}
