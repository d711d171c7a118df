import type { Logger } from 'pino'
import type { FreshCopies, FreshCopy } from '../db/fresh-copies.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { literal, prepared, sql } from '../db/sql.ts'
import { rollBack } from '../db/transaction.ts'
import { CATALOGUE_CHANNEL } from './events.ts'

/** A state of the catalogue. `changes` grows with every committed product change. */
export interface Version {
  changes: number
  changedAt: Date
  /** The languages (BCP 47) into which sold products are translated, sorted. Usually empty. */
  languages: readonly string[]
}

/** Older versions are not used; the database is queried again. */
const MAX_AGE_MS = 1_000

const VERSION_COLUMNS = sql`sum(changes)::bigint as changes, max(changed_at) as "changedAt",
  array(select language from catalogue_languages where products > 0 order by language collate "C") as languages`
const VERSION = sql`select ${VERSION_COLUMNS} from catalogue_versions`
/** The statement timeout of a shopper's read, unless the session has a shorter one. */
const READ_TIMEOUT_MS = 2_000
const BEGIN = 'begin isolation level repeatable read read only'
/** Reads the version of the snapshot, and sets the timeout of the transaction's later statements. */
const SNAPSHOT = prepared(
  sql`select ${VERSION_COLUMNS},
    set_config('statement_timeout',
      least(nullif(extract(epoch from current_setting('statement_timeout')::interval) * 1000, 0), ${literal(READ_TIMEOUT_MS)})::integer::text, true)
  from catalogue_versions`,
  'catalogue snapshot',
)

export interface CatalogueVersionOptions {
  copies: FreshCopies
  logger: Logger
  /** Called when the version decreases, for example after a restore. Cached pages then belong to another history. */
  onWentBack?: () => void
}

/**
 * The catalogue's version in this process. Changes arrive within a second of their commit, mostly within milliseconds.
 */
export class CatalogueVersion {
  readonly #options: Omit<CatalogueVersionOptions, 'copies'>
  readonly #copy: FreshCopy<Version>
  #known: Version | null = null
  /** When the known version was read, by performance.now(). */
  #learnedAt = Number.NEGATIVE_INFINITY

  constructor({ copies, ...options }: CatalogueVersionOptions) {
    this.#options = options
    this.#copy = copies.add<Version>({
      name: 'catalogue',
      columns: ['changes', 'changedAt', 'languages'],
      read: () => VERSION,
      maxAgeMs: MAX_AGE_MS,
      channel: CATALOGUE_CHANNEL,
      learn: (version, { beganAt }) => this.#take(version, beganAt),
    })
  }

  /** The version if it is at most a second old, otherwise null. */
  get current(): Version | null {
    return this.#copy.isFresh ? this.#known : null
  }

  async get(): Promise<Version> {
    await this.#copy.ensureFresh()
    return this.#known as Version
  }

  /** Reads the version now, so this process sees its own change. */
  async refresh(): Promise<Version> {
    await this.#copy.refresh()
    return this.#known as Version
  }

  /** Takes a version that was read elsewhere. */
  observe(version: Version): void {
    if (this.#known === null || version.changes > this.#known.changes) this.#learn(version)
  }

  #learn(version: Version): void {
    this.#known = version
    this.#learnedAt = performance.now()
  }

  #take(version: Version, beganAt: number): void {
    if (this.#known !== null && beganAt > this.#learnedAt && isFromAnotherHistory(version, this.#known)) {
      this.#options.logger.warn('the version of the catalogue has decreased, as after a restore: cached pages are dropped')
      this.#learn(version)
      this.#options.onWentBack?.()
    }
    this.observe(version)
  }
}

/** Whether `later`, read after `earlier`, cannot follow it. The count only grows, and each change has its time. */
function isFromAnotherHistory(later: Version, earlier: Version): boolean {
  return later.changes < earlier.changes || (later.changes === earlier.changes && later.changedAt.getTime() !== earlier.changedAt.getTime())
}

/**
 * Runs `read` in a catalogue snapshot. Returns its result and the snapshot's version. Statements longer than
 * READ_TIMEOUT_MS throw SQLSTATE 57014.
 */
export async function inSnapshot<T>(pool: Pool, read: (tx: Transaction) => Promise<T>): Promise<{ found: T; version: Version }> {
  const tx = await pool.connect()
  try {
    // Sent together to save round trips: docs/decisions/operations-costs.md. All are awaited, because `read` must not
    // outlive the transaction.
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
