import type { Pool } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import { changeStockLevel, lockStockLevel, type StockActor, type StockLevel } from './stock-adjustments.ts'

/** A count: how many pieces there are, made when the stock was as `versions` or `expected` say. Both must hold when both are given. */
export interface StockCount {
  /** Null: not tracked from now on. */
  stock: number | null
  /** As `If-Match` has them; null for any. */
  versions: ReadonlySet<string> | null
  /** The number that the caller believes to be available; undefined for any. */
  expected?: number | null | undefined
  reference: string | null
  reason: string | null
  by: StockActor
}

/** Sets the stock of one product. Throws `not_found`, and `precondition_failed` with the stock as it is. */
export async function setStock(pool: Pool, productId: string, count: StockCount): Promise<StockLevel> {
  return inTransaction(pool, async (tx) => {
    const before = await lockStockLevel(tx, productId)
    assertAsExpected(before, count)
    // Nothing to keep: the version still means this number.
    if (before.available === count.stock) return before
    const { reference, reason, by } = count
    const { version } = await changeStockLevel(tx, productId, before, { kind: 'count', after: count.stock, reference, reason, by })
    return { available: count.stock, version }
  })
}

function assertAsExpected({ available, version }: StockLevel, { versions, expected }: StockCount): void {
  const isVersion = versions === null || versions.has(String(version))
  if (isVersion && (expected === undefined || expected === available)) return
  throw new AppError('precondition_failed', 'The stock has changed since it was counted.', {
    members: { available, version },
    headers: { etag: `"${version}"` },
  })
}
