import { setImmediate } from 'node:timers/promises'
import type { Logger } from 'pino'
import { PriceList } from '../../catalogue/products.ts'
import { isTemporary } from '../../db/failures.ts'
import { loggableError } from '../../db/loggable-error.ts'
import { AppError } from '../../errors.ts'
import { FairQueue, type QuotaKey } from '../../http/fair-queue.ts'
import { DEFERRED_LIMITS, DeferredOrders, type DeferredOrdersOptions, tooBusy, type WaitingOrder, weightOf } from './deferred-orders.ts'
import type { PlacedOrder } from './idempotency.ts'
import { lockKeysOf, type OrderRequest, rowsOf } from './order-request.ts'
import { OptimisticBackoff, type PlacingContext, placeOrders } from './place-orders.ts'
import { UnusualOwners } from './unusual-owners.ts'

export interface OrderBatcherOptions extends DeferredOrdersOptions {
  /** Two batches in flight never have a lock key in common. */
  lockKeysOf: (request: OrderRequest) => readonly string[]
  limits?: Partial<typeof LIMITS>
  observer?: PlacingObserver | undefined
}

const LIMITS = {
  /** One large order and additional small orders may exceed `batchLines`. */
  batchOrders: 128,
  batchLines: 2_000,
  /** An order of at most this number of lines joins a full batch, so large orders of others do not delay it. */
  smallOrderLines: 8,
  /**
   * Above this number of orders or lines, the heaviest account in the heaviest network gets 503 for its newest order.
   */
  waitingOrders: 2_000,
  waitingLines: 100_000,
  waitMs: 10_000,
  ...DEFERRED_LIMITS,
}

/** While one batch waits for its commit, PostgreSQL works on the other. A third batch gave no more throughput. */
const BATCHES_AT_ONCE = 2

/** Largest number of connections for placing: one for each batch, and one for each order placed alone. */
export const CONNECTIONS_FOR_PLACING = BATCHES_AT_ONCE + LIMITS.aloneAtOnce

export interface PlacingOptions extends Omit<PlacingContext, 'prices' | 'backoff' | 'onConflict'> {
  logger: Pick<Logger, 'error'>
  observer?: PlacingObserver | undefined
}

export function createOrderBatcher({ logger, observer, ...options }: PlacingOptions): OrderBatcher {
  const { lockedRows } = options
  const onConflict = () => observer?.batchUndone()
  const context: PlacingContext = { ...options, prices: new PriceList(), backoff: new OptimisticBackoff(), onConflict }
  return new OrderBatcher({
    placeOrders: (requests, attempt) => placeOrders(context, requests, attempt),
    lockKeysOf,
    untilFree: (request, ms) => lockedRows.untilFree(rowsOf([request]), ms),
    onBatchFailed: (error, orders) =>
      logger.error({ err: loggableError(error), orders }, 'a batch of orders failed; each was placed alone'),
    observer,
  })
}

/** Orders that arrive during a batch share the next one. Otherwise an order starts at once. */
export class OrderBatcher {
  readonly #options: OrderBatcherOptions
  readonly #limits: typeof LIMITS
  readonly #waiting = new FairQueue<WaitingOrder>()
  #isWorking = false
  readonly #batchesInFlight = new Set<Promise<unknown>>()
  readonly #lockKeysInFlight = new Set<string>()
  readonly #deferred: DeferredOrders
  readonly #unusual = new UnusualOwners()

  constructor(options: OrderBatcherOptions) {
    this.#options = options
    this.#limits = { ...LIMITS, ...options.limits }
    this.#deferred = new DeferredOrders(options, this.#limits, (order) => this.#enqueue(order))
  }

  /** Each network counts once, so a few networks that fill the queue hardly raise the number. */
  get fullness(): number {
    return this.#waiting.owners / this.#limits.waitingOrders
  }

  /**
   * Returns when the order is committed. Throws the reason for a refusal, or `overloaded` when too many orders wait.
   */
  place(request: OrderRequest, quotaKey: QuotaKey = [request.userId]): Promise<PlacedOrder> {
    const [customer = request.userId] = quotaKey
    const answer = Promise.withResolvers<PlacedOrder>()
    const lockKeys = this.#options.lockKeysOf(request)
    this.#enqueue({ request, quotaKey, customer, lockKeys, since: performance.now(), answer })
    if (this.#options.observer !== undefined) observe(answer.promise, this.#options.observer)
    return answer.promise
  }

  #enqueue(order: WaitingOrder): void {
    const { waitingOrders, waitingLines } = this.#limits
    this.#waiting.push(order.quotaKey, order, weightOf(order, waitingLines / waitingOrders))
    while (this.#waiting.weight > waitingLines) this.#waiting.dropFromHeaviest()?.answer.reject(tooBusy())
    if (!this.#isWorking) void this.#work()
  }

  async #work(): Promise<void> {
    this.#isWorking = true
    while (this.#waiting.length > 0) {
      // Orders of the same event loop turn join the batch, and answers are sent before the batch is closed.
      await setImmediate()
      const batch = this.#nextBatch()
      if (batch.length > 0) {
        const placed: Promise<unknown> = this.#placeBatch(batch)
          .catch((error) => {
            for (const { answer } of batch) answer.reject(error)
          })
          .finally(() => this.#batchesInFlight.delete(placed))
        this.#batchesInFlight.add(placed)
      }
      // The batch is empty when no order waits, or when all waiting orders need a key in flight.
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
    const fits = ({ request, customer }: WaitingOrder) => {
      const [first] = batch
      if (first === undefined) return true
      const lines = request.basket.orderLines.length
      // A customer whose orders are usually refused must not cause second decisions for others' batches.
      if (this.#unusual.has(customer) !== this.#unusual.has(first.customer)) return false
      return lines <= smallOrderLines || batchedLines + lines <= batchLines
    }
    for (const order of this.#waiting.take(isReady, fits)) {
      const lines = order.request.basket.orderLines.length
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
      const isUsual = batch.every(({ customer }) => !this.#unusual.has(customer))
      const outcomes = await this.#options.placeOrders(
        batch.map(({ request }) => request),
        { isUsual },
      )
      for (const [index, order] of batch.entries()) {
        this.#unusual.note(order.customer, outcomes[index])
        this.#deferred.answer(order, outcomes[index])
      }
    } catch (error) {
      await this.#deferred.placeOneByOne(batch, error)
    } finally {
      for (const key of lockKeys) this.#lockKeysInFlight.delete(key)
    }
  }
}

export interface PlacingObserver {
  ordersTried(orders: number): void
  batchUndone(): void
  orderPlaced(isReplay: boolean): void
  orderRefused(code: string): void
}

function observe(answer: Promise<PlacedOrder>, observer: PlacingObserver): void {
  answer.then(
    ({ isReplay }) => observer.orderPlaced(isReplay),
    (error) => {
      observer.orderRefused(error instanceof AppError ? error.code : isTemporary(error) ? 'unavailable' : 'internal')
    },
  )
}
