import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Pool } from '../../db/pool.ts'
import { inTransaction } from '../../db/transaction.ts'
import type { Connect } from '../../db/with-reconnect.ts'
import type { JobQueue, QueueDefinition } from '../../jobs/job-queue.ts'
import type { JobOutcome, JobWorker } from '../../jobs/job-worker.ts'
import { listenToCatalogue, takeChangedTags } from '../events.ts'
import type { Purger } from './purger.ts'

/** For `installJobQueues`. A purge is retried until it succeeds. */
export const PURGE_QUEUE: QueueDefinition = { name: 'cdn-purge', retryDelaySeconds: 1, retryDelayMaxSeconds: 300, keepSeconds: 86_400 }

const WORK = { batchSize: 10, concurrency: 4, fetchers: 1 }
const POLL_MS = 1_000
/** Without a cache the outbox is only cleared. */
const CLEAR_MS = 30_000
/** Changes within this pause are purged together. */
const PAUSE_MS = 100
const RETRY_MS = 1_000
/**
 * A process of the API may serve the old state for a second after a change (catalogue-version.ts), and the cache may store that answer after
 * the first purge. The second purge removes it.
 */
const SECOND_PURGE_AFTER_SECONDS = 2

export interface CataloguePurgeOptions {
  pool: Pool
  connect: Connect
  /** Must have been started. */
  jobs: JobQueue
  /** Without any, changes are only removed from the outbox. */
  purgers: readonly Purger[]
  logger: Logger
}

/**
 * Purges changed products from the caches in front of the store: every committed change at least once, since it moves from the outbox to
 * the job queue in one transaction. Any number of processes may run it.
 */
export function createCataloguePurge({ pool, connect, jobs, purgers, logger }: CataloguePurgeOptions) {
  const stopping = new AbortController()
  let worker: JobWorker | undefined
  let running: Promise<void> | undefined

  async function purge(tags: readonly string[]): Promise<JobOutcome> {
    const results = await Promise.allSettled(purgers.map((purger) => purger.purge(tags)))
    const failed = results.flatMap((result, index) =>
      result.status === 'rejected' ? [{ cache: purgers[index]?.name, reason: (result.reason as Error).message }] : [],
    )
    if (failed.length === 0) return 'done'
    logger.warn({ failed, tags: tags.length }, 'a cache could not be purged, will retry')
    return 'retry'
  }

  /** Returns whether there were changes. */
  async function takeChanges(): Promise<boolean> {
    const found = await inTransaction(pool, async (tx) => {
      const data = { tags: await takeChangedTags(tx) }
      if (data.tags.length === 0) return false
      if (purgers.length > 0) {
        await jobs.send(tx, PURGE_QUEUE.name, [
          { id: randomUUID(), data },
          { id: randomUUID(), data, startAfterSeconds: SECOND_PURGE_AFTER_SECONDS },
        ])
      }
      return true
    })
    if (found) worker?.wake()
    return found
  }

  const readChanges = () =>
    listenToCatalogue({
      connect,
      signal: stopping.signal,
      retryMs: RETRY_MS,
      async work(_client, signal) {
        if (!(await takeChanges())) return purgers.length > 0 ? POLL_MS : CLEAR_MS
        await delay(PAUSE_MS, undefined, { signal }).catch(() => {})
        return 0
      },
      onFailure(error) {
        logger.error({ err: error }, 'changes of the catalogue could not be read, will retry')
      },
    })

  return {
    async start(): Promise<void> {
      if (purgers.length > 0) worker ??= await jobs.work<{ tags: string[] }>(PURGE_QUEUE.name, WORK, ({ data }) => purge(data.tags))
      running ??= readChanges()
    },
    /** Idempotent, safe before start. */
    async stop(): Promise<void> {
      stopping.abort()
      await running
      await worker?.stop()
    },
  }
}
