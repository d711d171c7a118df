import type { CatalogueEvent } from '../catalogue/catalogue-event.ts'
import type { OrderEvent } from '../orders/events.ts'
import type { SubscriberName } from '../subscribers.ts'
import type { TopicEvent, TopicMessage } from '../topic/topic.ts'
import { toCatalogueRow } from './catalogue-row.ts'
import type { DatasetName } from './lake-names.ts'
import { toLakeRow } from './lake-row.ts'

/** The events of one topic partition: each is in exactly one file of the folder. See docs/decisions/lake-tables.md. */
export interface LakeDataset<E extends TopicEvent> {
  name: DatasetName
  subscriber: SubscriberName
  toRow(message: TopicMessage<E>, ingestedAt: string): object
}

export const ORDER_DATASET: LakeDataset<OrderEvent> = { name: 'orders', subscriber: 'lake', toRow: toLakeRow }

export const CATALOGUE_DATASET: LakeDataset<CatalogueEvent> = {
  name: 'catalogue',
  subscriber: 'catalogue-lake',
  toRow: toCatalogueRow,
}
