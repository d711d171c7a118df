import { setTimeout as delay, setImmediate } from 'node:timers/promises'
import type { Logger } from 'pino'
import { PriceList } from '../../catalogue/products.ts'
import { canOneRowBeAtFault, isDatabaseOutage, isTimeout } from '../../db/failures.ts'
import { loggableError } from '../../db/loggable-error.ts'
import { AppError } from '../../errors.ts'
import { overloaded } from '../../http/load-shedder.ts'
import type { Outcome, PlacedOrder } from './batch-decision.ts'
import { CustomerShares } from './customer-shares.ts'
import { FairQueue } from './fair-queue.ts'
import { rowsAreLocked } from './locked-rows.ts'
import { OptimisticBackoff } from './optimistic-backoff.ts'
import { lockKeysOf, type OrderRequest, rowsOf } from './order-request.ts'
import { type PlacingContext, placeOrders } from './place-orders.ts'

export interface OrderBatcherOptions {
  /** Places orders in one transaction; SQLSTATE 55P03 when it has waited for a lock for `maxLockMs`. */
  placeOrders: (requests: readonly OrderRequest[], maxLockMs?: number) => Promise<Outcome[]>
  /** Orders that have a key in common are never in two batches at once. */
  lockKeysOf: (request: OrderRequest) => readonly string[]
  /** Returns whether the locked rows that the order needs became free within `ms`. */
  untilFree: (request: OrderRequest, ms: number) => Promise<boolean>
  /** Called when a batch failed with an error that no request reports. */
  onBatchFailed?: ((error: unknown, orders: number) => void) | undefined
  limits?: Partial<typeof LIMITS>
  observer?: PlacingObserver | undefined
}

export interface PlacingObserver {
  /** The number of orders in one transaction. */
  ordersTried(orders: number): void
  /** The state had changed since a batch was decided on, and it is decided again. */
  batchUndone(): void
  orderPlaced(isReplay: boolean): void
  /** With the code of the problem. */
  orderRefused(code: string): void
}

const LIMITS = {
  /** Orders of one batch, and lines of one batch unless a single order has more or small ones join. */
  batchOrders: 128,
  batchLines: 2_000,
  /** An order of at most this number of lines joins a batch that has all its lines: large orders of others do not delay it. */
  smallOrderLines: 8,
  /** Orders and lines that wait at most; more are refused with 503. */
  waitingOrders: 2_000,
  waitingLines: 100_000,
  /** Orders above these that customers with few unanswered ones, and few lines in them, still add. */
  reservedOrders: 500,
  fewOrders: 4,
  fewLines: 32,
  /** Unanswered orders and lines of one customer at most: some batches, while most of what may wait is for others. More are refused with 429. */
  customerOrders: 500,
  customerLines: 10_000,
  /** How long an order waits for its batch to begin. */
  waitMs: 10_000,
  /** How long an order waits for another transaction that has its key or its rows. */
  deferredMs: 2_000,
  /** Deferred orders and lines at most; more are refused with 503. */
  deferredOrders: 1_000,
  deferredLines: 50_000,
  /** Orders placed alone at once: each holds a connection while it waits. */
  aloneAtOnce: 2,
  /** How long one of them waits for a lock, shared among those that wait for their turn; and the least. */
  aloneTurnMs: 250,
  aloneTurnMinMs: 20,
}

/** While one waits for its commit, PostgreSQL works on the other. A third batch in flight gave smaller batches and no more throughput. */
const BATCHES_AT_ONCE = 2

/** Connections that placing uses at most: one for each batch, and one for each order placed alone. */
export const CONNECTIONS_FOR_PLACING = BATCHES_AT_ONCE + LIMITS.aloneAtOnce

interface WaitingOrder {
  request: OrderRequest
  /** The customer, or the network of a guest. */
  countedFor: string
  lockKeys: readonly string[]
  since: number
  answer: PromiseWithResolvers<PlacedOrder>
  /** Of an order that was deferred: since when, and the error after `deferredMs`. */
  deferred?: { since: number; error: unknown }
}

