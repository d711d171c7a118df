import type { Pool } from '../db/pool.ts'
import type { Figures, MailsToDo, OrdersToDo, Range, StockToDo } from './figure-schemas.ts'
import { type Progress, readBestSellers, readLowStock, readProgress, readSalesOf } from './read-figures.ts'
import { readMailsToDo, readOrdersToDo, readStockToDo } from './read-to-do.ts'

/** For this time a polling page gets the same figures, unless new figures were collected meanwhile. */
const FRESH_MS = 30_000
/** A slow reading is kept for this multiple of its duration, so readings use at most 3 % of a processor. */
const KEPT_TIMES = 30
const SLOW_MS = 250

export interface FiguresOptions {
  pool: Pool
  now: () => Date
  /** The shop's time zone. */
  timeZone: string
}

/**
 * Figures and to-do counts in memory, for any number of operators. Each part is kept separately. See
 * docs/decisions/figures.md.
 */
export class FiguresCache {
  readonly #options: FiguresOptions
  readonly #readings = new Map<string, Reading<unknown>>()

  constructor(options: FiguresOptions) {
    this.#options = options
  }

  /** Returns JSON. */
  async figures(range: Range): Promise<string> {
    const { pool, now, timeZone } = this.#options
    const progress = await readProgress(pool)
    const options = { range, ...progress, now: now(), timeZone }
    const sales = await this.#read(`sales ${range}`, progress, () => readSalesOf(pool, options))
    const best_sellers = await this.#read(`best sellers ${range}`, progress, () => readBestSellers(pool, options))
    const low_stock = await this.#read('low stock', progress, () => readLowStock(pool, options.now))
    return JSON.stringify({ ...sales, best_sellers, low_stock } satisfies Figures)
  }

  /** Reads each time, so an operator who confirms an order sees the count fall at once. */
  ordersToDo(): Promise<OrdersToDo> {
    return readOrdersToDo(this.#options.pool)
  }

  mailsToDo(): Promise<MailsToDo> {
    return this.#read('mails to do', null, () => readMailsToDo(this.#options.pool))
  }

  stockToDo(): Promise<StockToDo> {
    return this.#read('stock to do', null, () => readStockToDo(this.#options.pool))
  }

  /** `progress` is null for values that do not depend on the figures. */
  #read<T>(name: string, progress: Progress | null, read: () => Promise<T>): Promise<T> {
    const state = progress && JSON.stringify(progress)
    const known = this.#readings.get(name) as Reading<T> | undefined
    if (known?.isKept(state) === true) return known.value
    const reading = new Reading(state, read)
    this.#readings.set(name, reading)
    // The next call reads again after a failure.
    reading.value.catch(() => {
      if (this.#readings.get(name) === reading) this.#readings.delete(name)
    })
    return reading.value
  }
}

class Reading<T> {
  readonly value: Promise<T>
  readonly #state: string | null
  readonly #startedAt = performance.now()
  #tookMs: number | null = null

  constructor(state: string | null, read: () => Promise<T>) {
    this.#state = state
    const done = () => {
      this.#tookMs = performance.now() - this.#startedAt
    }
    this.value = read()
    this.value.then(done, done)
  }

  isKept(state: string | null): boolean {
    if (this.#tookMs === null) return true
    const ageMs = performance.now() - this.#startedAt
    const isFresh = state !== null && state === this.#state && ageMs < FRESH_MS
    return isFresh || (this.#tookMs > SLOW_MS && ageMs < this.#tookMs * KEPT_TIMES)
  }
}
