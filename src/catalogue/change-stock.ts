import { type AuditContext, recordActivity } from '../activity/record-activity.ts'
import type { Transaction } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import type { IfMatch } from '../http/if-match.ts'
import { type ChangedCatalogue, inCatalogue } from './change-catalogue.ts'
import { MAX_STOCK } from './product-rules.ts'
import { findAdjustment, lockStockLevel, type StockAdjustment, type StockLevel, writeStock } from './stock-adjustments.ts'

interface StockChange {
  reason: string | null
  auditContext: AuditContext
}

/** A stock count, based on the state in `versions` and `expected`. Both conditions must be met. */
export interface StockCount extends StockChange {
  /** The new level. Null ends the tracking. */
  stock: number | null
  versions: IfMatch
  /** The available number that the caller assumes. Undefined accepts any number. */
  expected?: number | null | undefined
  reference: string | null
}

/** A stock change outside orders, such as a delivery or breakage. */
export interface Adjustment extends StockChange {
  /** Units to add, or to remove if negative. Never 0. */
  delta: number
  /** Identifies the movement, such as a delivery note. Booked once for each product. */
  reference: string
}

/** Sets a product's stock. Throws `not_found`, and `precondition_failed` with the current stock. */
export async function setStock(catalogue: ChangedCatalogue, productId: string, count: StockCount): Promise<StockLevel> {
  return inCatalogue(catalogue, async (tx) => {
    const before = await lockStockLevel(tx, productId)
    assertAsExpected(before, count)
    if (before.available === count.stock) return before
    const { version } = await writeLevel(tx, productId, before, { ...count, kind: 'count', after: count.stock })
    return { available: count.stock, version }
  })
}

/**
 * Adds units to a product's stock, or removes them, once for each reference. A repeated call returns the first
 * adjustment. Throws `not_found`, `insufficient_stock`, `stock_not_tracked`, `adjustment_reference_taken` or
 * `invalid_body`.
 */
export async function adjustStock(
  catalogue: ChangedCatalogue,
  productId: string,
  change: Adjustment,
): Promise<{ adjustment: StockAdjustment; isReplay: boolean }> {
  return inCatalogue(catalogue, async (tx) => {
    // Locks before searching the reference, so the second of two concurrent calls finds the first one's adjustment.
    const before = await lockStockLevel(tx, productId)
    const earlier = await findEarlier(tx, productId, change)
    if (earlier !== null) return { adjustment: earlier, isReplay: true }
    const after = add(productId, before.available, change.delta)
    return { adjustment: await writeLevel(tx, productId, before, { ...change, kind: 'adjustment', after }), isReplay: false }
  })
}

async function writeLevel(
  tx: Transaction,
  productId: string,
  { available: before }: StockLevel,
  { kind, after, reference, reason, auditContext }: StockChange & Pick<StockAdjustment, 'kind' | 'after' | 'reference'>,
): Promise<StockAdjustment> {
  const change = { productId, isFirst: false, before, after, reference }
  const [written] = await writeStock(tx, [change], { kind, reason, by: auditContext.actor })
  const states = { before: { stock: before }, after: { stock: after } }
  await recordActivity(tx, auditContext, { subjectType: 'product', subjectId: productId, ...states })
  return written as StockAdjustment
}

function assertAsExpected({ available, version }: StockLevel, { versions, expected }: StockCount): void {
  const isVersion = versions === null || versions.has(String(version))
  if (isVersion && (expected === undefined || expected === available)) return
  throw new AppError('precondition_failed', 'The stock has changed since it was counted.', {
    members: { available, version },
    headers: { etag: `"${version}"` },
  })
}

async function findEarlier(tx: Transaction, productId: string, { reference, delta }: Adjustment): Promise<StockAdjustment | null> {
  const earlier = await findAdjustment(tx, productId, reference)
  if (earlier === null || earlier.delta === delta) return earlier
  throw new AppError(
    'adjustment_reference_taken',
    'This reference was used before to change the stock of this product by another number.',
    {
      members: { adjustment: earlier },
    },
  )
}

function add(productId: string, available: number | null, delta: number): number {
  if (available === null) throw new AppError('stock_not_tracked', 'The stock of this product is not tracked. Set a quantity first.')
  const after = available + delta
  if (after < 0) {
    throw new AppError('insufficient_stock', `${available} units are available, and ${-delta} would be removed.`, {
      members: { available, shortages: [{ product_id: productId, requested: -delta, available }] },
    })
  }
  if (after <= MAX_STOCK) return after
  const detail = `would make more than ${MAX_STOCK}`
  throw new AppError('invalid_body', 'The body is not acceptable.', { errors: [{ pointer: '#/delta', detail }] })
}
