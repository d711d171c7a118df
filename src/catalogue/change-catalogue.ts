import { type ActivityChange, type AuditContext, recordActivity } from '../activity/record-activity.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import type { CatalogueVersion } from './catalogue-version.ts'

/** The catalogue of a process that changes it, and that may show it too. */
export interface ChangedCatalogue {
  pool: Pool
  version?: Pick<CatalogueVersion, 'refresh'>
}

/** Runs `work` in a transaction. The process shows the change from then on, others within a second. */
export async function inCatalogue<T>({ pool, version }: ChangedCatalogue, work: (tx: Transaction) => Promise<T>): Promise<T> {
  const result = await inTransaction(pool, work)
  await version?.refresh()
  return result
}

/** The existing products of a change. */
interface Concerned {
  ids: readonly string[]
  /** Locks their stock too. */
  withStock?: boolean
  /** The author; null for the store itself, whose changes are no activity. */
  auditContext: AuditContext | null
}

/** A product that is locked until the transaction ends. */
export interface LockedProduct {
  id: string
  sku: string
}

export interface CatalogueChange<T> {
  result: T
  /** The products whose rows or pages were written. */
  written: readonly string[]
  /** Null when nothing differs. */
  activity: Omit<ActivityChange, 'subjectType'> | null
}

/**
 * The one protocol of a change of products: stock and then products are locked in id order, as orders do, so that two changes cannot
 * deadlock; `work` reads and writes them; their events and one activity follow. A change that names categories calls `resolveCategories` first.
 */
export async function changeCatalogue<T>(
  tx: Transaction,
  { ids, withStock = false, auditContext }: Concerned,
  work: (locked: LockedProduct[]) => Promise<CatalogueChange<T>>,
): Promise<T> {
  if (withStock && ids.length > 0) {
    await tx.query(sql`select from inventory where product_id = any(${ids}::uuid[]) order by product_id for update`)
  }
  const locked = ids.length === 0 ? [] : await lockProducts(tx, ids)
  await recordProductsWithoutEvents(tx, ids)
  const { result, written, activity } = await work(locked)
  await recordProductEvents(tx, written, auditContext?.traceparent ?? null)
  if (auditContext !== null && activity !== null) await recordActivity(tx, auditContext, { subjectType: 'product', ...activity })
  return result
}

/** Locks by a statement of its own: later ones see what was committed during the wait, in other tables too. */
async function lockProducts(tx: Transaction, ids: readonly string[]): Promise<LockedProduct[]> {
  const { rows } = await tx.query<LockedProduct>(
    sql`select id, sku from products where id = any(${ids}::uuid[]) order by id for no key update`,
  )
  return rows
}

/**
 * Records what has changed of these products since their newest events. Their rows must be locked. `traceparent` is that of the request, if
 * any. Returns the number of events. See docs/decisions/catalogue-events.md#the-record.
 */
export async function recordProductEvents(tx: Transaction, productIds: readonly string[], traceparent: string | null): Promise<number> {
  if (productIds.length === 0) return 0
  const { rows } = await tx.query<{ recorded: number }>(
    sql`select record_product_events(${productIds}::uuid[], ${traceparent}) as recorded`,
  )
  return rows[0]?.recorded ?? 0
}

/**
 * Records products before they are changed, while some still wait for their first event: otherwise no record would have
 * the price that ends. Their rows must be locked.
 */
async function recordProductsWithoutEvents(tx: Transaction, productIds: readonly string[]): Promise<void> {
  if (productIds.length === 0) return
  await tx.query(sql`select record_product_events(${productIds}::uuid[], null) where exists (select from product_event_backfill)`)
}
