import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { Pool } from '../../db/pool.ts'
import { identifier, sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { type Connect, withReconnect } from '../../db/with-reconnect.ts'
import type { JobQueue, NewJob, QueueDefinition } from '../../jobs/job-queue.ts'
import type { Job, JobOutcome, JobWorker, ReportHealth, WorkOptions } from '../../jobs/job-worker.ts'
import { WakeSignal } from '../../wake-signal.ts'
import { CATALOGUE_CHANNEL, takeChangedTags } from '../events.ts'
import type { Purger } from './purger.ts'

/** The queue for `installJobQueues`. A purge is retried until it succeeds. */
export const PURGE_QUEUE: QueueDefinition = { name: 'cdn-purge', retryDelaySeconds: 1, retryDelayMaxSeconds: 300, keepSeconds: 86_400 }

const WORK: WorkOptions = { places: 32, share: { perReceiver: 4, suspects: 16, slowMs: 5_000 } }
const POLL_MS = 1_000
/** How often the outbox is cleared when there is no cache. */
const CLEAR_MS = 30_000
/** Changes within this pause are purged together. */
const PAUSE_MS = 100
const RETRY_MS = 1_000
/**
 * A process of the API may serve the old state for a second after a change (catalogue-version.ts), and the cache may store that answer after
 * the first purge. The second purge removes it.
 */
const SECOND_PURGE_AFTER_SECONDS = 2

interface PurgeJob {
  tags: readonly string[]
  /** The name of the cache; undefined in jobs of earlier releases, which are for all. */
  cache?: string
}

export interface CataloguePurgeOptions {
  pool: Pool
  connect: Connect
  /** Must have been started. */
  jobs: JobQueue
  /** When there are none, changes are only removed from the outbox. */
  purgers: readonly Purger[]
  logger: Logger
}

/**
 * Purges changed products from the caches in front of the store: every committed change at least once, since it moves from the outbox to
 * the job queue in one transaction. Any number of processes may run it.
 */
export function createCataloguePurge({ pool, connect, jobs, purgers, logger }: CataloguePurgeOptions) {
  let worker: JobWorker | undefined

  async function purge({ data: { tags, cache } }: Job<PurgeJob>, report: ReportHealth): Promise<JobOutcome> {
    // None when the setting no longer names this cache.
    const asked = purgers.filter(({ name }) => cache === undefined || name === cache)
    try {
      await Promise.all(asked.map((purger) => purger.purge(tags)))
      report('well')
      return 'done'
    } catch (error) {
      report('failing')
      logger.warn({ cache, reason: (error as Error).message, tags: tags.length }, 'a cache could not be purged, will retry')
      return 'retry'
    }
  }

  /** Each cache has jobs of its own, so that one that hangs holds up no other. */
  function jobsOf(tags: readonly string[]): NewJob[] {
    return [...new Set(purgers.map(({ name }) => name))].flatMap((cache) => {
      const job = { data: { tags, cache } satisfies PurgeJob, group: cache }
      return [
        { id: randomUUID(), ...job },
        { id: randomUUID(), ...job, startAfterSeconds: SECOND_PURGE_AFTER_SECONDS },
      ]
    })
  }

  /** Returns whether there were changes. */
  async function takeChanges(): Promise<boolean> {
    const found = await inTransaction(pool, async (tx) => {
      const tags = await takeChangedTags(tx)
      if (tags.length === 0) return false
      await jobs.send(tx, PURGE_QUEUE.name, jobsOf(tags))
      return true
    })
    if (found) worker?.wake()
    return found
  }

  const reading = withReconnect({
    connect,
    retryMs: RETRY_MS,
    async work(client, signal) {
      const wakeSignal = new WakeSignal()
      client.on('notification', wakeSignal.notify)
      await client.query(sql`listen ${identifier(CATALOGUE_CHANNEL)}`)
      while (!signal.aborted) {
        wakeSignal.reset()
        if (await takeChanges()) await delay(PAUSE_MS, undefined, { signal }).catch(() => {})
        else await wakeSignal.wait(purgers.length > 0 ? POLL_MS : CLEAR_MS, signal)
      }
    },
    onFailure: (error) => logger.error({ err: error }, 'changes of the catalogue could not be read, will retry'),
  })

  return {
    async start(): Promise<void> {
      if (purgers.length > 0) worker ??= await jobs.work<PurgeJob>(PURGE_QUEUE.name, WORK, purge)
      await reading.start()
    },
    /** Idempotent, safe before start. */
    async stop(): Promise<void> {
      await reading.stop()
      await worker?.stop()
    },
  }
}
