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

/**
 * The events of products, prices and stock. They are separate from order events, because an import may cause a million
 * of them.
 */
export const CATALOGUE: TopicPartition<CatalogueEvent> = {
  name: 'catalogue',
  eventName: 'catalogue event',
  findDefect: findCatalogueEventDefect,
  earlierEvents: () => [],
  previousEventId: () => null,
}