export interface PlacingOptions extends Omit<PlacingContext, 'prices' | 'backoff' | 'onConflict'> {
  logger: Pick<Logger, 'error'>
  observer?: PlacingObserver | undefined
}

/** The batcher of a process. */
export function createOrderBatcher({ logger, observer, ...options }: PlacingOptions): OrderBatcher {
  const { lockedRows } = options
  const onConflict = () => observer?.batchUndone()
  const context: PlacingContext = { ...options, prices: new PriceList(), backoff: new OptimisticBackoff(), onConflict }
  return new OrderBatcher({
    placeOrders: (requests, maxLockMs) => placeOrders(context, requests, maxLockMs),
    lockKeysOf: (request) => lockKeysOf(request, options),
    untilFree: (request, ms) => lockedRows.untilFree(rowsOf([request]), ms),
    onBatchFailed: (error, orders) =>
      logger.error({ err: loggableError(error), orders }, 'a batch of orders failed; each was placed alone'),
    observer,
  })
}

/**
 * Collects the orders of this process into batches. While batches are in flight, new orders wait, and then go into the next one together. There is
 * no timer: an order that finds none in flight starts at once.
 */
export class OrderBatcher {
  readonly #options: OrderBatcherOptions
  readonly #limits: typeof LIMITS
  readonly #shares: CustomerShares
  readonly #waiting = new FairQueue<WaitingOrder>()
  #waitingLines = 0
  #isWorking = false
  readonly #batchesInFlight = new Set<Promise<void>>()
  readonly #lockKeysInFlight = new Set<string>()
  /** Orders to be placed alone, in turns: it is not known when what they need will be free. */
  readonly #contended: WaitingOrder[] = []
  #alone = 0
  #deferred = 0
  #deferredLines = 0

  constructor(options: OrderBatcherOptions) {
    this.#options = options
    this.#limits = { ...LIMITS, ...options.limits }
    this.#shares = new CustomerShares(this.#limits)
  }

  /** The share of `waitingOrders` that waits when each customer counts once: of a few who fill the queue, others notice nothing. */
  get fullness(): number {
    return this.#waiting.owners / this.#limits.waitingOrders
  }

