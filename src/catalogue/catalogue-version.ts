import type pg from 'pg'
import type { Logger } from 'pino'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { literal, sql } from '../db/sql.ts'
import { type Connect, withReconnect } from '../db/with-reconnect.ts'
import { WakeSignal } from '../wake-signal.ts'
import { LISTEN_TO_CATALOGUE } from './events.ts'

/** A state of the catalogue. `changes` grows with every committed change of a product. */
export interface Version {
  changes: number
  changedAt: Date
}

/** A notification comes within milliseconds; this makes it right even when one is lost. */
const POLL_MS = 400
const QUERY_TIMEOUT_MS = 2_000
const RETRY_MS = 250
/** What was read longer ago than this is not relied on: then the database is asked. */
const FRESH_MS = 1_000

const VERSION = sql`select sum(changes)::bigint as changes, max(changed_at) as changed_at from catalogue_versions`
/** Of one statement of a shopper's read. What the session allows counts where it is shorter. */
const READ_TIMEOUT_MS = 2_000
const BOUND_STATEMENTS = sql`select set_config('statement_timeout',
  least(nullif(extract(epoch from current_setting('statement_timeout')::interval) * 1000, 0), ${literal(READ_TIMEOUT_MS)})::integer::text, true)`
const BEGIN_SNAPSHOT = sql`begin isolation level repeatable read read only; set local random_page_cost = 1.1; ${VERSION}; ${BOUND_STATEMENTS}`

export interface CatalogueVersionOptions {
  pool: Queryable
  connect: Connect
  logger: Logger
  /** The version went back, as after a restored backup: what was kept by version is of another history. */
  onWentBack?: () => void
}

/**
 * Knows the catalogue's version without asking the database for each request: a change is known here within a second of its
 * commit, mostly within milliseconds. While news cannot come in, `get` asks the database.
 */
export class CatalogueVersion {
  readonly #options: CatalogueVersionOptions
  readonly #stopping = new AbortController()
  #known: Version | null = null
  /** When the known version was learned, by performance.now(). */
  #learnedAt = Number.NEGATIVE_INFINITY
  /** When the last good look began, by performance.now(). */
  #lookedAt = Number.NEGATIVE_INFINITY
  #asking: Promise<Version> | null = null
  #running: Promise<void> | undefined

  constructor(options: CatalogueVersionOptions) {
    this.#options = options
  }

  /** The version, if it is known for sure to be no older than a second. */
  get current(): Version | null {
    return performance.now() - this.#lookedAt <= FRESH_MS ? this.#known : null
  }

  async get(): Promise<Version> {
    return this.current ?? this.#asking ?? this.refresh()
  }

  /** Reads the version now, so that a process sees the change it has just made. Calls at once share an answer that none precedes. */
  async refresh(): Promise<Version> {
    // An answer under way may have been read before the change that this call is about.
    await this.#asking?.catch(() => {})
    this.#asking ??= this.#look(this.#options.pool).finally(() => {
      this.#asking = null
    })
    return this.#asking
  }

  /** Takes note of a version that was read elsewhere. */
  saw(version: Version): void {
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
    return withReconnect({
      connect,
      signal: this.#stopping.signal,
      retryMs: RETRY_MS,
      work: async (client, signal) => {
        const wakeSignal = new WakeSignal()
        client.on('notification', wakeSignal.notify)
        await client.query(LISTEN_TO_CATALOGUE)
        while (!signal.aborted) {
          wakeSignal.reset()
          await this.#look(client)
          if (isBroken) logger.info('news of the catalogue comes in again')
          isBroken = false
          started()
          await wakeSignal.wait(POLL_MS, signal)
        }
      },
      onFailure(error) {
        if (!isBroken) logger.warn({ err: error }, 'no news of the catalogue: asking the database for each request meanwhile')
        isBroken = true
        started()
      },
    })
  }

  #learn(version: Version): void {
    this.#known = version
    this.#learnedAt = performance.now()
  }

  async #look(db: Queryable): Promise<Version> {
    const beganAt = performance.now()
    const version = await readVersion(db)
    if (this.#known !== null && beganAt > this.#learnedAt && isOfAnotherHistory(version, this.#known)) {
      this.#options.logger.warn('the catalogue went back to an earlier version, as after a restore: its pages are forgotten')
      this.#learn(version)
      this.#options.onWentBack?.()
    }
    this.saw(version)
    this.#lookedAt = Math.max(this.#lookedAt, beganAt)
    return version
  }
}

/** Whether a version that was read after another cannot follow it: counts grow, and each change has its time. */
function isOfAnotherHistory(later: Version, earlier: Version): boolean {
  return later.changes < earlier.changes || (later.changes === earlier.changes && later.changedAt.getTime() !== earlier.changedAt.getTime())
}

interface VersionRow {
  changes: number
  changed_at: Date
}

async function readVersion(db: Queryable): Promise<Version> {
  const query: pg.QueryConfig & { query_timeout: number } = { text: VERSION.text, query_timeout: QUERY_TIMEOUT_MS }
  const { rows } = await db.query<VersionRow>(query)
  return toVersion(rows[0])
}

function toVersion(row: VersionRow | undefined): Version {
  if (row === undefined) throw new Error('catalogue_versions has no rows')
  return { changes: row.changes, changedAt: row.changed_at }
}

/**
 * Runs `work` on one state of the catalogue, with that state's version: what it reads is neither older nor newer. A statement that
 * takes longer than READ_TIMEOUT_MS throws SQLSTATE 57014.
 */
export async function inSnapshot<T>(pool: Pool, work: (tx: Transaction, version: Version) => Promise<T>): Promise<T> {
  const tx = await pool.connect()
  try {
    // Four statements in one round trip: pg then gives a list of results. Pages elsewhere cost what the next ones cost, on flash and
    // in memory; by PostgreSQL's default a frequent word would be looked for in the wrong way (decision 0022).
    const results = (await tx.query(BEGIN_SNAPSHOT.text)) as unknown as pg.QueryResult<VersionRow>[]
    const result = await work(tx, toVersion(results[2]?.rows[0]))
    await tx.query('commit')
    tx.release()
    return result
  } catch (error) {
    const isBroken = await tx.query('rollback').then(
      () => false,
      () => true,
    )
    tx.release(isBroken)
    throw error
  }
}
