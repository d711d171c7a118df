import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { every } from '../loop.ts'
import type { OrderRecord } from '../orders/events.ts'
import { withinMs } from '../within-ms.ts'
import { type Lsn, PgoutputReader, type RowShape, readCommitPosition } from './pgoutput.ts'
import { openReplication, type ReplicationConnection, type ReplicationOptions, type StreamMessage } from './replication-connection.ts'

export interface StreamSource<Row, Previous extends keyof Row> {
  publication: string
  shape: RowShape<Row, Previous>
}

export interface RowChange<Row, Previous extends keyof Row> {
  record: Row
  previous: Pick<Row, Previous> | null
}

export type OrderChange = RowChange<OrderRecord, 'status' | 'version'>

export interface Commit<Change = OrderChange> {
  /** `<system id>.<timeline>/<16 hex digits>` of the commit's end sorts as text. Earlier parts have a smaller one. */
  position: string
  changes: Change[]
}

export interface ChangeStreamOptions<Row, Previous extends keyof Row> extends Omit<ReplicationOptions, 'publication'> {
  source: StreamSource<Row, Previous>
  url: string
  slotName: string
  /** Returns when everything is stored. When it throws, the stream restarts from the confirmed position. */
  onCommits: (commits: Commit<RowChange<Row, Previous>>[]) => Promise<void>
  /**
   * Runs before any delivery or confirmation. An error closes the slot until a later attempt. `signal` aborts when the
   * slot closes.
   */
  onOpened?: (signal: AbortSignal) => void | Promise<void>
  /**
   * Runs before a confirmation. If it throws, nothing is confirmed, and the slot is reopened later. `logId` is `<system
   * id>.<timeline>`.
   */
  beforeConfirming?: (logId: string, position: Lsn) => Promise<void>
  onFailed?: (error: unknown) => Promise<void>
  /** Called before each attempt, to create a missing slot. If it throws, the attempt has failed. */
  beforeOpening?: (signal: AbortSignal) => Promise<void>
  logger: Logger
}

// Far below the wal_sender_timeout that the connection requests.
const STATUS_INTERVAL_MS = 2_000
/** The shortest time between two calls of `beforeConfirming`. */
const CONFIRM_INTERVAL_MS = 500
/**
 * The interval for an idle stream. Recording a position writes WAL too, so a shorter interval needs this number of
 * bytes.
 */
const IDLE_CONFIRM_INTERVAL_MS = 5_000
const IDLE_CONFIRM_BYTES = 2_048n
const STOP_PATIENCE_MS = 2_000
/** Reading pauses beyond these. In larger batches young objects survive a garbage collection and are copied. */
const MAX_WAITING_CHANGES = 1_000
const MAX_WAITING_BYTES = 16 * 1024 * 1024
/**
 * Transactions above these limits are delivered in parts. Only committed ones arrive, and the last part confirms the
 * position.
 */
const MAX_PART_CHANGES = 10_000
const MAX_PART_BYTES = 16 * 1024 * 1024

export interface SlotReaderOptions<Row, Previous extends keyof Row> extends ChangeStreamOptions<Row, Previous> {
  onConfirmed: (position: string) => void
}

export class SlotReader<Row extends object, Previous extends keyof Row> {
  readonly #options: SlotReaderOptions<Row, Previous>
  readonly #pgoutput: PgoutputReader<Row, Previous>
  readonly #failure = Promise.withResolvers<never>()
  #connection: ReplicationConnection | null = null
  #open: RowChange<Row, Previous>[] = []
  #openBytes = 0
  #commitPosition: Lsn = 0n
  #waiting: { end: Lsn; changes: RowChange<Row, Previous>[]; isPart: boolean }[] = []
  #waitingChanges = 0
  #waitingBytes = 0
  #inTransaction = false
  #draining: Promise<void> | null = null
  /** `onCommits` has stored everything up to here. */
  #stored: Lsn = 0n
  /** `beforeConfirming` has returned for it, so the server may be told. */
  #confirmed: Lsn = 0n
  #isConfirming = false
  #confirming: Promise<void> = Promise.resolve()
  #confirmedAt = Number.NEGATIVE_INFINITY
  readonly #ending = new AbortController()
  #endStatus = () => {}
  #stopping = false
  ended: Promise<void> = Promise.resolve()

