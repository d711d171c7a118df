import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { OrderRecord } from '../orders/events.ts'
import { type Lsn, openReplication, parseLsn, type ReplicationConnection, type StreamMessage } from './replication-connection.ts'

/** A change of one order: the row after it, and before it unless it is new. */
export interface OrderChange {
  record: OrderRecord
  previous: OrderRecord | null
}

/** A committed transaction that changed orders. */
export interface Commit {
  /** Cluster and end of the commit in its log, as text that sorts: `<system id>/<16 hex digits>`. */
  position: string
  changes: OrderChange[]
}

export interface ChangeStreamOptions {
  /** Address of the database. */
  url: string
  slotName: string
  /** Must have stored what `commits` tell of when it returns. When it throws, the stream is read again from the confirmed position. */
  onCommits: (commits: Commit[]) => Promise<void>
  logger: Logger
}

const SLOT_IN_USE = '55006'
const STANDBY_RETRY_MS = 500
const RETRY_MIN_MS = 200
const RETRY_MAX_MS = 5_000
// Far below the wal_sender_timeout that the connection asks for.
const STATUS_INTERVAL_MS = 2_000
/** Past this many changes in memory the socket is no longer read. */
const MAX_WAITING_CHANGES = 2_000

/**
 * Reads committed order changes from PostgreSQL's logical replication slot, in commit order, at least once.
 * A position is confirmed only at a commit boundary and after `onCommits` returned for everything up to it.
 * One reader is active: PostgreSQL refuses a second one, which stands by until the slot is free.
 */
export class ChangeStream {
  readonly #options: ChangeStreamOptions
  readonly #stopping = new AbortController()
  #running: Promise<void> | null = null
  #reader: Reader | null = null
  readonly #progress = { changes: 0, lastAt: null as Date | null }
  #state: 'stopped' | 'standby' | 'active' | 'failing' = 'stopped'

  constructor(options: ChangeStreamOptions) {
    this.#options = options
  }

  /** For readiness: `standby` is well, `failing` is not. */
  get state() {
    return this.#state
  }

