import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { FreshCopies } from '../../db/fresh-copies.ts'
import { deleteInBatches } from '../../db/in-batches.ts'
import { loggableError } from '../../db/loggable-error.ts'
import type { Pool, Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import type { Attempt, DeliveryKind, Taken } from '../../deliveries/delivery-kind.ts'
import type { DeliveryQueue } from '../../deliveries/delivery-queue.ts'
import type { DeliveryWorker, WorkOptions } from '../../deliveries/delivery-worker.ts'
import { Loop } from '../../loop.ts'
import { CATALOGUE_CHANNEL, takeChangedTags } from '../events.ts'
import type { Purger } from './purger.ts'

/** Purges, one for each cache. A purge is retried until it succeeds or `deleteOldPurges` deletes it. */
export const CACHE_PURGES: DeliveryKind = {
  name: 'cdn-purge',
  table: sql`cache_purges`,
  key: ['purge_id'],
  receiver: { column: sql`cache`, type: 'text' },
  columns: ['cache', 'tags'],
  firstPauseSeconds: 1,
  longestPauseSeconds: 300,
  isKept: false,
}

const WORK: WorkOptions = { places: 32, share: { perReceiver: 4, suspects: 16, slowMs: 5_000 } }
/** How often the outbox is cleared if there is no cache. With a cache, the copy finds waiting changes. */
const CLEAR_MS = 30_000
/**
 * The number of attempts that are counted. Further attempts keep the longest pause, and no number of attempts ends a
 * purge.
 */
const COUNTED_ATTEMPTS = 20
/** Changes within this pause are purged together. */
const PAUSE_MS = 100
/** The longest wait of a change whose notification is lost. */
const FOUND_WITHIN_MS = 1_000
const RETRY_MS = 1_000
/**
 * After a change an API process may serve the old state for a second (catalogue-version.ts), and a search that read it
 * before may answer after more than that: our Varnish waits four seconds for an answer. The cache may store such an
 * answer after the first purge, and the second purge removes it.
 */
const SECOND_PURGE_AFTER_SECONDS = 6

interface Purge {
  cache: string
  tags: string[]
}

/**
 * Deletes purges older than any answer that a cache may serve, such as those of a cache no longer in `CDN_PURGE_URL`.
 * Returns their number.
 */
export function deleteOldPurges(pool: Pool, oldestSeconds: number): Promise<number> {
  return deleteInBatches(pool, 'cache_purges', sql`queued_at < now() - make_interval(secs => ${oldestSeconds})`)
}

export interface CataloguePurgeOptions {
  pool: Pool
  copies: FreshCopies
  /** A queue that has been started. */
  deliveries: DeliveryQueue
  /** If empty, changes are only removed from the outbox. */
  purgers: readonly Purger[]
  logger: Logger
}

/**
 * Purges changed products from the caches in front of the store. Each committed change is purged at least once, because
 * one transaction moves it from the outbox to the purge queue. Any number of processes may run this.
 */
export function createCataloguePurge({ pool, copies, deliveries, purgers, logger }: CataloguePurgeOptions) {
  const caches = [...new Set(purgers.map(({ name }) => name))]
  let worker: DeliveryWorker<Purge> | undefined

  async function purge({ tags, cache, attempts }: Taken<Purge>, { report, record }: Attempt): Promise<void> {
    // Empty if the cache was removed from the setting.
    const asked = purgers.filter(({ name }) => name === cache)
    try {
      await Promise.all(asked.map((purger) => purger.purge(tags)))
    } catch (error) {
      report('failing')
      const reason = (error as Error).message
      logger.warn({ cache, reason, tags: tags.length }, 'a cache could not be purged, will retry')
      return record({ to: 'retry', reason, isAttempt: attempts <= COUNTED_ATTEMPTS })
    }
    report('well')
    await record({ to: 'delivered' })
  }

  /** Each cache has its own purges, so a hanging cache delays no other. */
  async function insertPurges(tx: Transaction, tags: readonly string[]): Promise<void> {
    await tx.query(
      sql`insert into cache_purges (purge_id, cache, tags, due_at)
      select gen_random_uuid(), cache, ${tags}::text[], now() + make_interval(secs => seconds)
      from unnest(${caches}::text[]) as cache, unnest(${[0, SECOND_PURGE_AFTER_SECONDS]}::float8[]) as seconds`,
    )
  }

  /** Returns whether there were changes. */
  async function takeChanges(): Promise<boolean> {
    const found = await inTransaction(pool, async (tx) => {
      const tags = await takeChangedTags(tx)
      if (tags.length === 0) return false
      await insertPurges(tx, tags)
      return true
    })
    if (found) worker?.wake(caches)
    return found
  }

  const loop = new Loop({
    ...{ everyMs: CLEAR_MS, retryMs: RETRY_MS },
    async work(signal) {
      if (!(await takeChanges())) return
      await delay(PAUSE_MS, undefined, { signal }).catch(() => {})
      return 0
    },
    onFailure(error, { isFirst }) {
      if (isFirst) logger.error({ err: loggableError(error) }, 'changes of the catalogue could not be read, will retry')
    },
  })
  if (purgers.length > 0)
    copies.add<{ has_changes: boolean }>({
      name: 'changes',
      columns: ['has_changes'],
      read: () => sql`select exists (select from catalogue_changes) as has_changes`,
      maxAgeMs: FOUND_WITHIN_MS,
      channel: CATALOGUE_CHANNEL,
      learn({ has_changes }) {
        if (has_changes) loop.wake()
      },
    })

  return {
    async start(): Promise<void> {
      if (purgers.length > 0) worker ??= deliveries.work<Purge>(CACHE_PURGES, WORK, purge)
      await loop.start()
    },
    /** Idempotent, safe before start. */
    async stop(): Promise<void> {
      await loop.stop()
      await worker?.stop()
    },
  }
}