  /**
   * Returns when the order is committed. Throws the reason for a refusal, `overloaded` when too many orders wait,
   * and `rate_limited` when too many of them count for one: the customer, or the network of a guest.
   */
  place(request: OrderRequest, countedFor: string = request.userId): Promise<PlacedOrder> {
    const lines = request.basket.lines.length
    if (this.#isFullFor(countedFor, lines)) {
      this.#options.observer?.orderRefused('overloaded')
      return Promise.reject(tooBusy())
    }
    const answer = Promise.withResolvers<PlacedOrder>()
    if (!this.#shares.take(countedFor, lines, answer.promise)) {
      this.#options.observer?.orderRefused('rate_limited')
      return Promise.reject(tooManyOfOne())
    }
    this.#enqueue({ request, countedFor, lockKeys: this.#options.lockKeysOf(request), since: performance.now(), answer })
    if (this.#options.observer !== undefined) observe(answer.promise, this.#options.observer)
    return answer.promise
  }

  #isFullFor(customer: string, lines: number): boolean {
    const { waitingOrders, waitingLines, reservedOrders } = this.#limits
    if (this.#waiting.length < waitingOrders && this.#waitingLines < waitingLines) return false
    return this.#waiting.length >= waitingOrders + reservedOrders || !this.#shares.usesLittleWith(customer, lines)
  }

  #enqueue(order: WaitingOrder): void {
    this.#waiting.push(order.countedFor, order)
    this.#waitingLines += order.request.basket.lines.length
    if (!this.#isWorking) void this.#work()
  }

  async #work(): Promise<void> {
    this.#isWorking = true
    while (this.#waiting.length > 0) {
      // Orders that arrived in the same turn of the event loop join the batch, and answers are sent before it is closed.
      await setImmediate()
      const batch = this.#nextBatch()
      if (batch.length > 0) {
        const placed = this.#placeBatch(batch)
        this.#batchesInFlight.add(placed)
        void placed.then(() => this.#batchesInFlight.delete(placed))
      }
      // Without a batch, all orders that wait need a key in flight, or none is left.
      const isIdle = this.#batchesInFlight.size === 0
      if (!isIdle && (batch.length === 0 || this.#batchesInFlight.size === BATCHES_AT_ONCE)) await Promise.race(this.#batchesInFlight)
    }
    this.#isWorking = false
  }

  #nextBatch(): WaitingOrder[] {
    const { batchOrders, batchLines, smallOrderLines, waitMs } = this.#limits
    const batch: WaitingOrder[] = []
    let batchedLines = 0
    const oldest = performance.now() - waitMs
    // A retry waits until the batch in flight with the same key has finished.
    const isReady = ({ lockKeys }: WaitingOrder) => !lockKeys.some((key) => this.#lockKeysInFlight.has(key))
    const fits = ({ request }: WaitingOrder) => {
      const lines = request.basket.lines.length
      return batch.length === 0 || lines <= smallOrderLines || batchedLines + lines <= batchLines
    }
    for (const order of this.#waiting.take(isReady, fits)) {
      const lines = order.request.basket.lines.length
      this.#waitingLines -= lines
      if (order.since < oldest) {
        order.answer.reject(tooBusy())
        continue
      }
      batchedLines += lines
      batch.push(order)
      if (batch.length === batchOrders) break
    }
    return batch
  }

  async #placeBatch(batch: readonly WaitingOrder[]): Promise<void> {
    const lockKeys = batch.flatMap((order) => order.lockKeys)
    for (const key of lockKeys) this.#lockKeysInFlight.add(key)
    this.#options.observer?.ordersTried(batch.length)
    try {
      const outcomes = await this.#options.placeOrders(batch.map(({ request }) => request))
      for (const [index, order] of batch.entries()) this.#answer(order, outcomes[index])
    } catch (error) {
      await this.#placeOneByOne(batch, error)
    } finally {
      for (const key of lockKeys) this.#lockKeysInFlight.delete(key)
    }
  }

  #answer(order: WaitingOrder, outcome: Outcome | undefined): void {
    if (outcome?.kind === 'placed') order.answer.resolve(outcome.order)
    else if (outcome?.kind === 'refused') order.answer.reject(outcome.error)
    else if (outcome?.kind === 'blocked') void this.#placeWhenFree(order)
    else this.#placeInTurn(order, requestInProgress())
  }

  /** Defers an order so that it does not hold up others. Refuses it when too many are deferred, or it was deferred for too long. */
  #defer(order: WaitingOrder, error: unknown): order is WaitingOrder & Required<Pick<WaitingOrder, 'deferred'>> {
    const { deferredMs, deferredOrders, deferredLines } = this.#limits
    if (order.deferred === undefined) {
      const lines = order.request.basket.lines.length
      if (this.#deferred >= deferredOrders || this.#deferredLines >= deferredLines) {
        order.answer.reject(error)
        return false
      }
      this.#deferred += 1
      this.#deferredLines += lines
      const uncount = () => {
        this.#deferred -= 1
        this.#deferredLines -= lines
      }
      order.answer.promise.then(uncount, uncount)
    }
    order.deferred = { since: order.deferred?.since ?? performance.now(), error }
    if (performance.now() - order.deferred.since < deferredMs) return true
    order.answer.reject(error)
    return false
  }

