import {
  type CatalogueEvent,
  catalogueEventId,
  PRODUCT_EVENT_COLUMNS,
  type ProductEventRecord,
  toCatalogueEvent,
} from '../catalogue/catalogue-event.ts'
import { findRecordDefect } from '../catalogue/catalogue-event-defects.ts'
import { CatalogueEpochs } from './catalogue-epochs.ts'
import type { ChangeStream } from './change-stream.ts'
import { CATALOGUE_DEAD_LETTERS } from './dead-letters.ts'
import { publishProductEvents } from './publish-product-events.ts'
import { CATALOGUE_PUBLICATION } from './replication-slot.ts'
import type { StreamSource } from './slot-reader.ts'
import { createStreamHandler, type StreamHandlerOptions } from './stream-handler.ts'

/** Rows that are added to `product_events`. */
const CATALOGUE_SOURCE: StreamSource<ProductEventRecord, never> = {
  publication: CATALOGUE_PUBLICATION,
  shape: { table: 'product_events', columns: PRODUCT_EVENT_COLUMNS, previousColumns: [] },
}

/** Takes 5 ms of this process, in which orders' events wait. A part of a large transaction has ten times as many. */
const PUBLISH_AT_MOST = 1_000

/**
 * Reads the events of the catalogue from a slot of its own and publishes them to a partition of its own. A lost slot is refilled from
 * `product_events`, and so is a topic without events: see docs/decisions/change-stream-slots.md#refilling-a-lost-slot.
 */
export function createCatalogueStreamHandler(options: StreamHandlerOptions<CatalogueEvent>): ChangeStream<ProductEventRecord, never> {
  const { url, pool, topic, logger, beforePublishing } = options
  const epochs = new CatalogueEpochs(pool, topic)
  return createStreamHandler(options, {
    source: CATALOGUE_SOURCE,
    deadLetters: CATALOGUE_DEAD_LETTERS,
    subject: 'a product',
    publishAtMost: PUBLISH_AT_MOST,
    findDefect: findRecordDefect,
    eventIdOf: catalogueEventId,
    toMessages: async (commits) =>
      commits.flatMap(({ position, changes }) => changes.map(({ record }) => ({ position, event: toCatalogueEvent(record) }))),
    beforeEachPublish: () => epochs.assertSame(),
    publishStored: (signal) => epochs.fill(() => publishProductEvents({ url, db: pool, topic, logger, signal })),
    async findGap(signal) {
      // A restored database must have its incarnation before a broker's stream is opened.
      await beforePublishing?.(signal)
      return epochs.findGap()
    },
    onOpened: () => epochs.assertFilled(),
  })
}
