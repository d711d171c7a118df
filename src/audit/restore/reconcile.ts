import { listIncarnations } from '../../topic/incarnations.ts'
import { repairLake } from '../replay/repair-lake.ts'
import { type ComparedStores, listLostEvents } from './find-data-loss.ts'

export interface ReconcileReport {
  /** The number of events that the restore lost. They stay in the lake. */
  lostEvents: number
  /** Orders that the restore lost, oldest first. */
  lostOrders: { id: string; number: number }[]
  /** Ids of orders whose latest changes were lost. */
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
 * Reconciles topic and lake with a restored database. `replay` must have published what the topic lacks; this writes it to the lake, and
 * records that events which only topic or lake have are lost. Null when there is nothing to do.
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
