import type pg from 'pg'
import type { Logger } from 'pino'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { literal, prepared, sql } from '../db/sql.ts'
import { rollBack } from '../db/transaction.ts'
import type { Connect } from '../db/with-reconnect.ts'
import { listenToCatalogue } from './events.ts'

/** A state of the catalogue. `changes` grows with every committed change of a product. */
export interface Version {
  changes: number
  changedAt: Date
  /** The languages into which sold products are translated (BCP 47), sorted. Usually none. */
  languages: readonly string[]
}

/** A notification arrives within milliseconds. Polling bounds the delay when one is lost. */
const POLL_MS = 400
const QUERY_TIMEOUT_MS = 2_000
const RETRY_MS = 250
/** A version that was read longer ago is not used: the database is asked again. */
const FRESH_MS = 1_000

const VERSION_COLUMNS = sql`sum(changes)::bigint as changes, max(changed_at) as "changedAt",
  array(select language from catalogue_languages where products > 0 order by language collate "C") as languages`
const VERSION = sql`select ${VERSION_COLUMNS} from catalogue_versions`
/** Limit of one statement of a shopper's read. The limit of the session applies where it is shorter. */
const READ_TIMEOUT_MS = 2_000
const BEGIN = 'begin isolation level repeatable read read only'
/** The version of the snapshot. Bounds the statements of the rest of the transaction. */
const SNAPSHOT = prepared(
  sql`select ${VERSION_COLUMNS},
    set_config('statement_timeout',
      least(nullif(extract(epoch from current_setting('statement_timeout')::interval) * 1000, 0), ${literal(READ_TIMEOUT_MS)})::integer::text, true)
  from catalogue_versions`,
  'catalogue snapshot',
)

export interface CatalogueVersionOptions {
  pool: Queryable
  connect: Connect
  logger: Logger
  /** Called when the version decreases, as after a restored backup: pages cached by version belong to another history. */
  onWentBack?: () => void
}

/**
 * Knows the catalogue's version without a query for each request: a change is known here within a second of its commit, mostly within
 * milliseconds. While the connection that listens for changes is broken, `get` asks the database.
 */
export class CatalogueVersion {
  readonly #options: CatalogueVersionOptions
  readonly #stopping = new AbortController()
  #known: Version | null = null
  /** When the known version was learned, by performance.now(). */
  #learnedAt = Number.NEGATIVE_INFINITY
  /** When the last successful read began, by performance.now(). */
  #readAt = Number.NEGATIVE_INFINITY
  #reading: Promise<Version> | null = null
  #running: Promise<void> | undefined

  constructor(options: CatalogueVersionOptions) {
    this.#options = options
  }

  /** The version if it is at most a second old, else null. */
  get current(): Version | null {
    return performance.now() - this.#readAt <= FRESH_MS ? this.#known : null
  }

  async get(): Promise<Version> {
    return this.current ?? this.#reading ?? this.refresh()
  }

  /** Reads the version now, so that a process sees the change it has just made. Concurrent calls share a read that begins after all of them. */
  async refresh(): Promise<Version> {
    // A read in progress may have begun before the change that this call is about. Its error goes to its own caller.
    await this.#reading?.catch(() => {})
    this.#reading ??= this.#read(this.#options.pool).finally(() => {
      this.#reading = null
    })
    return this.#reading
  }

  /** Learns a version that was read elsewhere. */
  observe(version: Version): void {
    if (this.#known === null || version.changes > this.#known.changes) this.#learn(version)
  }

  start(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#running ??= this.#listen(resolve)
    return promise
  }

  /** Idempotent, safe before start. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  #listen(started: () => void): Promise<void> {
    const { connect, logger } = this.#options
    let isBroken = false
    return listenToCatalogue({
      connect,
      signal: this.#stopping.signal,
      retryMs: RETRY_MS,
      work: async (client) => {
        await this.#read(client)
        if (isBroken) logger.info('listening for changes of the catalogue again')
        isBroken = false
        started()
        return POLL_MS
      },
      onFailure(error) {
        if (!isBroken)
          logger.warn(
            { err: error },
            'cannot listen for changes of the catalogue: each request asks the database until the connection is restored',
          )
        isBroken = true
        started()
      },
    })
  }

  #learn(version: Version): void {
    this.#known = version
    this.#learnedAt = performance.now()
  }

  async #read(db: Queryable): Promise<Version> {
    const beganAt = performance.now()
    const version = await readVersion(db)
    if (this.#known !== null && beganAt > this.#learnedAt && isFromAnotherHistory(version, this.#known)) {
      this.#options.logger.warn('the version of the catalogue has decreased, as after a restore: cached pages are dropped')
      this.#learn(version)
      this.#options.onWentBack?.()
    }
    this.observe(version)
    this.#readAt = Math.max(this.#readAt, beganAt)
    return version
  }
}

/** Whether `later`, which was read after `earlier`, cannot follow it: the count only grows, and each change has its time. */
function isFromAnotherHistory(later: Version, earlier: Version): boolean {
  return later.changes < earlier.changes || (later.changes === earlier.changes && later.changedAt.getTime() !== earlier.changedAt.getTime())
}

async function readVersion(db: Queryable): Promise<Version> {
  const query: pg.QueryConfig & { query_timeout: number } = { text: VERSION.text, query_timeout: QUERY_TIMEOUT_MS }
  const { rows } = await db.query<Version>(query)
  return rows[0] as Version
}

/**
 * What `read` finds in a snapshot of the catalogue, and the version of that snapshot. A statement that takes longer than READ_TIMEOUT_MS
 * throws SQLSTATE 57014.
 */
export async function inSnapshot<T>(pool: Pool, read: (tx: Transaction) => Promise<T>): Promise<{ found: T; version: Version }> {
  const tx = await pool.connect()
  try {
    // Sent together: see docs/decisions/0257-what-a-read-costs.md. All are waited for, because `read` must not outlive the transaction.
    const sent = [tx.query(BEGIN), tx.query<Version>(SNAPSHOT), read(tx)] as const
    await Promise.allSettled(sent)
    const [, { rows }, found] = await Promise.all(sent)
    await tx.query('commit')
    tx.release()
    return { found, version: rows[0] as Version }
  } catch (error) {
    await rollBack(tx)
    throw error
  }
}