  private constructor(options: SlotReaderOptions<Row, Previous>) {
    this.#options = options
    this.#pgoutput = new PgoutputReader(options.source.shape)
    this.#failure.promise.catch(() => {})
  }

  static async open<Row extends object, Previous extends keyof Row>(
    options: SlotReaderOptions<Row, Previous>,
  ): Promise<SlotReader<Row, Previous>> {
    const reader = new SlotReader(options)
    const { publication } = options.source
    const connection = await openReplication(options.url, options.slotName, (message) => reader.#receive(message), {
      ...options,
      publication,
    })
    // Confirms nothing. Otherwise the server would end a stream whose `onOpened` takes long, after each attempt.
    const endSigns = every(STATUS_INTERVAL_MS, () => connection.confirm(0n))
    const closed = new AbortController()
    try {
      connection.pause()
      await unlessAborted(Promise.race([options.onOpened?.(closed.signal), connection.ended]), options.signal)
      connection.resume()
    } catch (error) {
      closed.abort(error)
      await connection.close().catch(() => {})
      throw error
    } finally {
      endSigns()
    }
    // Set this late because nothing may be delivered or confirmed before `onOpened` has returned.
    reader.#connection = connection
    // Reported here because an idle server sends nothing about what another reader has confirmed.
    options.onConfirmed(reader.#position(connection.confirmed))
    reader.#endStatus = every(STATUS_INTERVAL_MS, () => reader.#sendStatus())
    reader.ended = reader.#untilEnd(connection)
    reader.ended.catch(() => {})
    // Messages may have arrived before `#connection` was set.
    reader.#drainSoon()
    reader.#confirmSoon()
    return reader
  }

  async #untilEnd(connection: ReplicationConnection): Promise<void> {
    try {
      await Promise.race([connection.ended, this.#failure.promise])
    } finally {
      this.#endStatus()
      this.#stopping = true
      await this.#draining
      await this.#untilConfirmed()
      await connection.close().catch(() => {})
    }
  }

  async stop(): Promise<void> {
    this.#stopping = true
    await this.#draining
    await this.#untilConfirmed()
    this.#sendStatus()
    await this.#connection?.close().catch(() => {})
    await this.ended.catch(() => {})
  }

  #receive(message: StreamMessage): void {
    try {
      if (message.kind === 'keepalive') this.#keepAlive(message)
      else this.#collect(message.message)
    } catch (error) {
      this.#fail(error)
    }
  }

  #collect(bytes: Buffer): void {
    const message = this.#pgoutput.read(bytes)
    switch (message.kind) {
      case 'begin':
        this.#inTransaction = true
        this.#open = []
        this.#openBytes = 0
        this.#commitPosition = readCommitPosition(bytes)
        return
      case 'change':
        this.#open.push({ record: message.record, previous: message.previous })
        this.#openBytes += bytes.length
        if (this.#open.length >= MAX_PART_CHANGES || this.#openBytes >= MAX_PART_BYTES) this.#close(this.#commitPosition, true)
        return
      case 'commit':
        this.#inTransaction = false
        this.#close(message.end, false)
        return
      default:
    }
  }

  #close(end: Lsn, isPart: boolean): void {
    this.#waiting.push({ end, changes: this.#open, isPart })
    this.#waitingChanges += this.#open.length
    this.#waitingBytes += this.#openBytes
    this.#open = []
    this.#openBytes = 0
    if (this.#waitingChanges > MAX_WAITING_CHANGES || this.#waitingBytes > MAX_WAITING_BYTES) this.#connection?.pause()
    this.#drainSoon()
  }

