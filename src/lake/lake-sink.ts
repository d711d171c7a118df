import { setImmediate } from 'node:timers/promises'
import type { Logger } from 'pino'
import { reasonOf } from '../db/loggable-error.ts'
import type { OrderEvent } from '../orders/events.ts'
import { type Fence, FencedOut, type MessageHandler, type TopicEvent } from '../topic/topic.ts'
import { withinMs } from '../within-ms.ts'
import type { LakeDataset } from './lake-dataset.ts'
import { LakeBehind, LakeFiles, type PendingRow } from './lake-files.ts'
import type { LakeStore } from './lake-store.ts'

export interface LakeSinkOptions<E extends TopicEvent = OrderEvent> {
  store: LakeStore
  dataset: LakeDataset<E>
  flushSeconds: number
  flushRows: number
  logger: Logger
  now?: () => Date
  /**
   * Called with the `sequences` of messages that were stored. All messages up to `upTo` are stored. `since` is the
   * start of the write, by `performance.now`.
   */
  onStored?: (sequences: number[], upTo: number, since: number) => void
  /** The file contains only events that the lake did not have. */
  onFileWritten?: (rows: number) => void
}

// Orders with hundreds of lines fill the memory long before `flushRows` is reached.
const MAX_BUFFERED_CHARACTERS = 64 * 1024 * 1024
// This is about 5 ms of work. After it, other roles of the process may run.
const TURN_CHARACTERS = 1024 * 1024
// A backlog of this number of rows is written as soon as nothing follows it.
const BACKLOG_ROWS = 1_000
const BACKLOG_ROWS_PER_MS = 1
const QUIET_MS = 200
const FIRST_RETRY_MS = 200
const LAST_RETRY_MS = 30_000
const STOP_PATIENCE_MS = 4_000
const PROBE_EVERY_MS = 2_000
/** A remote folder or bucket counts as unavailable if it has not answered for this time. */
const HANGS_AFTER_MS = 30_000

/** File and position become visible together, in a snapshot: subscribe with both `handle` and `lastSequence`. */
export class LakeSink<E extends TopicEvent = OrderEvent> {
  readonly #options: LakeSinkOptions<E> & { now: () => Date }
  readonly #files: LakeFiles
  #buffer: PendingRow[] = []
  #bufferedCharacters = 0
  #lastTaken = 0
  /** Changes when the buffer is discarded. A batch that waited meanwhile can then not continue and leave a gap. */
  #generation = 0
  #fence: Fence | null = null
  #running = false
  #behind: LakeBehind | null = null
  #restart: (reason: Error) => void = () => {}
  #writing: Promise<void> | null = null
  #timer: NodeJS.Timeout | null = null
  #quietTimer: NodeJS.Timeout | null = null
  /** When the oldest row arrived that is not being written yet, by `performance.now`. */
  #since = 0
  #failures = 0
  #flushFailure: string | null = null
  #probe: { at: number; failure: Promise<string | null>; isAnswered: boolean } | null = null
  /** When each running operation of the store began, by `performance.now`. */
  readonly #inFlight = new Set<{ since: number }>()

  constructor(options: LakeSinkOptions<E>) {
    this.#options = { now: () => new Date(), ...options }
    this.#files = new LakeFiles(options.store, options.dataset.name, this.#options.now, options.onFileWritten)
  }

