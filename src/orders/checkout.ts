import { setImmediate } from 'node:timers/promises'
import { canOneRowBeAtFault, isDatabaseOutage } from '../db/constraints.ts'
import { AppError } from '../errors.ts'
import type { OrderRequest, Outcome, PlacedOrder } from './desk.ts'
import { isLockTimeout } from './request-locks.ts'

export interface CheckoutOptions {
  /** Places several orders in one transaction. Calls `onLocked` as soon as whoever comes after it can only be served after it. */
  placeTogether: (requests: readonly OrderRequest[], onLocked: () => void) => Promise<Outcome[]>
  /** Places one order, waiting at most so long for what somebody else has in hand. */
  placeAlone: (request: OrderRequest, waitMs: number) => Promise<PlacedOrder>
  /** Names of what only one transaction at a time may have in hand. */
  namesOf: (request: OrderRequest) => readonly string[]
  limits?: Partial<typeof LIMITS>
  /** Called with an unknown error of a batch that none of its orders is answered with: nobody else can log it. */
  onBatchFailed?: (error: unknown, orders: number) => void
  observer?: CheckoutObserver | undefined
}

/** Hears what becomes of orders. */
export interface CheckoutObserver {
  /** So many are tried in one transaction. */
  ordersTried(orders: number): void
  /** They could not be placed without a look at what there is, and are placed again. */
  batchUndone(): void
  orderPlaced(isReplay: boolean): void
  /** With the code of the problem. */
  orderRefused(code: string): void
}

const LIMITS = {
  /** Orders of one batch, and lines of one batch unless a single order has more. */
  batchOrders: 128,
  batchLines: 2_000,
  /** Orders and lines that wait; past either the store is too busy. */
  waitingOrders: 2_000,
  waitingLines: 100_000,
  /** How long an order waits for its batch to begin. */
  waitMs: 10_000,
  /** How long after its arrival an order is given up that somebody else has in hand; tried it is at least this long. */
  aloneMs: 2_000,
  aloneMinMs: 100,
  /** Orders placed alone at once: each holds a connection while it waits. */
  aloneAtOnce: 2,
}

/** One is being committed while the next one takes its stock. */
const BATCHES_AT_ONCE = 2

/** Connections that placing uses at most: one for each batch, and one for each order placed alone. */
export const CONNECTIONS_FOR_PLACING = BATCHES_AT_ONCE + LIMITS.aloneAtOnce

interface Waiting {
  request: OrderRequest
  names: readonly string[]
  since: number
  settle: PromiseWithResolvers<PlacedOrder>
}

/**
 * Where the orders of this process wait to be placed. While a batch is being decided upon, those that arrive wait; when it holds its
 * locks and has only to be written and committed, all that wait go into the next one together, which can only be served after it.
 * No timer: an order that finds nobody waiting starts at once.
 */
export class Checkout {
  readonly #options: CheckoutOptions
  readonly #limits: typeof LIMITS
  #waiting: Waiting[] = []
  #waitingLines = 0
  #isWorking = false
  /** Batches that have not ended. */
  readonly #running = new Set<Promise<void>>()
  /** Names of the orders in them. */
  readonly #inHand = new Set<string>()
  /** Orders that another process has in hand. */
  readonly #contended: Waiting[] = []
  #alone = 0

  constructor(options: CheckoutOptions) {
    this.#options = options
    this.#limits = { ...LIMITS, ...options.limits }
  }

