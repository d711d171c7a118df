import { type CatalogueEvent, catalogueEventId, type ProductEventRecord } from '../../catalogue/catalogue-event.ts'
import { ORDER_EVENTS, orderEventsIn } from '../../change-stream/publish-order-events.ts'
import { keepProductEvents, PRODUCT_EVENTS } from '../../change-stream/publish-product-events.ts'
import type { StoredEvents } from '../../change-stream/publish-stored-events.ts'
import { CATALOGUE_PUBLICATION, PUBLICATION } from '../../change-stream/replication-slot.ts'
import { CATALOGUE_DATASET, type LakeDataset, ORDER_DATASET } from '../../lake/lake-dataset.ts'
import { isImported, isMailed, type OrderEvent, type OrderRecord, orderEventIds, splitPersonal } from '../../orders/events.ts'
import type { Topic, TopicEvent } from '../../topic/topic.ts'
import type { EventContent } from './event-digest.ts'
import type { Place } from './finding.ts'
import type { IdRange } from './id-range.ts'

export interface ComparedPartition<Row extends object, E extends TopicEvent> {
  topic: Topic<E>
  publication: string
  table: string
  keys: readonly (keyof Row & string)[]
  stored: StoredEvents<Row, E>
  /** The compared event ids. Absent: all. Places that cannot look them up are read whole. */
  range?: IdRange | undefined
  dataset: LakeDataset<E>
  places: Readonly<Record<'rows' | 'stream' | 'topic' | 'lake', Place>>
  /** Whether rows stay, so that an event without a row is a fault. */
  keepsRows: boolean
  contentOf(event: E): EventContent
  isMailed(event: E): boolean
  /** Ids of a row's events, even if no event can be made of it. */
  idsOf(row: Row): string[]
  /** Invalid when something other than the store has written it. */
  changedAt(row: Row): Date
  /** No old row is removed during `work`. `assertKept` throws when that is no longer so. */
  keepRows<T>(url: string, work: (assertKept: () => Promise<unknown>) => Promise<T>): Promise<T>
}

/** The partition of orders. With `range`, only orders with these ids are compared, with all their events. */
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
      const { order, personal } = splitPersonal(event.data.order)
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
