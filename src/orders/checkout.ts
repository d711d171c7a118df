import { setImmediate } from 'node:timers/promises'
import { isDatabaseOutage } from '../db/constraints.ts'
import { AppError } from '../errors.ts'
import type { OrderRequest, Outcome, PlacedOrder } from './place-orders.ts'

export interface CheckoutOptions {
  /** Places several orders in one transaction. */
  placeTogether: (requests: readonly OrderRequest[]) => Promise<Outcome[]>
  /** Places one order, waiting at most so long for what somebody else has in hand. */
  placeAlone: (request: OrderRequest, waitMs: number) => Promise<PlacedOrder>
  limits?: Partial<typeof LIMITS>
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

/** Connections that placing uses at most: one for a batch, and one for each order placed alone. */
export const CONNECTIONS_FOR_PLACING = 1 + LIMITS.aloneAtOnce

interface Waiting {
  request: OrderRequest
  since: number
  settle: PromiseWithResolvers<PlacedOrder>
}

/**
 * Where the orders of this process wait to be placed. While a transaction is under way, those that arrive wait; when it has ended,
 * all that wait go into the next one together. No timer: an order that finds nobody waiting starts at once.
 */
export class Checkout {
  readonly #options: CheckoutOptions
  readonly #limits: typeof LIMITS
  #waiting: Waiting[] = []
  #waitingLines = 0
  #working: Promise<void> | null = null
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
      return Promise.reject(tooBusy())
    }
    const settle = Promise.withResolvers<PlacedOrder>()
    this.#waiting.push({ request, since: performance.now(), settle })
    this.#waitingLines += request.basket.lines.length
    this.#working ??= this.#work().finally(() => {
      this.#working = null
    })
    return settle.promise
  }

  async #work(): Promise<void> {
    // Those that arrived in the same turn of the event loop come along.
    await setImmediate()
    while (this.#waiting.length > 0) {
      await this.#placeBatch(this.#nextBatch())
      // Their answers go out, and what arrived meanwhile comes in, before the next batch is closed.
      await setImmediate()
    }
  }

  #nextBatch(): Waiting[] {
    const { batchOrders, batchLines, waitMs } = this.#limits
    const batch: Waiting[] = []
    let taken = 0
    let lines = 0
    const oldest = performance.now() - waitMs
    for (const waiting of this.#waiting) {
      const more = waiting.request.basket.lines.length
      if (batch.length === batchOrders || (batch.length > 0 && lines + more > batchLines)) break
      taken += 1
      this.#waitingLines -= more
      if (waiting.since < oldest) {
        waiting.settle.reject(tooBusy())
        continue
      }
      lines += more
      batch.push(waiting)
    }
    this.#waiting.splice(0, taken)
    return batch
  }

  async #placeBatch(batch: readonly Waiting[]): Promise<void> {
    if (batch.length === 0) return
    try {
      const outcomes = await this.#options.placeTogether(batch.map(({ request }) => request))
      for (const [index, waiting] of batch.entries()) this.#answer(waiting, outcomes[index])
    } catch (error) {
      await this.#placeOneByOne(batch, error)
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
   * Nothing of the batch was committed, unless the database went away: then nobody knows, and only a retry with the same
   * key is safe. Otherwise one order may be at fault, and the others must not suffer for it.
   */
  async #placeOneByOne(batch: readonly Waiting[], error: unknown): Promise<void> {
    const isHopeless = isDatabaseOutage(error)
    for (const waiting of batch) {
      if (isHopeless) waiting.settle.reject(error)
      else await this.#placeAlone(waiting)
    }
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