  /** Returns when the order is committed. Throws what it is refused for, and `unavailable` when too many wait. */
  place(request: OrderRequest): Promise<PlacedOrder> {
    if (this.#waiting.length >= this.#limits.waitingOrders || this.#waitingLines >= this.#limits.waitingLines) {
      this.#options.observer?.orderRefused('unavailable')
      return Promise.reject(tooBusy())
    }
    const settle = Promise.withResolvers<PlacedOrder>()
    this.#waiting.push({ request, names: this.#options.namesOf(request), since: performance.now(), settle })
    this.#waitingLines += request.basket.lines.length
    if (!this.#isWorking) void this.#work()
    if (this.#options.observer !== undefined) this.#observe(settle.promise, this.#options.observer)
    return settle.promise
  }

  #observe(placed: Promise<PlacedOrder>, observer: CheckoutObserver): void {
    placed.then(
      ({ isReplay }) => observer.orderPlaced(isReplay),
      (error) => observer.orderRefused(error instanceof AppError ? error.code : isDatabaseOutage(error) ? 'unavailable' : 'internal'),
    )
  }

  async #work(): Promise<void> {
    this.#isWorking = true
    // Those that arrived in the same turn of the event loop come along.
    await setImmediate()
    while (this.#waiting.length > 0) {
      const batch = this.#nextBatch()
      if (batch.length === 0) {
        // None is under way when all that waited have waited for too long: a race of none would never end.
        if (this.#running.size > 0) await Promise.race(this.#running)
        continue
      }
      const locked = Promise.withResolvers<void>()
      const ended = this.#placeBatch(batch, locked.resolve)
      this.#running.add(ended)
      void ended.then(() => this.#running.delete(ended))
      await Promise.race([locked.promise, ended])
      if (this.#running.size === BATCHES_AT_ONCE) await Promise.race(this.#running)
      // The answers go out, and what arrived meanwhile comes in, before the next batch is closed.
      await setImmediate()
    }
    this.#isWorking = false
  }

  #nextBatch(): Waiting[] {
    const { batchOrders, batchLines, waitMs } = this.#limits
    const batch: Waiting[] = []
    const left: Waiting[] = []
    let lines = 0
    const oldest = performance.now() - waitMs
    for (const waiting of this.#waiting) {
      const more = waiting.request.basket.lines.length
      const isFull = batch.length === batchOrders || (batch.length > 0 && lines + more > batchLines)
      // A retry of what the batch before has in hand waits for its answer.
      if (isFull || waiting.names.some((name) => this.#inHand.has(name))) {
        left.push(waiting)
        continue
      }
      this.#waitingLines -= more
      if (waiting.since < oldest) {
        waiting.settle.reject(tooBusy())
        continue
      }
      lines += more
      batch.push(waiting)
    }
    this.#waiting = left
    return batch
  }

  async #placeBatch(batch: readonly Waiting[], onLocked: () => void): Promise<void> {
    const names = batch.flatMap((waiting) => waiting.names)
    for (const name of names) this.#inHand.add(name)
    this.#options.observer?.ordersTried(batch.length)
    try {
      const requests = batch.map(({ request }) => request)
      const outcomes = await this.#options.placeTogether(requests, onLocked)
      for (const [index, waiting] of batch.entries()) this.#answer(waiting, outcomes[index])
    } catch (error) {
      await this.#placeOneByOne(batch, error)
    } finally {
      for (const name of names) this.#inHand.delete(name)
    }
  }

  #answer(waiting: Waiting, outcome: Outcome | undefined): void {
    if (outcome?.kind === 'placed') waiting.settle.resolve(outcome.order)
    else if (outcome?.kind === 'refused') waiting.settle.reject(outcome.error)
    else {
      this.#contended.push(waiting)
      void this.#workOnContended()
    }
  }

  /**
   * One order may be at fault, and the others must not suffer for it. That is only safe after an error with which PostgreSQL has undone
   * the batch; after any other one nobody knows, and only a retry with the same key does not place an order twice.
   */
  async #placeOneByOne(batch: readonly Waiting[], error: unknown): Promise<void> {
    if (!(error instanceof AppError) && !canOneRowBeAtFault(error)) {
      for (const waiting of batch) waiting.settle.reject(error)
      return
    }
    let isAnswered = error instanceof AppError || isLockTimeout(error)
    for (const waiting of batch) {
      await this.#placeAlone(waiting)
      await waiting.settle.promise.catch((refusal) => {
        isAnswered ||= !(refusal instanceof AppError)
      })
    }
    if (!isAnswered) this.#options.onBatchFailed?.(error, batch.length)
  }

  async #workOnContended(): Promise<void> {
    if (this.#alone >= this.#limits.aloneAtOnce) return
    this.#alone += 1
    for (let next = this.#contended.shift(); next !== undefined; next = this.#contended.shift()) await this.#placeAlone(next)
    this.#alone -= 1
  }

  async #placeAlone({ request, since, settle }: Waiting): Promise<void> {
    const { aloneMs, aloneMinMs } = this.#limits
    const waitMs = Math.max(aloneMinMs, since + aloneMs - performance.now())
    await this.#options.placeAlone(request, waitMs).then(settle.resolve, settle.reject)
  }
}

function tooBusy(): AppError {
  return new AppError('unavailable', 'Too many orders wait to be placed. Try again in a moment.')
}
