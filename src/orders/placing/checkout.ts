import { setImmediate } from 'node:timers/promises'
import { canOneRowBeAtFault, isDatabaseOutage, isTimeout } from '../../db/failures.ts'
import { AppError } from '../../errors.ts'
import type { OrderRequest, Outcome, PlacedOrder } from './desk.ts'
import { rowsAreLocked } from './locked-rows.ts'
import { requestInProgress } from './request-locks.ts'

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
  /** How long an order waits, from when it is found that somebody else has in hand what it needs. */
  asideMs: 2_000,
  /** Orders, and their lines, that wait so; past either such an order is refused at once. */
  asideOrders: 1_000,
  asideLines: 50_000,
  /** Orders placed alone at once: each holds a connection while it waits. */
  aloneAtOnce: 2,
  /** How long one of them waits before it is the next one's turn, shared among those that wait; and the least. */
  aloneTurnMs: 250,
  aloneTurnMinMs: 20,
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
  /** Of an order that was set aside: when, and what it is refused with when its time is over. */
  aside?: { since: number; reason: unknown }
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
  /** Orders to be placed alone, in turns: somebody else has in hand what they need, and it is not known when that ends. */
  readonly #contended: Waiting[] = []
  #alone = 0
  #aside = 0
  #asideLines = 0

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
    this.#enqueue({ request, names: this.#options.namesOf(request), since: performance.now(), settle })
    if (this.#options.observer !== undefined) this.#observe(settle.promise, this.#options.observer)
    return settle.promise
  }

  #observe(placed: Promise<PlacedOrder>, observer: CheckoutObserver): void {
    placed.then(
      ({ isReplay }) => observer.orderPlaced(isReplay),
      (error) =>
        observer.orderRefused(
          error instanceof AppError ? error.code : isDatabaseOutage(error) || isTimeout(error) ? 'unavailable' : 'internal',
        ),
    )
  }

  #enqueue(waiting: Waiting): void {
    this.#waiting.push(waiting)
    this.#waitingLines += waiting.request.basket.lines.length
    if (!this.#isWorking) void this.#work()
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
    else if (outcome?.kind === 'blocked') void this.#placeWhenFree(waiting, outcome.untilFree)
    else this.#placeInTurn(waiting, requestInProgress())
  }

  /** Keeps an order out of the way of others. Refuses it when too many are set aside, or it has been for long enough. */
  #setAside(waiting: Waiting, reason: unknown): waiting is Waiting & Required<Pick<Waiting, 'aside'>> {
    const { asideMs, asideOrders, asideLines } = this.#limits
    if (waiting.aside === undefined) {
      const lines = waiting.request.basket.lines.length
      if (this.#aside >= asideOrders || this.#asideLines >= asideLines) {
        waiting.settle.reject(reason)
        return false
      }
      this.#aside += 1
      this.#asideLines += lines
      const comeBack = () => {
        this.#aside -= 1
        this.#asideLines -= lines
      }
      waiting.settle.promise.then(comeBack, comeBack)
    }
    waiting.aside = { since: waiting.aside?.since ?? performance.now(), reason }
    if (performance.now() - waiting.aside.since < asideMs) return true
    waiting.settle.reject(reason)
    return false
  }

  /** Places an order with a later batch, as soon as the rows that it needs are free. */
  async #placeWhenFree(waiting: Waiting, untilFree: (ms: number) => Promise<boolean>): Promise<void> {
    const reason = rowsAreLocked()
    if (!this.#setAside(waiting, reason)) return
    if (await untilFree(waiting.aside.since + this.#limits.asideMs - performance.now())) this.#enqueue(waiting)
    else waiting.settle.reject(reason)
  }

  #placeInTurn(waiting: Waiting, reason: unknown): void {
    if (!this.#setAside(waiting, reason)) return
    this.#contended.push(waiting)
    void this.#workOnContended()
  }

  async #workOnContended(): Promise<void> {
    const { aloneAtOnce, aloneTurnMs, aloneTurnMinMs, asideMs } = this.#limits
    if (this.#alone >= aloneAtOnce) return
    this.#alone += 1
    for (let next = this.#contended.shift(); next !== undefined; next = this.#contended.shift()) {
      const leftMs = (next.aside?.since ?? 0) + asideMs - performance.now()
      if (leftMs <= 0) next.settle.reject(next.aside?.reason)
      else await this.#placeAlone(next, Math.min(leftMs, Math.max(aloneTurnMinMs, aloneTurnMs / (1 + this.#contended.length))))
    }
    this.#alone -= 1
  }

  /** Returns the error that the order is answered with, null without one. What had not enough time gets another turn. */
  async #placeAlone(waiting: Waiting, waitMs: number): Promise<unknown> {
    try {
      waiting.settle.resolve(await this.#options.placeAlone(waiting.request, waitMs))
      return null
    } catch (error) {
      if (error instanceof AppError && TAKES_ANOTHER_TURN.has(error.code)) this.#placeInTurn(waiting, error)
      else waiting.settle.reject(error)
      return error
    }
  }

  /**
   * One order may be at fault, and the others must not suffer for it. That is only safe after an error with which PostgreSQL has undone
   * the batch; after any other one nobody knows, and only a retry with the same key does not place an order twice.
   */
  async #placeOneByOne(batch: readonly Waiting[], error: unknown): Promise<void> {
    if (isTimeout(error)) {
      // What was waited for is no row that an order names, such as a lock of a whole table.
      for (const waiting of batch) this.#placeInTurn(waiting, rowsAreLocked(error))
      return
    }
    if (!(error instanceof AppError) && !canOneRowBeAtFault(error)) {
      for (const waiting of batch) waiting.settle.reject(error)
      return
    }
    let isAnswered = error instanceof AppError
    for (const waiting of batch) {
      const refusal = await this.#placeAlone(waiting, this.#limits.aloneTurnMs)
      isAnswered ||= refusal !== null && !(refusal instanceof AppError)
    }
    if (!isAnswered) this.#options.onBatchFailed?.(error, batch.length)
  }
}

/** Of orders placed alone: what they need was not free in time. */
const TAKES_ANOTHER_TURN: ReadonlySet<string> = new Set(['unavailable', 'request_in_progress'])

function tooBusy(): AppError {
  return new AppError('unavailable', 'Too many orders wait to be placed. Try again in a moment.')
}
