import { applyDueChanges } from '../catalogue/apply-due-changes.ts'
import { readPrices, type SellableProduct } from '../catalogue/products.ts'
import { lockStock, type StockLevels, type StockLine, type StockPrecision } from '../catalogue/stock.ts'
import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { findPurchases, type Purchases } from './placing/customer-limits.ts'

/** The stock and purchase rows are locked. */
export interface AmendmentOffer {
  products: ReadonlyMap<string, SellableProduct>
  stock: StockLevels
  precision: StockPrecision
  /** The customer's purchases, including this order. Null when the shop has no limit. */
  purchases: Purchases | null
}

/** `limit` is the largest number of units of one product for one customer, or null. The order must be locked. */
export async function readOffer(
  tx: Transaction,
  userId: string,
  lines: readonly StockLine[],
  { limit, precision }: { limit: number | null; precision: StockPrecision },
): Promise<AmendmentOffer> {
  // An order that is being placed locks this row, too, so its units are counted.
  const lockCount = sql`insert into pending_order_counts (user_id, pending) values (${userId}, 0)
    on conflict (user_id) do update set pending = pending_order_counts.pending`
  if (limit !== null) await tx.query(lockCount)
  const productIds = lines.map((line) => line.product_id)
  const stock = await lockStock(tx, productIds)
  await applyDueChanges(tx, productIds)
  const { products } = await readPrices(tx, productIds)
  return { products, stock, precision, purchases: limit === null ? null : await findPurchases(tx, [{ userId, basket: { lines } }], limit) }
}
