import type { Logger } from 'pino'
import { createEncryption } from '../auth/store-secret.ts'
import type { Config } from '../config.ts'
import { createOrderLinks } from '../customers/order-link.ts'
import type { DatabaseAddresses } from '../db/addresses.ts'
import { FreshCopies } from '../db/fresh-copies.ts'
import { connectClient, type Pool } from '../db/pool.ts'
import { DeliveryQueue } from '../deliveries/delivery-queue.ts'
import { Metrics } from '../operations/metrics.ts'
import { QUEUE_SUBSCRIBERS } from '../subscribers.ts'
import { DeliveryLog } from '../topic/delivery-log.ts'
import { LockSessions } from '../topic/lock-session.ts'
import { CATALOGUE } from '../topic/partitions.ts'
import { createPartition, createTopic } from './create-topic.ts'
import { openMailTemplates } from './mail-templates.ts'
import { openSecret, watchSecret } from './secrets.ts'
import type { Service } from './service.ts'

export interface PartsOptions {
  config: Config
  logger: Logger
  now: () => Date
  addresses: DatabaseAddresses
  /** For the pipeline, housekeeping and the readiness check, which never wait behind requests. */
  pool: Pool
  leasePool: Pool
  requestPool: Pool
}

export type StoreParts = Awaited<ReturnType<typeof createParts>>

/** Creates the parts that roles share. `services` are those that start before the roles. */
export async function createParts({ config, logger, now, addresses, pool, leasePool, requestPool }: PartsOptions) {
  const { roles } = config
  const url = addresses.api
  const hasApi = roles.includes('api')
  const hasPipeline = roles.some((role) => role !== 'api')
  const delivers = QUEUE_SUBSCRIBERS.some(({ role }) => roles.includes(role))
  // The other roles encrypt nothing and run with any secret.
  const secret = hasApi || delivers ? await openSecret(pool, url, config) : ''
  const connect = (signal: AbortSignal) => connectClient(url, 'storefront-copies', signal)
  const copies = new FreshCopies({ pool: hasApi ? requestPool : pool, connect, logger })
  const secretWatch = secret === '' ? null : watchSecret({ copies, secret, logger })
  const metrics = new Metrics(logger)
  if (secretWatch !== null) metrics.watchSecret(secretWatch)
  // OpenTelemetry is loaded only if traces are on.
  const tracing = config.traces && (await import('../operations/open-telemetry.ts')).createTracing(config.traces, logger)
  const deliveryLog = new DeliveryLog({ pool, logger })
  const sessions = new LockSessions(url)
  const topicOptions = { pool, url, sessions, logger, isReadOnly: !hasPipeline }
  const topic = await createTopic(config, { ...topicOptions, onStored: deliveryLog.published })
  const catalogueTopic = await createPartition(CATALOGUE, config, topicOptions)
  const deliveries = new DeliveryQueue({ pool, leasePool, logger })
  // An API process without the pipeline opens a topic at the first use, for the figures or for an operator.
  const topics = [topic, catalogueTopic].map((each) => (hasPipeline ? each : { start: async () => {}, stop: () => each.stop() }))
  const services: Service[] = [deliveryLog, copies, ...topics]
  return {
    ...{
      config,
      logger,
      now,
      addresses,
      pool,
      metrics,
      tracing,
      secret,
      copies,
      deliveries,
      sessions,
      deliveryLog,
      topic,
      catalogueTopic,
      services,
    },
    /** The value is null if no role stops with it, because the API continues with its keys. */
    secretWatch: delivers ? secretWatch : null,
    mailEncryption: createEncryption(secret, 'account mail'),
    webhookEncryption: createEncryption(secret, 'webhook secret'),
    orderLinks: createOrderLinks(secret),
    /** The value is null in a process that sends no mail and cannot use the templates. */
    mailTemplates: hasApi || roles.includes('email') ? openMailTemplates(config, logger) : null,
  }
}
