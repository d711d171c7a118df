import type { CatalogueEvent } from '../../catalogue/catalogue-event.ts'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { type LostRange, listIncarnations, subjectOf } from '../../topic/incarnations.ts'
import type { Topic } from '../../topic/topic.ts'
import { lockProducts, lockStock } from '../lock-products.ts'
import { repairLake } from '../replay/repair-lake.ts'
import { type ComparedStores, listLostEvents } from './find-data-loss.ts'

const BATCH_SIZE = 500

export interface ReconcileReport {
  lostEvents: number
  lostOrders: { id: string; number: number }[]
  changedOrders: string[]
  lostProducts: string[]
  /** Products that lost their latest changes, and whose current state is recorded. */
  restatedProducts: string[]
  written: number
}

export interface ReconcileOptions extends ComparedStores {
  catalogueTopic: Topic<CatalogueEvent>
  url: string
  now: () => Date
}

/**
 * Writes missing events to the lake. Records lost events, and the current states of their products. Call `replay`
 * first. Returns null if there is nothing to do.
 */
export async function reconcile({ url, now, catalogueTopic, ...compared }: ReconcileOptions): Promise<ReconcileReport | null> {
  const { pool, topic, lake } = compared
  const pending = (await listIncarnations(pool)).filter(({ isReconciled }) => !isReconciled)
  if (pending.length === 0) return null
  const lost = new Map<string, number>()
  for (const { lost: range } of pending) {
    if (range === null) continue
    for (const { eventId, orderNumber } of (await listLostEvents(compared, range)).values()) lost.set(eventId, orderNumber)
  }
  const catalogue = await restateProducts(
    { ...compared, topic: catalogueTopic },
    pending.flatMap(({ catalogueLost }) => catalogueLost ?? []),
  )
  const written = lake === null ? 0 : (await repairLake({ pool, url, store: lake, topic, now })).written
  const numbers = new Map([...lost].map(([eventId, number]) => [subjectOf(eventId), number]))
  const { rows } = await pool.query<{ id: string }>('select id from orders where id = any($1::uuid[])', [[...numbers.keys()]])
  const present = new Set(rows.map(({ id }) => id))
  await pool.query('update database_incarnations set reconciled_at = now() where number = any($1::integer[]) and reconciled_at is null', [
    pending.map(({ number }) => number),
  ])
  return {
    lostEvents: lost.size,
    lostOrders: [...numbers].flatMap(([id, number]) => (present.has(id) ? [] : [{ id, number }])).sort((a, b) => a.number - b.number),
    changedOrders: [...present],
    ...catalogue,
    written,
  }
}

async function restateProducts(
  compared: ComparedStores<CatalogueEvent>,
  ranges: readonly LostRange[],
): Promise<Pick<ReconcileReport, 'lostProducts' | 'restatedProducts'>> {
  const [all, ofStock] = [new Set<string>(), new Set<string>()]
  for (const range of ranges)
    for (const eventId of (await listLostEvents(compared, range)).keys()) {
      all.add(subjectOf(eventId))
      if (eventId.includes('.stock.')) ofStock.add(subjectOf(eventId))
    }
  const ids = [...all]
  const present = new Set<string>()
  for (let from = 0; from < ids.length; from += BATCH_SIZE) {
    const batch = ids.slice(from, from + BATCH_SIZE)
    const stock = batch.filter((id) => ofStock.has(id))
    await inTransaction(compared.pool, async (tx) => {
      // All code locks stock before products.
      await lockStock(tx, stock)
      for (const id of await lockProducts(tx, batch)) present.add(id)
      await tx.query(sql`select restate_products(${batch}::uuid[]), record_stock_events(${stock}::uuid[])`)
    })
  }
  return { lostProducts: ids.filter((id) => !present.has(id)), restatedProducts: [...present] }
}
