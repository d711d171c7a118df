import { ORDER_COLUMNS, type OrderRecord } from '../orders/events.ts'
import type { ChangeStreamOptions, OrderChange } from './change-stream.ts'
import { type Lsn, PgoutputReader } from './pgoutput.ts'
import { openReplication, type ReplicationConnection, type StreamMessage } from './replication-connection.ts'

// Far below the wal_sender_timeout that the connection asks for.
const STATUS_INTERVAL_MS = 2_000
/**
 * Past this many changes or bytes in memory the socket is no longer read. A batch is what came while the one before was stored; young
 * objects of much larger ones outlive a garbage collection, and are copied.
 */
const MAX_WAITING_CHANGES = 1_000
const MAX_WAITING_BYTES = 16 * 1024 * 1024

export interface SlotReaderOptions extends ChangeStreamOptions {
  /** `position` as in a commit. */
  onConfirmed: (position: string) => void
}

/** One connection to the slot, from opening to its end. */
export class SlotReader {
  readonly #options: SlotReaderOptions
  readonly #pgoutput = new PgoutputReader<OrderRecord, 'status' | 'version'>({
    table: 'orders',
    columns: ORDER_COLUMNS,
    previousColumns: ['status', 'version'],
  })
  readonly #failure = Promise.withResolvers<never>()
  #connection: ReplicationConnection | null = null
  #open: OrderChange[] = []
  #waiting: { end: Lsn; changes: OrderChange[] }[] = []
  #waitingChanges = 0
  #waitingBytes = 0
  #inTransaction = false
  #draining: Promise<void> | null = null
  #confirmed: Lsn = 0n
  #statusTimer: NodeJS.Timeout | undefined
  #stopping = false
  hasProgressed = false
  ended: Promise<void> = Promise.resolve()

  private constructor(options: SlotReaderOptions) {
    this.#options = options
    this.#failure.promise.catch(() => {})
  }

  static async open(options: SlotReaderOptions): Promise<SlotReader> {
    const reader = new SlotReader(options)
    const connection = await openReplication(options.url, options.slotName, (message) => reader.#receive(message), options)
    reader.#connection = connection
    options.onOpened?.()
    // While nothing is written the server says nothing of what another reader has confirmed.
    options.onConfirmed(reader.#position(connection.confirmed))
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
      this.#fail(error)
    }
  }

  #collect(bytes: Buffer): void {
    const message = this.#pgoutput.read(bytes)
    switch (message.kind) {
      case 'begin':
        this.#inTransaction = true
        this.#open = []
        return
      case 'change':
        this.#open.push({ record: message.record, previous: message.previous })
        this.#waitingBytes += bytes.length
        return
      case 'commit':
        this.#inTransaction = false
        this.#waiting.push({ end: message.end, changes: this.#open })
        this.#waitingChanges += this.#open.length
        this.#open = []
        if (this.#waitingChanges > MAX_WAITING_CHANGES || this.#waitingBytes > MAX_WAITING_BYTES) this.#connection?.pause()
        this.#drainSoon()
        return
      default:
    }
  }

  /** With nothing in hand, all the WAL up to here holds nothing for us: confirming it lets a busy server drop it. */
  #keepAlive({ walEnd, replyRequested }: { walEnd: Lsn; replyRequested: boolean }): void {
    const isIdle = !this.#inTransaction && this.#waiting.length === 0 && this.#draining === null
    if (isIdle && !this.#stopping && walEnd > this.#confirmed) this.#advance(walEnd)
    if (replyRequested) this.#sendStatus()
  }

  #drainSoon(): void {
    if (this.#draining !== null || this.#connection === null) return
    this.#draining = this.#drain()
      .catch((error) => this.#fail(error))
      .finally(() => {
        this.#draining = null
      })
  }

  /** What was refused is in hand no more, and yet not done: from here on no keep-alive counts as a sign that it is. */
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
      this.#advance(batch.at(-1)?.end ?? this.#confirmed)
      this.hasProgressed = true
      this.#sendStatus()
      this.#connection?.resume()
    }
  }

  #advance(position: Lsn): void {
    this.#confirmed = position
    // A keep-alive that comes before the connection is known here is of a log that is not known either.
    if (this.#connection !== null) this.#options.onConfirmed(this.#position(position))
  }

  /** Also a sign of life. Position 0 confirms nothing. */
  #sendStatus(): void {
    this.#connection?.confirm(this.#confirmed)
  }

  #position(end: Lsn): string {
    return `${this.#connection?.logId ?? ''}/${end.toString(16).padStart(16, '0')}`
  }
}
