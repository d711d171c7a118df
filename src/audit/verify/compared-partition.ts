import { type CatalogueEvent, catalogueEventId, type ProductEventRecord } from '../../catalogue/catalogue-event.ts'
import { ORDER_EVENTS, orderEventsIn } from '../../change-stream/publish-order-events.ts'
import { keepProductEvents, PRODUCT_EVENTS } from '../../change-stream/publish-product-events.ts'
import type { StoredEvents } from '../../change-stream/publish-stored-events.ts'
import { CATALOGUE_PUBLICATION, PUBLICATION } from '../../change-stream/replication-slot.ts'
import type { Queryable } from '../../db/pool.ts'
import { CATALOGUE_DATASET, type LakeDataset, ORDER_DATASET } from '../../lake/lake-dataset.ts'
import { isImported, isMailed, type OrderEvent, type OrderRecord, orderEventIds, PERSONAL_MEMBERS } from '../../orders/events.ts'
import type { Topic, TopicEvent } from '../../topic/topic.ts'
import type { EventContent } from './event-digest.ts'
import type { Place } from './finding.ts'
import type { IdRange } from './id-range.ts'

/** A partition of the topic with everything that is compared with it. */
export interface ComparedPartition<Row extends object, E extends TopicEvent> {
  topic: Topic<E>
  publication: string
  /** The table of the rows that events are made of. */
  table: string
  /** The columns that an event's id is made of. */
  keys: readonly (keyof Row & string)[]
  stored: StoredEvents<Row, E>
  /** The ids of the events that are compared; absent: all. Places that cannot look them up are read whole. */
  range?: IdRange | undefined
  dataset: LakeDataset<E>
  /** The names of its places in findings. */
  places: Readonly<Record<'rows' | 'stream' | 'topic' | 'lake', Place>>
  /** Whether rows stay, so that an event without a row is a fault. */
  keepsRows: boolean
  contentOf(event: E): EventContent
  isMailed(event: E): boolean
  /** Ids of the events of a row that none can be made of. */
  idsOf(row: Row): string[]
  /** The time of the row's newest change; invalid when something other than the store has written it. */
  changedAt(row: Row): Date
  /** Runs `work` while no row is removed because it is old. `assertKept` throws when that is no longer so. */
  keepRows<T>(url: string, work: (assertKept: () => Promise<unknown>) => Promise<T>): Promise<T>
}

/** `range`: compares the orders with these ids only, with all their events. */
export function orderPartition(topic: Topic, range?: IdRange): ComparedPartition<OrderRecord, OrderEvent> {
  return {
    topic,
    publication: PUBLICATION,
    table: 'orders',
    keys: ['id', 'version'],
    stored: range === undefined ? ORDER_EVENTS : orderEventsIn(range),
    range,
    dataset: ORDER_DATASET,
    places: { rows: 'orders', stream: 'change stream', topic: 'topic', lake: 'lake' },
    keepsRows: true,
    // The row has the trace of its newest version only.
    contentOf: ({ traceparent, ...event }) => {
      const order: Record<string, unknown> = { ...event.data.order }
      const personal = PERSONAL_MEMBERS.map((name) => order[name])
      for (const name of PERSONAL_MEMBERS) delete order[name]
      return { fixed: { ...event, data: { ...event.data, order } }, erasable: [traceparent, ...personal] }
    },
    isMailed: (event) => isMailed(event) && !isImported(event),
    idsOf: orderEventIds,
    changedAt: ({ updated_at }) => updated_at,
    keepRows: (_url, work) => work(async () => {}),
  }
}

export function cataloguePartition(topic: Topic<CatalogueEvent>): ComparedPartition<ProductEventRecord, CatalogueEvent> {
  return {
    topic,
    publication: CATALOGUE_PUBLICATION,
    table: 'product_events',
    keys: ['product_id', 'stream', 'version'],
    stored: PRODUCT_EVENTS,
    dataset: CATALOGUE_DATASET,
    places: { rows: 'products', stream: 'catalogue', topic: 'catalogue', lake: 'catalogue in the lake' },
    keepsRows: false,
    contentOf: (event) => ({ fixed: event, erasable: [] }),
    isMailed: () => false,
    idsOf: (row) => [catalogueEventId(row)],
    changedAt: ({ occurred_at }) => occurred_at,
    keepRows: keepProductEvents,
  }
}

/** The events with these ids that the database has, by id. Skips rows that no event can be made of. */
export async function makeEvents<Row, E extends TopicEvent>(
  db: Queryable,
  { readOf, findDefect, toEvents }: StoredEvents<Row, E>,
  ids: readonly string[],
): Promise<Map<string, E>> {
  const rows = await readOf(db, ids)
  const wanted = new Set(ids)
  const events = rows.filter((row) => findDefect(row) === null).flatMap(toEvents)
  return new Map(events.filter(({ id }) => wanted.has(id)).map((event) => [event.id, event]))
}
