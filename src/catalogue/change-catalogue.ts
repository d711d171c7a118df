import { type ActivityChange, type AuditContext, recordActivity } from '../activity/record-activity.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import type { CatalogueVersion } from './catalogue-version.ts'

/** The catalogue of a process that changes it and may also show it. */
export interface ChangedCatalogue {
  pool: Pool
  version?: Pick<CatalogueVersion, 'refresh'>
}

/** Runs `work` in a transaction. This process shows the change at once, others within a second. */
export async function inCatalogue<T>({ pool, version }: ChangedCatalogue, work: (tx: Transaction) => Promise<T>): Promise<T> {
  const result = await inTransaction(pool, work)
  await version?.refresh()
  return result
}

/** The existing products in a change. */
interface Concerned {
  ids: readonly string[]
  /** Locks their stock too. */
  withStock?: boolean
  /** The author. Null for the store itself, whose changes are not recorded as activities. */
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
  /** It is null if nothing differs. */
  activity: Omit<ActivityChange, 'subjectType'> | null
}

/**
 * Runs a product change; every one must use this. It locks stock and then products, in id order like orders do, so two
 * changes cannot deadlock. `work` then reads and writes them; events and one activity are recorded. A change that names
 * categories calls `resolveCategories` first.
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

/** Locks in a separate statement, so later ones see what was committed during the wait, in other tables too. */
async function lockProducts(tx: Transaction, ids: readonly string[]): Promise<LockedProduct[]> {
  const { rows } = await tx.query<LockedProduct>(
    sql`select id, sku from products where id = any(${ids}::uuid[]) order by id for no key update`,
  )
  return rows
}

/**
 * Records changes of these locked products since their newest events. `traceparent` is the request's, if any. Returns
 * the number of events. See docs/decisions/catalogue-events.md#the-record.
 */
export async function recordProductEvents(tx: Transaction, productIds: readonly string[], traceparent: string | null): Promise<number> {
  if (productIds.length === 0) return 0
  const { rows } = await tx.query<{ recorded: number }>(
    sql`select record_product_events(${productIds}::uuid[], ${traceparent}) as recorded`,
  )
  return rows[0]?.recorded ?? 0
}

/**
 * Records locked products before their change if some still lack a first event. Otherwise no record would have the
 * price that ends.
 */
async function recordProductsWithoutEvents(tx: Transaction, productIds: readonly string[]): Promise<void> {
  if (productIds.length === 0) return
  await tx.query(sql`select record_product_events(${productIds}::uuid[], null) where exists (select from product_event_backfill)`)
}