  async start(): Promise<void> {
    if (this.#running) return
    try {
      await this.#options.store.removeOldWorkspaces()
      await this.lastSequence()
    } catch (error) {
      // The subscription retries. The rest of the store works without a lake.
      this.#options.logger.error({ err: error }, 'the lake cannot be read; it is retried')
    }
    this.#running = true
  }

  /** Writes the buffer. A failure is logged and not thrown, because the topic delivers those events again. */
  async stop(): Promise<void> {
    this.#running = false
    this.#generation += 1
    this.#clearTimer()
    try {
      const isLate = await withinMs(
        STOP_PATIENCE_MS,
        this.flush().then(() => false),
        true,
      )
      if (isLate) throw new Error(`the lake was not written within ${STOP_PATIENCE_MS} ms`)
    } catch (error) {
      this.#options.logger.error(
        { err: error, rows: this.#buffer.length },
        'last lake flush failed; its events are delivered again after the next start',
      )
    }
  }

  /**
   * Discards the buffer, because the caller delivers from the end of the lake again. Calls `restart` when the lake has
   * lost rows, which must be delivered again even if no others arrive.
   */
  readonly lastSequence = async (restart: (reason: Error) => void = () => {}): Promise<number> => {
    this.#generation += 1
    while (this.#writing !== null) await this.#writing.catch(() => undefined)
    this.#discardBuffer()
    this.#lastTaken = await this.#watch(() => this.#files.newestSequence())
    this.#behind = null
    this.#restart = restart
    return this.#lastTaken
  }

  /** Buffers new messages. If the buffer is full, writes it first, and throws if that fails. */
  readonly handle: MessageHandler<E> = async (messages, signal, fence) => {
    if (!this.#running) throw new Error('the lake sink is not running')
    if (this.#behind !== null) throw this.#behind
    this.#fence = fence ?? null
    const generation = this.#generation
    let turnCharacters = 0
    for (const message of messages) {
      if (message.sequence <= this.#lastTaken) continue
      const ingestedAt = this.#options.now().toISOString()
      const ingestDate = ingestedAt.slice(0, 10)
      const isOfOtherDate = ingestDate !== (this.#buffer.at(-1)?.ingestDate ?? ingestDate)
      const mustFlush = this.#isFull() || isOfOtherDate
      if (mustFlush || turnCharacters >= TURN_CHARACTERS) {
        await (mustFlush ? this.flush() : setImmediate())
        if (generation !== this.#generation) throw new Error('the lake sink stopped or gave up its buffer during a batch')
        if (signal.aborted) return
        turnCharacters = 0
      }
      const json = JSON.stringify(this.#options.dataset.toRow(message, ingestedAt))
      turnCharacters += json.length
      const { id: eventId, time } = message.event
      this.#push({ sequence: message.sequence, ingestDate, eventId, eventTime: Date.parse(time), json })
    }
    if (this.#isFull()) await this.flush()
    else if (this.#buffer.length >= BACKLOG_ROWS) this.#expectQuiet()
  }

  /** Writes the buffer. Throws if that fails; the rows then stay, and the write is retried with growing pauses. */
  async flush(): Promise<void> {
    // This is a loop, because another waiting caller may have begun the next write.
    while (this.#writing !== null) await this.#writing.catch(() => undefined)
    if (this.#buffer.length === 0) return
    this.#clearTimer()
    this.#writing = this.#writeBuffered().finally(() => {
      this.#writing = null
    })
    await this.#writing
  }

  /**
   * The reason why the lake cannot be written; null if it can. While no events arrive, it tries to create a workspace,
   * at most every two seconds.
   */
  async findFailure(): Promise<string | null> {
    if (this.#flushFailure !== null) return this.#flushFailure
    const now = performance.now()
    const silentMs = now - Math.min(now, ...[...this.#inFlight].map(({ since }) => since))
    if (silentMs > HANGS_AFTER_MS) return `the storage has not answered for ${Math.round(silentMs / 1_000)} s`
    // A probe that hangs is not repeated, because each probe would occupy a thread of the process.
    if (this.#probe === null || (this.#probe.isAnswered && now - this.#probe.at > PROBE_EVERY_MS)) this.#probe = this.#beginProbe(now)
    return withinMs(PROBE_EVERY_MS, this.#probe.failure, null)
  }

  #beginProbe(at: number) {
    const probe = { at, failure: Promise.resolve<string | null>(null), isAnswered: false }
    probe.failure = this.#watch(() => this.#options.store.withWorkspace(async () => null))
      .catch((error: unknown) => reasonOf(error))
      .finally(() => {
        probe.isAnswered = true
      })
    return probe
  }

  async #watch<T>(operation: () => Promise<T>): Promise<T> {
    const began = { since: performance.now() }
    this.#inFlight.add(began)
    return operation().finally(() => this.#inFlight.delete(began))
  }

  async #writeBuffered(): Promise<void> {
    const upTo = this.#lastTaken
    const since = performance.now()
    try {
      for (let rows = this.#nextFile(upTo); rows.length > 0; rows = this.#nextFile(upTo)) {
        const stored = await this.#watch(() => this.#files.store(rows, this.#fence))
        this.#forgetUpTo(stored, since)
        this.#options.logger.debug({ rows: rows.length, stored, durationMs: Math.round(performance.now() - since) }, 'lake file written')
      }
      this.#failures = 0
      this.#flushFailure = null
    } catch (error) {
      // The process that has taken over also gets these events, and writes them.
      const isTakenOver = error instanceof FencedOut
      if (error instanceof LakeBehind) {
        this.#behind = error
        this.#restart(error)
      }
      if (isTakenOver) this.#discardBuffer()
      this.#failures += 1
      this.#flushFailure = isTakenOver ? null : reasonOf(error)
      if (this.#running && this.#buffer.length > 0) this.#arm(Math.min(FIRST_RETRY_MS * 2 ** (this.#failures - 1), LAST_RETRY_MS))
      throw error
    }
  }

  #discardBuffer(): void {
    this.#generation += 1
    this.#buffer = []
    this.#bufferedCharacters = 0
    this.#clearTimer()
  }

  #nextFile(upTo: number): PendingRow[] {
    const date = this.#buffer[0]?.ingestDate
    const end = this.#buffer.findIndex((row, index) => index === this.#options.flushRows || row.ingestDate !== date || row.sequence > upTo)
    return this.#buffer.slice(0, end === -1 ? undefined : end)
  }

  #push(row: PendingRow): void {
    this.#buffer.push(row)
    this.#bufferedCharacters += row.json.length
    this.#lastTaken = row.sequence
    if (this.#timer !== null) return
    this.#since = performance.now()
    this.#arm(this.#options.flushSeconds * 1_000)
  }

  #expectQuiet(): void {
    if (this.#quietTimer !== null) clearTimeout(this.#quietTimer)
    const waitedMs = performance.now() - this.#since
    this.#quietTimer = setTimeout(() => {
      this.#quietTimer = null
      if (this.#writing !== null) this.#expectQuiet()
      else if (this.#failures === 0 && this.#buffer.length >= Math.max(BACKLOG_ROWS, waitedMs * BACKLOG_ROWS_PER_MS)) this.#flushLater()
    }, QUIET_MS)
  }

  #forgetUpTo(sequence: number, since: number): void {
    const kept = this.#buffer.findIndex((row) => row.sequence > sequence)
    const gone = this.#buffer.splice(0, kept === -1 ? this.#buffer.length : kept)
    for (const row of gone) this.#bufferedCharacters -= row.json.length
    const sequences = gone.map((row) => row.sequence)
    this.#options.onStored?.(sequences, sequence, since)
  }

  #isFull(): boolean {
    return this.#buffer.length >= this.#options.flushRows || this.#bufferedCharacters >= MAX_BUFFERED_CHARACTERS
  }

  #arm(delayMs: number): void {
    this.#clearTimer()
    this.#timer = setTimeout(() => {
      this.#timer = null
      this.#flushLater()
    }, delayMs)
  }

  #flushLater(): void {
    this.flush().catch((error: unknown) => {
      this.#options.logger.error({ err: error, rows: this.#buffer.length, failures: this.#failures }, 'lake flush failed; it is retried')
    })
  }

  #clearTimer(): void {
    for (const timer of [this.#timer, this.#quietTimer]) if (timer !== null) clearTimeout(timer)
    this.#timer = this.#quietTimer = null
  }
}
