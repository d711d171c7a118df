import type { Logger } from 'pino'
import type { CatalogueEvent } from '../catalogue/catalogue-event.ts'
import { createCatalogueStreamHandler } from '../change-stream/catalogue-stream-handler.ts'
import type { WatchedStream } from '../change-stream/change-stream.ts'
import { createOrderStreamHandler } from '../change-stream/order-stream-handler.ts'
import type { StreamHandlerOptions } from '../change-stream/stream-handler.ts'
import type { Config } from '../config.ts'
import type { DatabaseAddresses } from '../db/addresses.ts'
import type { Pool } from '../db/pool.ts'
import type { Metrics } from '../operations/metrics.ts'
import type { Tracing } from '../operations/tracing.ts'
import type { OrderEvent } from '../orders/events.ts'
import type { Topic, TopicEvent } from '../topic/topic.ts'
import { PublishingCheck } from './ensure-incarnation.ts'
import { catalogueSlotOf, orderSlotOf } from './prepare-database.ts'
import type { Service } from './service.ts'

export interface StreamsOptions {
  pool: Pool
  addresses: DatabaseAddresses
  topic: Topic<OrderEvent>
  catalogueTopic: Topic<CatalogueEvent>
  logger: Logger
  metrics: Metrics
  tracing: Tracing | null
}

/** The change streams of a process: that of orders, and that of the catalogue, which neither waits for the other. */
export interface Streams {
  orders: WatchedStream
  catalogue: WatchedStream
}

/** `check` stops after the streams. */
export function createStreams(config: Config, options: StreamsOptions): Streams & { check: Service } {
  const { pool, addresses, topic, catalogueTopic, logger, metrics, tracing } = options
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
  return { orders, catalogue, check }
}
