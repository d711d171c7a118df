import { type AuditContext, recordActivity } from '../activity/record-activity.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import { MAX_STOCK } from './product-input.ts'
import { changeStockLevel, findAdjustment, lockStockLevel, type StockAdjustment } from './stock-adjustments.ts'

/** A change of stock outside orders, such as a delivery or breakage. */
export interface Adjustment {
  /** Units to add, or to remove when negative. Never 0. */
  delta: number
  /** Identifies the movement, such as a delivery note. Booked once for each product. */
  reference: string
  reason: string | null
  auditContext: AuditContext
}

/**
 * Changes the stock of one product by a number of units, once for each reference: a repeat returns the first adjustment.
 * Throws `not_found`, `insufficient_stock`, `stock_not_tracked`, `adjustment_reference_taken` or `invalid_body`.
 */
export async function adjustStock(
  pool: Pool,
  productId: string,
  adjustment: Adjustment,
): Promise<{ adjustment: StockAdjustment; isReplay: boolean }> {
  return inTransaction(pool, async (tx) => {
    // The lock precedes the search for the reference: of two concurrent calls the second waits here and then finds the
    // adjustment of the first.
    const before = await lockStockLevel(tx, productId)
    const earlier = await findEarlier(tx, productId, adjustment)
    if (earlier !== null) return { adjustment: earlier, isReplay: true }
    const after = add(productId, before.available, adjustment.delta)
    const { reference, reason, auditContext } = adjustment
    const change = { kind: 'adjustment', after, reference, reason, by: auditContext.actor } as const
    const booked = await changeStockLevel(tx, productId, before, change)
    const states = { before: { stock: before.available }, after: { stock: after } }
    await recordActivity(tx, auditContext, { subjectType: 'product', subjectId: productId, ...states })
    return { adjustment: booked, isReplay: false }
  })
}

async function findEarlier(tx: Transaction, productId: string, { reference, delta }: Adjustment): Promise<StockAdjustment | null> {
  const earlier = await findAdjustment(tx, productId, reference)
  if (earlier === null || earlier.delta === delta) return earlier
  throw new AppError('adjustment_reference_taken', 'The stock of this product was changed under this reference by another number.', {
    members: { adjustment: earlier },
  })
}

function add(productId: string, available: number | null, delta: number): number {
  if (available === null) throw new AppError('stock_not_tracked', 'The stock of this product is not tracked: set it first.')
  const after = available + delta
  if (after < 0) {
    throw new AppError('insufficient_stock', `${available} available, ${-delta} to be taken off.`, {
      members: { available, shortages: [{ product_id: productId, requested: -delta, available }] },
    })
  }
  if (after <= MAX_STOCK) return after
  const detail = `would make more than ${MAX_STOCK}`
  throw new AppError('invalid_body', 'The body is not acceptable.', { errors: [{ pointer: '#/delta', detail }] })
}
