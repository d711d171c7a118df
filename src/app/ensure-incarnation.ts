import { existsSync } from 'node:fs'
import type { Logger } from 'pino'
import { ensureIncarnation, type IncarnationOptions } from '../audit/restore/ensure-incarnation.ts'
import { endEverySession } from '../auth/sessions.ts'
import { deleteSigningKeys } from '../auth/tokens/signing-keys.ts'
import type { Config } from '../config.ts'
import { dataFolder } from '../db/embedded/data-folder.ts'
import { finishRestore, isRestoreUnfinished } from '../db/embedded/unfinished-restore.ts'
import { reasonOf } from '../db/loggable-error.ts'
import type { Pool } from '../db/pool.ts'
import { releaseRestored } from '../deliveries/delivery-rows.ts'
import { OperatorError } from '../errors.ts'
import { LakeFiles } from '../lake/lake-files.ts'
import { DATASET_NAMES } from '../lake/lake-names.ts'
import type { LakeStore } from '../lake/lake-store.ts'
import { Loop } from '../loop.ts'
import { CATALOGUE } from '../topic/partitions.ts'
import { DELIVERY_KINDS } from './create-subscribers.ts'
import { createPartition, createTopic } from './create-topic.ts'
import { openLake } from './open-lake.ts'

/** A backup has replaced the database, and no new incarnation has begun yet. */
export class RestoreUnfinished extends OperatorError {
  override readonly name = 'RestoreUnfinished'

  constructor(cause: unknown) {
    const reason = (cause instanceof Error ? cause.message : String(cause)).replaceAll(/\s*\n\s*/g, ' ')
    super(
      `the backup is in place, and its restore is not finished: ${reason}; repair that, then run storefront migrate and storefront replay`,
      { cause },
    )
  }
}

interface Options {
  pool: Pool
  url: string
  logger: Logger
  /** The reason why the database is known to be restored, without evidence from topic and lake. */
  reason?: string
  isThorough?: boolean
  mayLackLake?: boolean
  onLakeAway?: (error: unknown) => void
  signal?: AbortSignal
}

/** Finishes a restore, if there was one. Throws RestoreUnfinished if that fails. */
export async function ensureIncarnationOf(config: Config, options: Options): Promise<void> {
  const folder = config.databaseAddresses === null ? dataFolder(config.dataDir) : null
  if (folder === null || !isRestoreUnfinished(folder)) return compare(config, options)
  try {
    // Customers may have seen orders that neither topic nor lake has, so a restore by command always counts as a
    // restore.
    await compare(config, { ...options, reason: 'it was restored by storefront restore' })
    for (const kind of DELIVERY_KINDS) await releaseRestored(options.pool, kind)
  } catch (error) {
    throw new RestoreUnfinished(error)
  }
  finishRestore(folder)
}

async function compare(config: Config, { pool, url, logger, reason, signal, ...lakeOptions }: Options): Promise<void> {
  // In a new incarnation the topic may begin a new epoch, which an open topic object does not know.
  const topic = await createTopic(config, { pool, url, logger })
  const catalogueTopic = await createPartition(CATALOGUE, config, { pool, url, logger })
  let lake: LakeStore | null = null
  const closeLake = () => lake?.close()
  signal?.addEventListener('abort', closeLake)
  try {
    lake = hasLake(config) ? await openLake(config) : null
    if (signal?.aborted) closeLake()
    // Adopts the lake of a previous release. The role `lake` does this otherwise, but it starts only after the restore
    // is finished.
    if (lake !== null && reason !== undefined)
      for (const dataset of DATASET_NAMES) await new LakeFiles(lake, dataset, () => new Date()).newestSequence()
    const options: IncarnationOptions = { pool, topic, catalogueTopic, lake, logger, ...lakeOptions }
    if (reason === undefined) return await ensureIncarnation(options)
    await ensureIncarnation({ ...options, reason })
    // The lost time contained logouts, password changes and detected thefts. An inferred restore may be a failover,
    // which must not log out every customer.
    await endEverySession(pool)
    // They also contained sessions that the database does not know, and keys that were deleted because they had leaked.
    await deleteSigningKeys(pool)
  } finally {
    signal?.removeEventListener('abort', closeLake)
    closeLake()
    await catalogueTopic.stop()
    await topic.stop()
  }
}

/**
 * Like `ensureIncarnationOf`, for a start, which must not wait for a broker or a bucket. Throws RestoreUnfinished if
 * the check fails, because new orders could get the numbers of lost ones.
 */
export async function ensureIncarnationAtStart(config: Config, options: Options): Promise<void> {
  const onLakeAway = (error: unknown) =>
    options.logger.warn(
      { err: error },
      'the database could not be compared with topic and lake yet: the change stream does it before it publishes',
    )
  try {
    await ensureIncarnationOf(config, { ...options, onLakeAway, mayLackLake: !config.roles.includes('stream') })
  } catch (error) {
    if (error instanceof RestoreUnfinished) throw error
    onLakeAway(error)
  }
}

const RECHECK_MS = 5_000

/**
 * Checks the incarnation before publishing. While the lake is unavailable, the topic alone decides, so mails and
 * webhooks continue. The later comparison with the lake renumbers the events published meanwhile.
 */
export class PublishingCheck {
  readonly #config: Config
  readonly #options: Options
  readonly #loop: Loop
  /** Whether the lake must still be compared once it is available again. */
  #isDue = false

  constructor(config: Config, options: Options) {
    this.#config = config
    this.#options = options
    this.#loop = new Loop({
      everyMs: RECHECK_MS,
      work: (signal) => this.#recheck(signal),
      onFailure: (error) => options.logger.debug({ reason: reasonOf(error) }, 'the lake cannot be compared yet'),
    })
  }

  /** `signal` ends the wait for a lake that does not answer. */
  readonly beforePublishing = (signal: AbortSignal): Promise<void> =>
    ensureIncarnationOf(this.#config, { ...this.#options, signal, onLakeAway: (error) => this.#compareLater(error) })

  start(): Promise<void> {
    return this.#loop.start()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  #compareLater(error: unknown): void {
    if (this.#isDue || this.#loop.isStopped) return
    const { logger } = this.#options
    logger.warn({ reason: reasonOf(error) }, 'the lake cannot be read: events are published, and compared with it when it is back')
    this.#isDue = true
  }

  async #recheck(signal: AbortSignal): Promise<void> {
    if (!this.#isDue) return
    // The lake may become unavailable again during the comparison.
    this.#isDue = false
    try {
      await ensureIncarnationOf(this.#config, { ...this.#options, isThorough: true, signal })
    } catch (error) {
      this.#isDue = true
      throw error
    }
    this.#options.logger.info('the lake is back, and was compared with the database')
  }
}

/** A process without the role `lake` may have neither. */
function hasLake({ lakeBucket, dataDir }: Config): boolean {
  return lakeBucket !== null || existsSync(dataFolder(dataDir).lake)
}
