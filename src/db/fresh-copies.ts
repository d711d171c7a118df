import type pg from 'pg'
import type { Logger } from 'pino'
import type { Loop } from '../loop.ts'
import { WakeSignal } from '../wake-signal.ts'
import type { Queryable } from './pool.ts'
import { commaList, identifier, literal, type Sql, sql } from './sql.ts'
import { type Connect, withReconnect } from './with-reconnect.ts'

/** Polls per maximum age. A used copy stays fresh when one poll is late or lost. */
const POLLS_IN_AGE = { used: 2, unused: 1.1 }
const QUERY_TIMEOUT_MS = 2_000
const RETRY_MS = 250
const EVERYTHING = '0'

export interface CopyDefinition<Row extends object> {
  name: string
  columns: readonly (keyof Row & string)[]
  /**
   * The query of the copy. Every poll contains it, so it must be cheap. `since` is the oldest transaction that no poll
   * has seen, or '0'.
   */
  read(since: string): Sql
  maxAgeMs: number
  channel?: string
  /** Polls do not wait for a returned promise. `refresh` does. */
  learn(row: Row, reading: Reading): void | Promise<void>
}

export interface Reading {
  beganAt: number
  /** Whether `since` was '0'. Then rows of an earlier reading may be gone. */
  isWhole: boolean
}

interface CopiesOptions {
  /** The pool and `connect` must not lead to a standby, whose state is older. */
  pool: Queryable
  connect: Connect
  logger: Logger
}

/**
 * Keeps copies of database state fresh by polls. While polls fail no copy stays fresh, and its owner queries the
 * database. See docs/decisions/db-copies.md.
 */
export class FreshCopies {
  readonly #options: CopiesOptions
  readonly #copies: Polled[] = []
  readonly #wakeSignal = new WakeSignal()
  readonly #started = Promise.withResolvers<void>()
  readonly #loop: Loop
  #nextPoll = Promise.withResolvers<void>()

