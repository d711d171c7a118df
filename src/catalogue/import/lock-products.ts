import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { StockLevel } from '../stock-adjustments.ts'

/** Another transaction has given the sku of a line to a product, or taken it from one. The transaction must be rolled back and retried. */
export class SkuTakenConcurrently extends Error {
  override readonly name = 'SkuTakenConcurrently'
}

export interface LockedStock extends StockLevel {
  product_id: string
}

/** The stock of the existing products, by sku. Locked in product order and before the products, as orders do, so that they cannot deadlock. */
export async function lockStockOf(tx: Transaction, products: readonly { sku: string }[]): Promise<Map<string, LockedStock>> {
  const { rows } = await tx.query<LockedStock & { sku: string }>(
    `select products.sku, inventory.product_id, inventory.available, inventory.version
     from products
     join inventory on inventory.product_id = products.id
     where products.sku = any($1)
     order by inventory.product_id
     for update of inventory`,
    [products.map(({ sku }) => sku)],
  )
  return new Map(rows.map((row) => [row.sku, row]))
}

/**
 * Locks the products of locked stock. Later statements see what was committed during the wait, so what a line does not
 * name stays as an operator has just saved it. Throws SkuTakenConcurrently when a product's sku has changed.
 */
export async function lockProducts(tx: Transaction, stock: ReadonlyMap<string, LockedStock>): Promise<void> {
  if (stock.size === 0) return
  const { rows } = await tx.query<{ id: string; sku: string }>(
    sql`select id, sku from products where id = any(${[...stock.values()].map((row) => row.product_id)}::uuid[]) order by id for no key update`,
  )
  if (rows.filter(({ id, sku }) => stock.get(sku)?.product_id === id).length !== stock.size) throw new SkuTakenConcurrently()
}