  /** For metrics: changes handed on since the process started, and when that last happened. */
  get progress(): { changes: number; lastAt: Date | null } {
    return { ...this.#progress }
  }

  async start(): Promise<void> {
    this.#running ??= this.#run()
  }

  /** Waits for the batch in hand, confirms it, and lets the slot go. Idempotent. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#reader?.stop()
    await this.#running
    this.#state = 'stopped'
  }

  async #handOn(commits: Commit[]): Promise<void> {
    await this.#options.onCommits(commits)
    this.#progress.changes += commits.reduce((sum, { changes }) => sum + changes.length, 0)
    this.#progress.lastAt = new Date()
  }

  async #run(): Promise<void> {
    const { logger, slotName } = this.#options
    let retryMs = RETRY_MIN_MS
    while (!this.#stopping.signal.aborted) {
      try {
        this.#reader = await Reader.open({ ...this.#options, onCommits: (commits) => this.#handOn(commits) })
        if (this.#stopping.signal.aborted) await this.#reader.stop()
        logger.info({ slot: slotName }, 'change stream is active')
        this.#state = 'active'
        await this.#reader.ended
        retryMs = RETRY_MIN_MS
      } catch (error) {
        if (this.#stopping.signal.aborted) break
        const isTaken = (error as { code?: string }).code === SLOT_IN_USE
        if (this.#reader?.hasProgressed) retryMs = RETRY_MIN_MS
        this.#state = isTaken ? 'standby' : 'failing'
        if (!isTaken) logger.error({ err: error, slot: slotName, retryMs }, 'change stream failed, will retry')
        await delay(isTaken ? STANDBY_RETRY_MS : retryMs, undefined, { signal: this.#stopping.signal }).catch(() => {})
        retryMs = Math.min(retryMs * 2, RETRY_MAX_MS)
      } finally {
        this.#reader = null
      }
    }
  }
}

/** One connection to the slot, from opening to its end. */
class Reader {
  readonly #onCommits: ChangeStreamOptions['onCommits']
  readonly #failure = Promise.withResolvers<never>()
  #connection: ReplicationConnection | null = null
  #open: OrderChange[] = []
  #waiting: { end: Lsn; changes: OrderChange[] }[] = []
  #waitingChanges = 0
  #inTransaction = false
  #draining: Promise<void> | null = null
  #confirmed: Lsn = 0n
  #statusTimer: NodeJS.Timeout | undefined
  #stopping = false
  hasProgressed = false
  ended: Promise<void> = Promise.resolve()

  private constructor(onCommits: ChangeStreamOptions['onCommits']) {
    this.#onCommits = onCommits
    this.#failure.promise.catch(() => {})
  }

  static async open({ url, slotName, onCommits }: ChangeStreamOptions): Promise<Reader> {
    const reader = new Reader(onCommits)
    const connection = await openReplication(url, slotName, (message) => reader.#receive(message))
    reader.#connection = connection
    reader.#statusTimer = setInterval(() => reader.#sendStatus(), STATUS_INTERVAL_MS)
    reader.ended = reader.#untilEnd(connection)
    reader.ended.catch(() => {})
    // Messages may have come before the connection was known here.
    reader.#drainSoon()
    return reader
  }

  async #untilEnd(connection: ReplicationConnection): Promise<void> {
    try {
      await Promise.race([connection.ended, this.#failure.promise])
    } finally {
      clearInterval(this.#statusTimer)
      this.#stopping = true
      await this.#draining
      await connection.close().catch(() => {})
    }
  }

  async stop(): Promise<void> {
    this.#stopping = true
    await this.#draining
    this.#sendStatus()
    await this.#connection?.close().catch(() => {})
    await this.ended.catch(() => {})
  }

  #receive(message: StreamMessage): void {
    try {
      if (message.kind === 'keepalive') this.#keepAlive(message)
      else this.#collect(message.message)
    } catch (error) {
      this.#failure.reject(error)
    }
  }

  #collect(message: Extract<StreamMessage, { kind: 'change' }>['message']): void {
    switch (message.tag) {
      case 'begin':
        this.#inTransaction = true
        this.#open = []
        return
      case 'insert':
        this.#open.push({ record: message.new as OrderRecord, previous: null })
        return
      case 'update':
        this.#open.push({ record: message.new as OrderRecord, previous: message.old as OrderRecord | null })
        return
      case 'commit': {
        const end = parseLsn(message.commitEndLsn ?? '0/0')
        this.#inTransaction = false
        this.#waiting.push({ end, changes: this.#open })
        this.#waitingChanges += this.#open.length
        this.#open = []
        if (this.#waitingChanges > MAX_WAITING_CHANGES) this.#connection?.pause()
        this.#drainSoon()
        return
      }
      // Orders are never deleted by the store; a row that an operator deletes is no change of an order's life.
      default:
    }
  }

  /** With nothing in hand, all the WAL up to here holds nothing for us: confirming it lets a busy server drop it. */
  #keepAlive({ walEnd, replyRequested }: { walEnd: Lsn; replyRequested: boolean }): void {
    const isIdle = !this.#inTransaction && this.#waiting.length === 0 && this.#draining === null
    if (isIdle && walEnd > this.#confirmed) this.#confirmed = walEnd
    if (replyRequested) this.#sendStatus()
  }

  #drainSoon(): void {
    if (this.#draining !== null || this.#connection === null) return
    this.#draining = this.#drain()
      .catch((error) => this.#failure.reject(error))
      .finally(() => {
        this.#draining = null
      })
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#stopping) {
      const batch = this.#waiting
      this.#waiting = []
      this.#waitingChanges = 0
      await this.#onCommits(batch.map(({ end, changes }) => ({ position: this.#position(end), changes })))
      this.#confirmed = batch.at(-1)?.end ?? this.#confirmed
      this.hasProgressed = true
      this.#sendStatus()
      this.#connection?.resume()
    }
  }

  /** Also a sign of life. Position 0 confirms nothing. */
  #sendStatus(): void {
    this.#connection?.confirm(this.#confirmed)
  }

  #position(end: Lsn): string {
    return `${this.#connection?.systemId ?? ''}/${end.toString(16).padStart(16, '0')}`
  }
}
