import type { Logger } from 'pino'
import { readSlotStatus } from '../change-stream/replication-slot.ts'
import { isDatabaseOutage } from '../db/failures.ts'
import { loggableError } from '../db/loggable-error.ts'
import type { Pool } from '../db/pool.ts'
import { type PipelineReaders, storePipelineFigures } from '../figures/pipeline-figures.ts'
import { RequestFigures } from '../figures/request-figures.ts'
import { rollUpOrders } from '../figures/roll-up-orders.ts'
import { readMailQueue } from '../mail/email-deliveries.ts'
import type { Metrics } from '../operations/metrics.ts'
import { readLakeDelay, readLakeLag, readSubscriberLag } from '../topic/subscriber-lag.ts'
import type { Topic } from '../topic/topic.ts'
import { readWebhookQueue } from '../webhooks/webhook-deliveries.ts'
import { orderSlotOf } from './prepare-database.ts'
import type { Service } from './service.ts'

/** After the start, which it must not slow down. Later runs are at the beginning of each minute. */
const FIRST_MS = 5_000
const MINUTE_MS = 60_000
/** Of two processes the first computes the minute. */
const NOT_WITHIN_SECONDS = 10

export interface FiguresOptions {
  pool: Pool
  /** Address of the same database. */
  url: string
  metrics: Metrics
  logger: Logger
  now: () => Date
  topic: Topic
  hasApi: boolean
}

/** Collects figures once a minute, and the last requests at the stop. Nothing waits for it: while the database is unavailable, it pauses. */
export function createFigures({ pool, url, metrics, logger, now, topic, hasApi }: FiguresOptions): Service {
  const requests = new RequestFigures({ pool, read: metrics.requestCounts, now })
  const readers: PipelineReaders = {
    ...(hasApi ? databaseReaders(pool, url) : {}),
    ...topicReaders(pool, topic),
  }
  const stopping = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let inFlight: Promise<void> | null = null

  async function collect(): Promise<void> {
    // Each one alone: an error in one figure leaves the others.
    const steps = [
      ...(hasApi ? [() => requests.store()] : []),
      () => storePipelineFigures(pool, readers, now(), logger),
      ...(hasApi ? [() => rollUpOrders(pool, { notWithinSeconds: NOT_WITHIN_SECONDS, signal: stopping.signal })] : []),
    ]
    for (const step of steps) {
      if (stopping.signal.aborted) return
      await step().catch((error: unknown) => report(error, logger))
    }
  }

  function schedule(ms: number): void {
    timer = setTimeout(() => {
      inFlight = collect().finally(() => {
        inFlight = null
        if (!stopping.signal.aborted) schedule(MINUTE_MS - (Date.now() % MINUTE_MS))
      })
    }, ms)
  }

  return {
    async start() {
      schedule(FIRST_MS)
    },
    async stop() {
      if (stopping.signal.aborted) return
      stopping.abort()
      clearTimeout(timer)
      await inFlight
      if (hasApi) await requests.store().catch((error: unknown) => report(error, logger))
    },
  }
}

function report(error: unknown, logger: Logger): void {
  const detail = { err: loggableError(error) }
  if (isDatabaseOutage(error)) logger.warn(detail, 'figures wait for the database')
  else logger.error(detail, 'a figure could not be stored; it is retried in a minute')
}

function databaseReaders(pool: Pool, url: string): PipelineReaders {
  return {
    change_stream_lag_bytes: async () => (await readSlotStatus(pool, orderSlotOf(url))).lagBytes,
    lake_delay_seconds: () => readLakeDelay(pool),
    mail_queue_length: async () => (await readMailQueue(pool)).queued,
    webhook_queue_length: async () => (await readWebhookQueue(pool)).queued,
  }
}

function topicReaders(pool: Pool, topic: Topic): PipelineReaders {
  return {
    email_lag_events: async () => (await readSubscriberLag(pool, topic, 'email'))?.lag ?? null,
    webhook_lag_events: async () => (await readSubscriberLag(pool, topic, 'webhook'))?.lag ?? null,
    lake_lag_events: async () => (await readLakeLag(pool, topic))?.lag ?? null,
  }
}
