import { OBJECT_IN_USE, sqlState } from '../db/sql-state.ts'
import { type Failure, Loop } from '../loop.ts'
import { ServerSilent, SILENCE_MS } from './replication-connection.ts'
import { type ChangeStreamOptions, type Commit, type RowChange, SlotReader } from './slot-reader.ts'

const STANDBY_RETRY_MS = 500
const RETRY_MIN_MS = 200
const RETRY_MAX_MS = 5_000
const SILENCE_MAX_MS = 16 * SILENCE_MS

export interface WatchedStream {
  readonly state: 'stopped' | 'standby' | 'active' | 'failing'
  readonly progress: { changes: number; lastAt: Date | null }
  /** The last attempt's error while the stream is `failing`; otherwise null. */
  readonly failure: unknown
  start(): Promise<void>
  stop(): Promise<void>
}

/**
 * Delivers a table's changes in commit order, at least once. Confirms a position at a commit boundary, after
 * `onCommits` has returned for everything up to it. PostgreSQL refuses a second reader, which stands by until the slot
 * is free.
 */
export class ChangeStream<Row extends object, Previous extends keyof Row> implements WatchedStream {
  readonly #options: ChangeStreamOptions<Row, Previous>
  readonly #loop: Loop
  #reader: SlotReader<Row, Previous> | null = null
  readonly #progress = { changes: 0, lastAt: null as Date | null }
  /** The position of the newest failed commit. Null once that position or a later one is confirmed. */
  #failedAt: string | null = null
  #state: 'stopped' | 'standby' | 'active' | 'failing' = 'stopped'
  #failure: unknown = null
  #logged: string | null = null
  /**
   * Doubled after each silence, until a commit is delivered: PostgreSQL 15 does not answer while it decodes a rewritten
   * table, and begins again with each reader.
   */
  #silenceMs: number

  constructor(options: ChangeStreamOptions<Row, Previous>) {
    this.#options = options
    this.#silenceMs = options.silenceMs ?? SILENCE_MS
    this.#loop = new Loop({
      ...{ everyMs: 0, retryMs: RETRY_MIN_MS, retryMaxMs: RETRY_MAX_MS },
      work: (signal, well) => this.#read(signal, well),
      onFailure: (error, failure) => this.#onFailed(error, failure),
    })
  }

  /** `standby` is healthy. `failing` lasts until some process has confirmed the failed commits. */
  get state() {
    return this.#state
  }

  get failure(): unknown {
    return this.#state === 'failing' ? this.#failure : null
  }

  get progress(): { changes: number; lastAt: Date | null } {
    return { ...this.#progress }
  }

  start(): Promise<void> {
    return this.#loop.start()
  }

  /** Waits for the batch in flight, confirms it and releases the slot. */
  async stop(): Promise<void> {
    const stopped = this.#loop.stop()
    await this.#reader?.stop()
    await stopped
    this.#state = 'stopped'
  }

  async #deliver(commits: Commit<RowChange<Row, Previous>>[]): Promise<void> {
    try {
      await this.#options.onCommits(commits)
    } catch (error) {
      this.#failedAt = commits.at(-1)?.position ?? null
      throw error
    }
    this.#progress.changes += commits.reduce((sum, { changes }) => sum + changes.length, 0)
    this.#progress.lastAt = new Date()
    this.#silenceMs = this.#options.silenceMs ?? SILENCE_MS
  }

  #onConfirmed(position: string): void {
    const failedAt = this.#failedAt
    if (failedAt === null || (logOf(position) === logOf(failedAt) && position < failedAt)) return
    this.#failedAt = null
    this.#state = 'active'
  }

  /** Returns the pause before the next attempt, because another reader may have the slot. */
  async #read(signal: AbortSignal, well: () => void): Promise<number> {
    try {
      await this.#options.beforeOpening?.(signal)
      this.#reader = await SlotReader.open({
        ...this.#options,
        onCommits: (commits) => this.#deliver(commits).then(well),
        onConfirmed: (position) => this.#onConfirmed(position),
        silenceMs: this.#silenceMs,
        signal,
      })
      if (signal.aborted) await this.#reader.stop()
      this.#options.logger.info({ slot: this.#options.slotName }, 'change stream is active')
      if (this.#failedAt === null) this.#state = 'active'
      this.#logged = null
      await this.#reader.ended
      return 0
    } catch (error) {
      if (signal.aborted || sqlState(error) !== OBJECT_IN_USE) throw error
      this.#state = 'standby'
      return STANDBY_RETRY_MS
    } finally {
      this.#reader = null
    }
  }

  async #onFailed(error: unknown, { retryMs }: Failure): Promise<void> {
    const { logger, slotName, onFailed } = this.#options
    this.#state = 'failing'
    this.#failure = error
    if (error instanceof ServerSilent) this.#silenceMs = Math.min(2 * this.#silenceMs, SILENCE_MAX_MS)
    const message = error instanceof Error ? error.message : String(error)
    logger[message === this.#logged ? 'debug' : 'error']({ err: error, slot: slotName, retryMs }, 'change stream failed, will retry')
    this.#logged = message
    await onFailed?.(error).catch((failure: unknown) => logger.warn({ err: failure, slot: slotName }, 'a failure could not be recorded'))
  }
}

function logOf(position: string): string | undefined {
  return position.split('/')[0]
}
