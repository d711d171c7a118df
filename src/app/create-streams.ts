import { createScheduledChanges } from '../catalogue/apply-due-changes.ts'
import { createEventBackfill } from '../catalogue/backfill-events.ts'
import { createCategoryRenaming } from '../catalogue/categories/rename-products.ts'
import { createCataloguePurge } from '../catalogue/purge/purge-catalogue.ts'
import { createPurgers } from '../catalogue/purge/purger.ts'
import { createCatalogueStreamHandler } from '../change-stream/catalogue-stream-handler.ts'
import type { WatchedStream } from '../change-stream/change-stream.ts'
import { createOrderStreamHandler } from '../change-stream/order-stream-handler.ts'
import type { StreamHandlerOptions } from '../change-stream/stream-handler.ts'
import type { TopicEvent } from '../topic/topic.ts'
import { PublishingCheck } from './ensure-incarnation.ts'
import { catalogueSlotOf, orderSlotOf } from './prepare-database.ts'
import type { Service } from './service.ts'
import type { StoreParts } from './store-parts.ts'

/** The change streams of orders and of the catalogue. Neither waits for the other. */
export interface Streams {
  orders: WatchedStream
  catalogue: WatchedStream
}

/** Creates the streams, and the other services that follow changes of the catalogue. */
export function createStreams(parts: StoreParts): Streams & { services: Service[] } {
  const { config, pool, addresses, topic, catalogueTopic, copies, deliveries, logger, metrics, tracing } = parts
  const check = new PublishingCheck(config, { pool, url: addresses.api, logger })
  const shared = <E extends TopicEvent>(): Pick<
    StreamHandlerOptions<E>,
    'url' | 'pool' | 'logger' | 'onPublishing' | 'beforePublishing'
  > => ({
    ...{ url: addresses.stream, pool, logger },
    ...(tracing === null
      ? {}
      : {
          onPublishing: (events) =>
            tracing.startBatch('publish', events, { 'messaging.system': config.nats === null ? 'postgresql' : 'nats' }),
        }),
    beforePublishing: check.beforePublishing,
  })
  const orders = createOrderStreamHandler({
    ...shared(),
    topic,
    slotName: orderSlotOf(addresses.stream),
    onPublished: metrics.eventsPublished,
  })
  const catalogue = createCatalogueStreamHandler({
    ...shared(),
    topic: catalogueTopic,
    slotName: catalogueSlotOf(addresses.stream),
    onPublished: metrics.catalogueEventsPublished,
  })
  metrics.watchChangeStream(orders)
  metrics.watchChangeStream(catalogue, 'catalogue_stream')
  const purge = createCataloguePurge({ pool, copies, deliveries, purgers: createPurgers(config.cdnPurgeUrls), logger })
  // The streams stop before the check.
  const writers = [createCategoryRenaming({ pool, logger }), createScheduledChanges({ pool, logger })]
  const services = [createEventBackfill({ pool, logger }), check, orders, catalogue, purge, ...writers]
  return { orders, catalogue, services }
}
