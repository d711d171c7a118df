import type { CatalogueEvent } from '../catalogue/catalogue-event.ts'
import { findCatalogueEventDefect } from '../catalogue/catalogue-event-defects.ts'
import { findEventDefect } from '../orders/event-defects.ts'
import { type OrderEvent, previousEventId, toEarlierEvents } from '../orders/events.ts'
import type { TopicPartition } from './topic.ts'

export const ORDERS: TopicPartition<OrderEvent> = {
  name: 'orders',
  eventName: 'order event',
  findDefect: findEventDefect,
  earlierEvents: toEarlierEvents,
  previousEventId,
}

/** Product, price and stock events. An import may cause a million, so order events have their own partition. */
export const CATALOGUE: TopicPartition<CatalogueEvent> = {
  name: 'catalogue',
  eventName: 'catalogue event',
  findDefect: findCatalogueEventDefect,
  earlierEvents: () => [],
  previousEventId: () => null,
}