  /** Places an order with a later batch, as soon as the rows that it needs are free. */
  async #placeWhenFree(order: WaitingOrder): Promise<void> {
    const error = rowsAreLocked()
    if (!this.#defer(order, error)) return
    const leftMs = order.deferred.since + this.#limits.deferredMs - performance.now()
    if (await this.#options.untilFree(order.request, leftMs)) this.#enqueue(order)
    else order.answer.reject(error)
  }

  #placeInTurn(order: WaitingOrder, error: unknown): void {
    if (!this.#defer(order, error)) return
    this.#contended.push(order)
    void this.#workOnContended()
  }

  async #workOnContended(): Promise<void> {
    const { aloneAtOnce, aloneTurnMs, aloneTurnMinMs, deferredMs } = this.#limits
    if (this.#alone >= aloneAtOnce) return
    this.#alone += 1
    for (let order = this.#contended.shift(); order !== undefined; order = this.#contended.shift()) {
      const leftMs = (order.deferred?.since ?? 0) + deferredMs - performance.now()
      const turnMs = Math.min(leftMs, Math.max(aloneTurnMinMs, aloneTurnMs / (1 + this.#contended.length)))
      if (leftMs <= 0) order.answer.reject(order.deferred?.error)
      else if ((await this.#placeAlone(order, turnMs)) instanceof AppError) await delay(Math.min(leftMs, aloneTurnMinMs))
    }
    this.#alone -= 1
  }

  /** Returns the error, null without one. An order that needs more time is deferred for another turn. */
  async #placeAlone(order: WaitingOrder, maxLockMs: number): Promise<unknown> {
    let error: unknown = null
    try {
      const [outcome] = await this.#options.placeOrders([order.request], maxLockMs)
      this.#answer(order, outcome)
      if (outcome?.kind === 'refused') error = outcome.error
      if (outcome?.kind === 'in_progress') error = requestInProgress()
    } catch (failure) {
      error = isTimeout(failure) ? rowsAreLocked(failure) : failure
      if (isTimeout(failure)) this.#placeInTurn(order, error)
      else order.answer.reject(error)
    }
    return error
  }

  /**
   * One order may be at fault, and the others must not fail because of it. That is safe only after an error with which PostgreSQL has undone the
   * batch. After any other error the batch may be committed, and only a retry with the same key cannot place an order twice.
   */
  async #placeOneByOne(batch: readonly WaitingOrder[], error: unknown): Promise<void> {
    if (isTimeout(error)) {
      // No row that an order names was the reason, but for example a lock of a whole table.
      for (const order of batch) this.#placeInTurn(order, rowsAreLocked(error))
      return
    }
    if (!(error instanceof AppError) && !canOneRowBeAtFault(error)) {
      for (const order of batch) order.answer.reject(error)
      return
    }
    let isAnswered = error instanceof AppError
    for (const order of batch) {
      const failure = await this.#placeAlone(order, this.#limits.aloneTurnMs)
      isAnswered ||= failure !== null && !(failure instanceof AppError)
    }
    if (!isAnswered) this.#options.onBatchFailed?.(error, batch.length)
  }
}

function observe(answer: Promise<PlacedOrder>, observer: PlacingObserver): void {
  answer.then(
    ({ isReplay }) => observer.orderPlaced(isReplay),
    (error) => {
      const isUnavailable = isDatabaseOutage(error) || isTimeout(error)
      observer.orderRefused(error instanceof AppError ? error.code : isUnavailable ? 'unavailable' : 'internal')
    },
  )
}

const RETRY_AFTER_SECONDS = '1'

function requestInProgress(): AppError {
  return new AppError('request_in_progress', 'A request with this Idempotency-Key or client_reference is still being worked on.', {
    headers: { 'retry-after': RETRY_AFTER_SECONDS },
  })
}

function tooManyOfOne(): AppError {
  return new AppError('rate_limited', 'Too many orders of this customer wait for their answer.', {
    headers: { 'retry-after': RETRY_AFTER_SECONDS },
  })
}

function tooBusy(): AppError {
  return overloaded('orders', 'Too many orders wait to be placed.')
}