  constructor(options: CopiesOptions) {
    this.#options = options
    const { connect, logger } = options
    this.#loop = withReconnect({
      connect,
      retryMs: RETRY_MS,
      work: (client, signal, well) => this.#keepPolling(client, signal, well),
      onFailure: (error, { isFirst }) => {
        if (isFirst) logger.warn({ err: error }, 'cannot read changes by other processes: each request asks the database meanwhile')
        this.#started.resolve()
      },
      onRecovered: () => logger.info('reads changes by other processes again'),
    })
  }

  /** Call it before `start`. Until then the copy is never fresh. */
  add<Row extends object>(definition: CopyDefinition<Row>): FreshCopy<Row> {
    const { pool, logger } = this.#options
    const copy = new FreshCopy(definition, { pool, logger, nextPoll: () => this.#nextPoll.promise })
    this.#copies.push(copy)
    return copy
  }

  async start(): Promise<void> {
    if (this.#copies.length === 0) return
    await this.#loop.start()
    await this.#started.promise
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
    this.#started.resolve()
    await Promise.all(this.#copies.map((copy) => copy.settled()))
  }

  async #keepPolling(client: pg.Client, signal: AbortSignal, well: () => void): Promise<void> {
    await this.#listen(client)
    // Transaction ids belong to one server, so a new connection rereads everything.
    let since = EVERYTHING
    while (!signal.aborted) {
      this.#wakeSignal.reset()
      since = await this.#poll(client, since)
      well()
      this.#started.resolve()
      await this.#wakeSignal.wait(this.#pauseMs(), signal)
    }
  }

  #pauseMs(): number {
    const maxAgeMs = Math.min(...this.#copies.map(({ maxAgeMs }) => maxAgeMs))
    const pollsInAge = this.#copies.some((copy) => copy.wasUsedSincePoll()) ? POLLS_IN_AGE.used : POLLS_IN_AGE.unused
    return maxAgeMs / pollsInAge
  }

  async #listen(client: pg.Client): Promise<void> {
    // The server ends a poll that is no longer awaited. Otherwise each would keep its session while a table is locked.
    await client.query(sql`set statement_timeout = ${literal(QUERY_TIMEOUT_MS)}`)
    client.on('notification', this.#wakeSignal.notify)
    for (const { channel } of this.#copies) if (channel !== undefined) await client.query(sql`listen ${identifier(channel)}`)
  }

  /** Polls every copy. Returns the start of the next poll: every earlier transaction has ended. */
  async #poll(client: pg.Client, since: string): Promise<string> {
    const polled = this.#nextPoll
    this.#nextPoll = Promise.withResolvers()
    try {
      return await readCopies(client, this.#copies, since)
    } finally {
      polled.resolve()
    }
  }
}

interface Polled extends Pick<CopyDefinition<object>, 'name' | 'read' | 'maxAgeMs' | 'channel'> {
  readonly columns: readonly string[]
  /** Call before a reading, and then call the returned function with the reading's row. */
  begin(isWhole: boolean): (row: Record<string, unknown>) => void
  /** The start of this copy's next poll. `since` is that of all copies. */
  sinceOf(since: string): string
  wasUsedSincePoll(): boolean
  settled(): Promise<void>
}

async function readCopies(db: Queryable, copies: readonly Polled[], since: string): Promise<string> {
  const sinces = copies.map((copy) => copy.sinceOf(since))
  const columns = copies.flatMap(({ name, columns }) =>
    columns.map((column) => sql`${identifier(name)}.${identifier(column)} as ${identifier(`${name}.${column}`)}`),
  )
  const { text, values } = sql`select
      pg_snapshot_xmin(pg_current_snapshot())::text as next, ${commaList(columns)}
    from ${commaList(copies.map((copy, index) => sql`(${copy.read(sinces[index] ?? since)}) as ${identifier(copy.name)}`))}`
  const name = copies.length === 1 ? {} : { name: 'fresh-copies' }
  const query: pg.QueryConfig & { query_timeout: number } = { ...name, text, values, query_timeout: QUERY_TIMEOUT_MS }
  const takes = copies.map((copy, index) => copy.begin(sinces[index] === EVERYTHING))
  const { rows } = await db.query(query)
  const row: (Record<string, unknown> & { next: string }) | undefined = rows[0]
  if (row === undefined) throw new Error(`one of these copies reads no row: ${copies.map(({ name }) => name).join(', ')}`)
  for (const take of takes) take(row)
  return row.next
}

interface CopyOptions {
  pool: Queryable
  logger: Logger
  nextPoll: () => Promise<void>
}

export class FreshCopy<Row extends object> implements Polled {
  readonly #definition: CopyDefinition<Row>
  readonly #options: CopyOptions
  #readAt = Number.NEGATIVE_INFINITY
  #wasUsed = false
  /** A poll was skipped or overtaken by another reading, so the next one reads everything. */
  #isIncomplete = false
  #begun = 0
  #learned = 0
  #reading: Promise<void> | null = null
  #learning: Promise<void> = Promise.resolve()

  constructor(definition: CopyDefinition<Row>, options: CopyOptions) {
    this.#definition = definition
    this.#options = options
  }

  get isFresh(): boolean {
    this.#wasUsed = true
    return performance.now() - this.#readAt <= this.maxAgeMs
  }

  async ensureFresh(): Promise<void> {
    if (this.isFresh) return
    const shared = this.#reading
    try {
      await (shared ?? this.#read())
      // The shared poll may have begun longer ago than the maximum age.
      if (shared !== null && !this.isFresh) await this.#read()
    } catch (error) {
      if (!this.isFresh) throw error
    }
  }

  /**
   * Reads the copy after a change by this process. Simultaneous calls share a reading that begins after all of them.
   * Does not throw: after a failure the copy is not fresh until a later reading.
   */
  async refresh(): Promise<void> {
    try {
      await this.#read()
    } catch (error) {
      this.#options.logger.warn({ err: error, copy: this.name }, 'a change could not be read back')
      this.#learned = ++this.#begun
      this.#readAt = Number.NEGATIVE_INFINITY
    }
  }

  /** Reads the copy after a possible change by another process. Does not throw, and keeps the copy's freshness. */
  async look(): Promise<void> {
    await this.#read().catch((error) => this.#options.logger.warn({ err: error, copy: this.name }, 'could not look for a change'))
  }

  async #read(): Promise<void> {
    // A reading in progress may have begun before the change. Its error goes to its own caller.
    await this.#reading?.catch(() => {})
    this.#reading ??= readCopies(this.#options.pool, [this], EVERYTHING)
      .then(() => this.#learning)
      .finally(() => {
        this.#isIncomplete = true
        this.#reading = null
      })
    return this.#reading
  }

  sinceOf(since: string): string {
    const isIncomplete = this.#isIncomplete
    this.#isIncomplete = false
    return isIncomplete ? EVERYTHING : since
  }

  wasUsedSincePoll(): boolean {
    const wasUsed = this.#wasUsed
    this.#wasUsed = false
    return wasUsed
  }

  /** Returns after a poll that begins later than this call, even if the poll fails. */
  nextPoll(): Promise<void> {
    return this.#options.nextPoll()
  }

  get name(): string {
    return this.#definition.name
  }

  get columns(): readonly string[] {
    return this.#definition.columns
  }

  get maxAgeMs(): number {
    return this.#definition.maxAgeMs
  }

  get channel(): string | undefined {
    return this.#definition.channel
  }

  read(since: string): Sql {
    return this.#definition.read(since)
  }

  begin(isWhole: boolean): (row: Record<string, unknown>) => void {
    const beganAt = performance.now()
    const turn = ++this.#begun
    return (row) => {
      // A reading that began earlier may have read an older state.
      if (turn < this.#learned) {
        this.#isIncomplete = true
        return
      }
      this.#learned = turn
      const own = Object.fromEntries(this.columns.map((column) => [column, row[`${this.name}.${column}`]])) as Row
      const learned = this.#definition.learn(own, { beganAt, isWhole })
      this.#readAt = Math.max(this.#readAt, beganAt)
      if (learned === undefined) return
      const settled = learned.catch((error) => this.#options.logger.warn({ err: error, copy: this.name }, 'a change could not be taken up'))
      this.#learning = Promise.all([this.#learning, settled]).then(() => {})
    }
  }

  async settled(): Promise<void> {
    await this.#reading?.catch(() => {})
    await this.#learning
  }
}