  /**
   * Handles a keep-alive. With nothing in flight, the WAL up to `walEnd` has no change of the table, so the server may
   * remove it.
   */
  #keepAlive({ walEnd, replyRequested }: { walEnd: Lsn; replyRequested: boolean }): void {
    const isIdle = !this.#inTransaction && this.#waiting.length === 0 && this.#draining === null
    // A server that shuts down asks for a reply, and waits until everything is confirmed or the connection is closed.
    const isDue = replyRequested || this.#isWorthConfirming(walEnd)
    if (isIdle && !this.#stopping && walEnd > this.#stored && isDue) this.#advance(walEnd)
    if (replyRequested) this.#sendStatus()
  }

  #isWorthConfirming(walEnd: Lsn): boolean {
    if (this.#options.beforeConfirming === undefined || walEnd - this.#stored > IDLE_CONFIRM_BYTES) return true
    return performance.now() - this.#confirmedAt > IDLE_CONFIRM_INTERVAL_MS
  }

  #drainSoon(): void {
    if (this.#draining !== null || this.#connection === null) return
    this.#draining = this.#drain()
      .catch((error) => this.#fail(error))
      .finally(() => {
        this.#draining = null
      })
  }

  /**
   * Ends the stream with an error. Sets `#stopping`, because the failed batch is no longer queued, and a keep-alive
   * must not confirm a position past it.
   */
  #fail(error: unknown): void {
    this.#stopping = true
    this.#failure.reject(error)
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#stopping) {
      const batch = this.#waiting
      this.#waiting = []
      this.#waitingChanges = 0
      this.#waitingBytes = 0
      await this.#options.onCommits(batch.map(({ end, changes }) => ({ position: this.#position(end), changes })))
      const whole = batch.findLast(({ isPart }) => !isPart)
      if (whole !== undefined) this.#advance(whole.end)
      this.#connection?.resume()
    }
  }

  #advance(position: Lsn): void {
    this.#stored = position
    // Before `#connection` is set, a keep-alive's log is unknown.
    if (this.#connection === null) return
    this.#options.onConfirmed(this.#position(position))
    this.#confirmSoon()
  }

  #confirmSoon(): void {
    if (!this.#isConfirming) this.#confirming = this.#confirm().catch((error) => this.#fail(error))
  }

  /** The server is told only recorded positions. */
  async #confirm(): Promise<void> {
    const { beforeConfirming } = this.#options
    this.#isConfirming = true
    try {
      while (this.#stored > this.#confirmed) {
        const position = this.#stored
        if (beforeConfirming !== undefined) {
          const pauseMs = this.#confirmedAt + CONFIRM_INTERVAL_MS - performance.now()
          if (pauseMs > 0) await delay(pauseMs, undefined, { signal: this.#ending.signal }).catch(() => {})
          // The time is set before the call. The call's own write causes a keep-alive, which is no reason to confirm
          // again.
          this.#confirmedAt = performance.now()
          await beforeConfirming(this.#connection?.logId ?? '', position)
        }
        this.#confirmed = position
        this.#sendStatus()
      }
    } finally {
      // This is in the same turn as the last look, so a later advance starts another loop.
      this.#isConfirming = false
    }
  }

  /** Waits at most two seconds. The next reader gets the rest again. */
  async #untilConfirmed(): Promise<void> {
    this.#ending.abort()
    await withinMs(STOP_PATIENCE_MS, this.#confirming, null)
  }

  /** PostgreSQL also takes it as a keep-alive. Position 0 confirms nothing. */
  #sendStatus(): void {
    this.#connection?.confirm(this.#confirmed)
  }

  #position(end: Lsn): string {
    return `${this.#connection?.logId ?? ''}/${end.toString(16).padStart(16, '0')}`
  }
}

async function unlessAborted(work: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const onAbort = () => reject(signal?.reason)
  if (signal?.aborted) onAbort()
  signal?.addEventListener('abort', onAbort)
  await Promise.race([work, aborted]).finally(() => signal?.removeEventListener('abort', onAbort))
}
