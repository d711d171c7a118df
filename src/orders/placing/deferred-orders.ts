import { setTimeout as delay } from 'node:timers/promises'
import { canOneRowBeAtFault, isTimeout } from '../../db/failures.ts'
import { AppError } from '../../errors.ts'
import { FairQueue, type QuotaKey } from '../../http/fair-queue.ts'
import { overloaded } from '../../http/load-shedder.ts'
import type { Outcome } from './batch-decision.ts'
import type { PlacedOrder } from './idempotency.ts'
import { rowsAreLocked } from './locked-rows.ts'
import type { OrderRequest } from './order-request.ts'
import type { PlacingAttempt } from './place-orders.ts'

export interface DeferredOrdersOptions {
  /** Fails with SQLSTATE 55P03 after waiting `maxLockMs` for a lock. */
  placeOrders: (requests: readonly OrderRequest[], attempt: PlacingAttempt) => Promise<Outcome[]>
  untilFree: (request: OrderRequest, ms: number) => Promise<boolean>
  onBatchFailed?: ((error: unknown, orders: number) => void) | undefined
}

export const DEFERRED_LIMITS = {
  /** How long an order waits for another transaction that holds its key or rows. */
  deferredMs: 2_000,
  /**
   * Above this number of orders or lines, the heaviest account in the heaviest network gets 503 for its newest order.
   */
  deferredOrders: 1_000,
  deferredLines: 50_000,
  /** Each order that is placed alone holds a connection while it waits. */
  aloneAtOnce: 2,
  /** Orders placed alone share this lock wait, down to the minimum. */
  aloneTurnMs: 250,
  aloneTurnMinMs: 20,
}

/** Places orders that a batch could not place: in a later batch, or alone without delaying others. */
export class DeferredOrders {
  readonly #options: DeferredOrdersOptions
  readonly #limits: typeof DEFERRED_LIMITS
  readonly #enqueue: (order: WaitingOrder) => void
  /** Orders that wait for locked rows, and orders to be placed alone because nothing shows the end of a lock. */
  readonly #waiting = new FairQueue<WaitingOrder>()
  #alone = 0

  constructor(options: DeferredOrdersOptions, limits: typeof DEFERRED_LIMITS, enqueue: (order: WaitingOrder) => void) {
    this.#options = options
    this.#limits = limits
    this.#enqueue = enqueue
  }

  answer(order: WaitingOrder, outcome: Outcome | undefined): void {
    if (outcome?.kind === 'placed') order.answer.resolve(outcome.order)
    else if (outcome?.kind === 'refused') order.answer.reject(outcome.error)
    else if (outcome?.kind === 'blocked') this.#placeWhenFree(order).catch(order.answer.reject)
    else this.#placeInTurn(order, requestInProgress())
  }

  /** Refuses the order after too long a wait. Refuses the heaviest account's newest order when too many wait. */
  #defer(order: WaitingOrder, error: unknown, isContended: boolean): order is WaitingOrder & Required<Pick<WaitingOrder, 'deferred'>> {
    const { deferredMs, deferredOrders, deferredLines } = this.#limits
    order.deferred = { since: order.deferred?.since ?? performance.now(), error, isContended }
    if (performance.now() - order.deferred.since >= deferredMs) {
      order.answer.reject(error)
      return false
    }
    this.#waiting.push(order.quotaKey, order, weightOf(order, deferredLines / deferredOrders))
    while (this.#waiting.weight > deferredLines) {
      const dropped = this.#waiting.dropFromHeaviest()
      dropped?.answer.reject(dropped.deferred?.error)
    }
    return true
  }

  async #placeWhenFree(order: WaitingOrder): Promise<void> {
    const error = rowsAreLocked()
    if (!this.#defer(order, error, false)) return
    const leftMs = order.deferred.since + this.#limits.deferredMs - performance.now()
    let [isFree, isWaiting] = [false, false]
    try {
      isFree = await this.#options.untilFree(order.request, leftMs)
    } finally {
      isWaiting = this.#waiting.remove(order.quotaKey, order)
    }
    if (!isFree) order.answer.reject(error)
    else if (isWaiting) this.#enqueue(order)
  }

  #placeInTurn(order: WaitingOrder, error: unknown): void {
    if (this.#defer(order, error, true)) void this.#workOnContended()
  }

  async #workOnContended(): Promise<void> {
    const { aloneAtOnce, aloneTurnMs, aloneTurnMinMs, deferredMs } = this.#limits
    if (this.#alone >= aloneAtOnce) return
    this.#alone += 1
    for (let order = this.#takeContended(); order !== undefined; order = this.#takeContended()) {
      const leftMs = (order.deferred?.since ?? 0) + deferredMs - performance.now()
      // PostgreSQL takes 0 as no limit.
      const turnMs = Math.max(1, Math.min(leftMs, Math.max(aloneTurnMinMs, aloneTurnMs / (1 + this.#waiting.count(isContended)))))
      if ((await this.#placeAlone(order, turnMs)) instanceof AppError) await delay(Math.min(leftMs, aloneTurnMinMs))
    }
    this.#alone -= 1
  }

  /** Takes networks in turn, and their accounts in turn. Refuses orders that have waited too long. */
  #takeContended(): WaitingOrder | undefined {
    const oldest = performance.now() - this.#limits.deferredMs
    const isLate = ({ deferred }: WaitingOrder) => deferred?.isContended === true && deferred.since <= oldest
    for (const order of this.#waiting.take(isLate, () => true)) order.answer.reject(order.deferred?.error)
    for (const order of this.#waiting.take(isContended, () => true)) return order
    return undefined
  }

  /** Returns the error, or null. An order that needs more time is deferred to another turn. */
  async #placeAlone(order: WaitingOrder, maxLockMs: number): Promise<unknown> {
    let error: unknown = null
    try {
      const [outcome] = await this.#options.placeOrders([order.request], { isUsual: false, maxLockMs })
      this.answer(order, outcome)
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
   * Call it only after an error with which PostgreSQL has rolled back the batch. After other errors the batch may be
   * committed, and only a retry with the same key cannot place an order twice.
   */
  async placeOneByOne(batch: readonly WaitingOrder[], error: unknown): Promise<void> {
    if (isTimeout(error)) {
      // The cause was not an order's row but, for example, a lock of a whole table.
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

const isContended = ({ deferred }: WaitingOrder) => deferred?.isContended === true

export interface WaitingOrder {
  request: OrderRequest
  quotaKey: QuotaKey
  /** First part of the quota key: the customer, or the network of a guest. */
  customer: string
  lockKeys: readonly string[]
  since: number
  answer: PromiseWithResolvers<PlacedOrder>
  /**
   * `since` is the start of the wait. `error` is thrown after `deferredMs`. An `isContended` order waits to be placed
   * alone.
   */
  deferred?: { since: number; error: unknown; isContended: boolean }
}

/** `least` is the smallest weight of an order. It also bounds the number of orders. */
export function weightOf({ request }: WaitingOrder, least: number): number {
  return Math.max(request.basket.orderLines.length, least)
}

const RETRY_AFTER_SECONDS = '1'

function requestInProgress(): AppError {
  return new AppError(
    'request_in_progress',
    'The same order, or one with this Idempotency-Key or client_reference, is still being placed.',
    {
      headers: { 'retry-after': RETRY_AFTER_SECONDS },
    },
  )
}

export function tooBusy(): AppError {
  return overloaded('orders', 'Too many orders wait to be placed.')
}
