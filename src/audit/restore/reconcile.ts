import { listIncarnations } from '../../topic/incarnations.ts'
import { repairLake } from '../replay/repair-lake.ts'
import { type ComparedStores, listLostEvents } from './find-data-loss.ts'

export interface ReconcileReport {
  /** Events of the time that was lost. They stay in the lake. */
  lostEvents: number
  /** Orders that were placed then, oldest first: number and id. */
  lostOrders: { id: string; number: number }[]
  /** Orders of which later changes were lost, by id. */
  changedOrders: string[]
  /** Events that the lake lacked. */
  written: number
}

export interface ReconcileOptions extends ComparedStores {
  /** Address of the database. */
  url: string
  now: () => Date
}

/**
 * Brings topic and lake into agreement with a database that was restored: what it has and they lack is on the topic when this is called, and
 * comes to the lake; what they have and it lacks is known as lost from here on. Null when there is nothing to do.
 */
export async function reconcile({ url, now, ...compared }: ReconcileOptions): Promise<ReconcileReport | null> {
  const { pool, topic, lake } = compared
  const pending = (await listIncarnations(pool)).filter(({ isReconciled }) => !isReconciled)
  if (pending.length === 0) return null
  const lost = new Map<string, number>()
  for (const { lost: range } of pending) {
    if (range === null) continue
    for (const { eventId, orderNumber } of (await listLostEvents(compared, range)).values()) lost.set(eventId, orderNumber)
  }
  const written = lake === null ? 0 : (await repairLake({ pool, url, store: lake, topic, now })).written
  const numbers = new Map([...lost].map(([eventId, number]) => [eventId.split('.')[0] ?? '', number]))
  const { rows } = await pool.query<{ id: string }>('select id from orders where id = any($1::uuid[])', [[...numbers.keys()]])
  const present = new Set(rows.map(({ id }) => id))
  await pool.query('update database_incarnations set reconciled_at = now() where number = any($1::integer[]) and reconciled_at is null', [
    pending.map(({ number }) => number),
  ])
  return {
    lostEvents: lost.size,
    lostOrders: [...numbers].flatMap(([id, number]) => (present.has(id) ? [] : [{ id, number }])).sort((a, b) => a.number - b.number),
    changedOrders: [...present],
    written,
  }
}
