import os from 'node:os'
import type { Logger } from 'pino'
import { loggableError } from '../db/loggable-error.ts'
import { sql } from '../db/sql.ts'
import { Loop } from '../loop.ts'
import type { Deliver, DeliveryKind } from './delivery-kind.ts'
import { correctTimes, isWholeWalk, STEP_SECONDS, type WalkedReceiver, walkReceivers } from './delivery-rows.ts'
import { DeliveryWorker, type WorkOptions } from './delivery-worker.ts'
import type { DeliveryPools } from './held-rows.ts'

/** The longest wait of a due delivery for a worker of another process. */
const POLL_MS = 2_000
/**
 * Clock steps that happen and revert between two polls leave wrong times in rows. This interval bounds how long those
 * stay.
 */
const CORRECT_MS = 60_000
const CORRECT_AGAIN_MS = 2_000

export interface DeliveryQueueOptions extends DeliveryPools {
  logger: Logger
  /** The longest pause of every kind. 0 retries at once, for tests. */
  longestPauseSeconds?: number
}

/**
 * The workers of this process. One statement every two seconds finds the due deliveries for all of them: those queued
 * by other processes, retries, and those of processes that died. The same statement reads the database's clock, so a
 * clock step delays no delivery. See docs/decisions/deliveries.md.
 */
export class DeliveryQueue {
  readonly #options: DeliveryQueueOptions
  readonly #workers = new Map<string, DeliveryWorker<never>>()
  /** The last receiver that the walk has reached, by kind. */
  readonly #walked = new Map<string, string>()
  readonly #loop: Loop
  /** A separate loop, so corrections do not delay the poll. */
  readonly #corrections: Loop
  /** Seconds between the database's clock and the time since boot, which also runs while a machine is suspended. */
  #aheadSeconds = Number.NaN
  /** The clock step seen since the last correction; 0 for none. */
  #stepSeconds = 0
  #stopped: Promise<void> | undefined

  constructor(options: DeliveryQueueOptions) {
    this.#options = options
    const { logger } = options
    this.#loop = new Loop({
      everyMs: POLL_MS,
      work: () => this.#poll(),
      onFailure(error, { isFirst }) {
        if (isFirst) logger.error({ err: loggableError(error) }, 'due deliveries cannot be found')
      },
      onRecovered: () => logger.info('due deliveries are found again'),
    })
    this.#corrections = new Loop({
      ...{ everyMs: CORRECT_MS, retryMs: CORRECT_AGAIN_MS, retryMaxMs: CORRECT_MS },
      work: () => this.#correct(),
      onFailure(error, { isFirst }) {
        if (isFirst) logger.error({ err: loggableError(error) }, 'the times of waiting deliveries cannot be checked')
      },
    })
  }

  async start(): Promise<void> {
    await Promise.all([this.#loop.start(), this.#corrections.start()])
  }

  /** Stops all workers. Idempotent, safe before start. */
  stop(): Promise<void> {
    this.#stopped ??= Promise.all([this.#loop, this.#corrections, ...this.#workers.values()].map((each) => each.stop())).then(() => {})
    return this.#stopped
  }

  /** Starts the worker of a kind. A process has one worker of each kind. */
  work<Row extends object>(kind: DeliveryKind, options: WorkOptions, deliver: Deliver<Row>): DeliveryWorker<Row> {
    const { longestPauseSeconds = Number.POSITIVE_INFINITY } = this.#options
    const bounded = { ...kind, longestPauseSeconds: Math.min(kind.longestPauseSeconds, longestPauseSeconds) }
    const worker = new DeliveryWorker<Row>(this.#options, bounded, options, deliver)
    this.#workers.set(kind.name, worker as unknown as DeliveryWorker<never>)
    worker.start()
    this.#loop.wake()
    this.#corrections.wake()
    return worker
  }

  async #poll(): Promise<void> {
    if (this.#workers.size === 0) return
    const workers = [...this.#workers]
    try {
      await this.#walk(workers)
    } catch (error) {
      // A locked table of one kind does not stop the others.
      if (workers.length > 1) await Promise.allSettled(workers.map((worker) => this.#walk([worker])))
      throw error
    }
  }

  async #walk(workers: readonly [string, DeliveryWorker<never>][]): Promise<void> {
    const walks = workers.map(([name, { kind }]) => walkReceivers(kind, this.#walked.get(name) ?? null))
    const { rows } = await this.#options.pool.query<WalkedReceiver & { seconds: number }>(
      sql`select extract(epoch from clock_timestamp())::float8 as seconds, queue, receiver, is_due
      from (select) as clock
      left join (${walks.reduce((before, walk) => sql`${before} union all ${walk}`)}) as walked on true`,
    )
    this.#compareClock(rows[0]?.seconds ?? Number.NaN)
    const byQueue = Map.groupBy(rows, ({ queue }) => queue)
    for (const [name, worker] of workers) {
      const walked = byQueue.get(name) ?? []
      if (isWholeWalk(walked.length)) this.#walked.delete(name)
      else this.#walked.set(name, walked.at(-1)?.receiver ?? '')
      worker.wake(walked.filter(({ is_due }) => is_due).map(({ receiver }) => receiver))
    }
  }

  #compareClock(seconds: number): void {
    const aheadSeconds = seconds - os.uptime()
    const bySeconds = Math.round(this.#aheadSeconds - aheadSeconds)
    this.#aheadSeconds = aheadSeconds
    if (!(Math.abs(bySeconds) > STEP_SECONDS)) return
    this.#stepSeconds = bySeconds
    this.#corrections.wake()
  }

  async #correct(): Promise<void> {
    const failures: unknown[] = []
    let corrected = 0
    for (const { kind } of this.#workers.values()) {
      try {
        corrected += await correctTimes(this.#options.pool, kind)
      } catch (error) {
        // One kind's failure does not stop the others.
        failures.push(error)
      }
    }
    if (this.#stepSeconds !== 0 || corrected > 0)
      this.#options.logger.warn(
        { bySeconds: this.#stepSeconds, corrected },
        "the database's clock was set: the times of waiting deliveries were corrected",
      )
    this.#stepSeconds = 0
    if (failures.length > 0) throw failures[0]
  }
}
