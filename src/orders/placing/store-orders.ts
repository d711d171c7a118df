import { plainArray, textArray, uuidArray } from '../../db/list-parameters.ts'
import type { Pool } from '../../db/pool.ts'
import { prepared, sql } from '../../db/sql.ts'
import { retryDeadlocks } from '../../db/transaction.ts'
import { showGiven } from '../order-columns.ts'
import type { Draft } from './batch-decision.ts'
import { KEY_RETENTION_HOURS } from './idempotency.ts'
import { lockKeysOf, type OrderLimits } from './order-request.ts'

export interface StoreOptions extends OrderLimits {
  pool: Pool
  pricesVersion: string
  lockTimeoutMs: number
}

/**
 * Stores all drafts or none in one round trip. Returns ascending order numbers, or null when the state has changed
 * since the decision. Fails with SQLSTATE 55P03 after `lockTimeoutMs`.
 */
export async function storeOrders(options: StoreOptions, drafts: readonly Draft[]): Promise<string[] | null> {
  if (drafts.length === 0) return []
  const lockKeys = drafts.flatMap(({ key, order, repeats }) => lockKeysOf({ ...order, idempotencyKey: key, repeats }))
  const taken = new Map<string, number>()
  for (const { order } of drafts) {
    for (const { product_id, quantity } of order.items) taken.set(product_id, (taken.get(product_id) ?? 0) + quantity)
  }
  const statement = sql`select place_orders(
    ${JSON.stringify(drafts.map((draft) => toRecord(draft, options.maxGuestStockPercent ?? null)))}::json,
    ${textArray(drafts.map(({ itemsJson }) => itemsJson))},
    ${lockKeys}::text[],
    ${uuidArray([...taken.keys()])}::uuid[],
    ${plainArray([...taken.values()])}::bigint[],
    ${options.pricesVersion},
    ${options.maxPendingOrdersPerUser}::bigint,
    ${options.maxQuantityPerProductAndUser}::bigint,
    ${KEY_RETENTION_HOURS}::integer,
    ${options.lockTimeoutMs}::integer
  ) as numbers`
  const { rows } = await retryDeadlocks(() => options.pool.query<{ numbers: string[] | null }>(prepared(statement, 'place_orders')))
  return rows[0]?.numbers ?? null
}

function toRecord(
  { key, order, repeats, stockHolder, auditContext, itemAttributes, responseTemplate }: Draft,
  maxGuestStockPercent: number | null,
): Record<string, unknown> {
  return {
    id: order.id,
    user_id: order.userId,
    product_ids: plainArray([...new Set(order.items.map((item) => item.product_id))]),
    total_amount: order.total.amount,
    currency: order.total.currency,
    ...showGiven(order),
    ...(itemAttributes === null ? {} : { item_attributes: itemAttributes }),
    ...(stockHolder === null ? {} : { stock_holder: stockHolder, max_guest_stock_percent: maxGuestStockPercent }),
    ...(repeats.length === 0
      ? {}
      : { repeat_names: plainArray(repeats.map(({ name }) => name)), repeat_seconds: plainArray(repeats.map(({ seconds }) => seconds)) }),
    ...(auditContext === null ? {} : { audited_action: auditContext.action, request_id: auditContext.requestId }),
    status_history: order.statusHistory,
    traceparent: order.traceparent,
    placed_at: order.createdAt,
    idempotency_key: key?.key ?? null,
    fingerprint: key === null ? null : `\\x${key.fingerprint.toString('hex')}`,
    response_template: responseTemplate,
  }
}
