import type { CatalogueEvent } from '../catalogue/catalogue-event.ts'
import type { OrderEvent } from '../orders/events.ts'
import type { SubscriberName } from '../subscribers.ts'
import type { TopicEvent, TopicMessage } from '../topic/topic.ts'
import { toCatalogueRow } from './catalogue-row.ts'
import type { DatasetName } from './lake-names.ts'
import { toLakeRow } from './lake-row.ts'

/**
 * The events of one partition of the topic in the lake: files in a folder of their own, each event in exactly one. See
 * docs/decisions/lake-tables.md.
 */
export interface LakeDataset<E extends TopicEvent> {
  /** Its folder, from the lake's root. */
  name: DatasetName
  subscriber: SubscriberName
  toRow(message: TopicMessage<E>, ingestedAt: string): object
}

/** A row for each change of an order. */
export const ORDER_DATASET: LakeDataset<OrderEvent> = { name: 'orders', subscriber: 'lake', toRow: toLakeRow }

/** A row for each change of a product, a price or the reach of stock. */
export const CATALOGUE_DATASET: LakeDataset<CatalogueEvent> = {
  name: 'catalogue',
  subscriber: 'catalogue-lake',
  toRow: toCatalogueRow,
}
