import { type AuditContext, recordActivity } from '../activity/record-activity.ts'
import type { Pool } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import type { IfMatch } from '../http/if-match.ts'
import { changeStockLevel, lockStockLevel, type StockLevel } from './stock-adjustments.ts'

/** A count of the units, made of the state that `versions` and `expected` name. Both conditions must be met. */
export interface StockCount {
  /** The new level; null ends the tracking. */
  stock: number | null
  versions: IfMatch
  /** The number that is available as far as the caller knows; undefined for any. */
  expected?: number | null | undefined
  reference: string | null
  reason: string | null
  auditContext: AuditContext
}

/** Sets the stock of one product. Throws `not_found`, and `precondition_failed` with the current stock. */
export async function setStock(pool: Pool, productId: string, count: StockCount): Promise<StockLevel> {
  return inTransaction(pool, async (tx) => {
    const before = await lockStockLevel(tx, productId)
    assertAsExpected(before, count)
    // Nothing changes, so the version stays.
    if (before.available === count.stock) return before
    const { reference, reason, auditContext } = count
    const change = { kind: 'count', after: count.stock, reference, reason, by: auditContext.actor } as const
    const { version } = await changeStockLevel(tx, productId, before, change)
    const states = { before: { stock: before.available }, after: { stock: count.stock } }
    await recordActivity(tx, auditContext, { subjectType: 'product', subjectId: productId, ...states })
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
