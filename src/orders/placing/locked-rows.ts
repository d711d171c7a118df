import { setTimeout as delay } from 'node:timers/promises'
import { isTimeout } from '../../db/failures.ts'
import type { Pool } from '../../db/pool.ts'
import { prepared, sql } from '../../db/sql.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'

export interface Rows {
  products?: readonly string[]
  customers?: readonly string[]
  orders?: readonly string[]
}

export interface LockedRowsOptions {
  lockMs?: number
  pollMs?: number
}

// The first locked row delays a batch by this time. Further rows delay batches less, because more are likely.
const LOCK_MS = 250
const LOCK_MS_WHEN_LOCKED = 30
const POLL_MS = 100
/** Time for which a row counts as locked when nothing waits for it and nothing checks it. */
const FORGET_MS = 1_000

interface Waiter {
  keys: readonly string[]
  resolve: (isFree: boolean) => void
}

/**
 * Rows that other transactions lock for long, for example of a paused process. Orders wait here without a connection.
 */
export class LockedRows {
  readonly #pool: Pool
  readonly #lockMs: number
  readonly #pollMs: number
  readonly #foundAt = new Map<string, number>()
  readonly #waiters = new Set<Waiter>()
  #isWatching = false

  constructor(pool: Pool, { lockMs = LOCK_MS, pollMs = POLL_MS }: LockedRowsOptions = {}) {
    this.#pool = pool
    this.#lockMs = lockMs
    this.#pollMs = pollMs
  }

  /** Time that a transaction may wait for one lock before `find` checks whether a row is the reason. */
  get lockTimeoutMs(): number {
    this.#forgetOld()
    return this.#foundAt.size === 0 ? this.#lockMs : Math.min(this.#lockMs, LOCK_MS_WHEN_LOCKED)
  }

  hasAny(rows: Rows): boolean {
    this.#forgetOld()
    return this.#foundAt.size > 0 && keysOf(rows).some((key) => this.#foundAt.has(key))
  }

  async find(rows: Rows): Promise<boolean> {
    const keys = keysOf(rows)
    const known = new Set(keys.filter((key) => this.#foundAt.has(key)))
    try {
      return [...(await this.#findLocked(keys))].some((key) => !known.has(key))
    } catch (error) {
      // The whole table is locked.
      if (isTimeout(error)) return false
      throw error
    }
  }

  async untilFree(rows: Rows, ms: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const waiter = { keys: keysOf(rows), resolve }
    this.#waiters.add(waiter)
    const timer = setTimeout(resolve, ms, false)
    if (!this.#isWatching) void this.#watch()
    return promise.finally(() => {
      clearTimeout(timer)
      this.#waiters.delete(waiter)
    })
  }

  #forgetOld(): void {
    const oldest = performance.now() - FORGET_MS
    for (const [key, foundAt] of this.#foundAt) if (foundAt < oldest) this.#foundAt.delete(key)
  }

  async #watch(): Promise<void> {
    this.#isWatching = true
    for (let turn = 0; this.#waiters.size > 0; turn++) {
      try {
        const locked = await this.#findLocked([...new Set([...this.#waiters].flatMap(({ keys }) => keys))])
        const key = [...locked][turn % locked.size]
        if (key !== undefined && (await this.#isFreeInTime(key))) locked.delete(key)
        for (const { keys, resolve } of this.#waiters) if (!keys.some((key) => locked.has(key))) resolve(true)
      } catch {
        // The next transaction reports the error, and the wait here has a time limit.
        await delay(this.#pollMs)
      }
    }
    this.#isWatching = false
  }

  /** Waits in PostgreSQL's lock queue for the row, so it notices the end of the lock at once. */
  async #isFreeInTime(key: string): Promise<boolean> {
    const [kind, id] = [`${key.split(' ')[0]} `, key.split(' ')[1]]
    const lock =
      kind === PRODUCT
        ? sql`select from inventory where product_id = ${id} for update`
        : kind === CUSTOMER
          ? sql`select from pending_order_counts where user_id = ${id} for update`
          : sql`select from orders where id = ${id} for update`
    try {
      await inTransaction(this.#pool, (tx) => tx.query(lock), { lockTimeoutMs: this.#pollMs })
    } catch (error) {
      if (isTimeout(error)) return false
      throw error
    }
    this.#foundAt.delete(key)
    return true
  }

  async #findLocked(keys: readonly string[]): Promise<Set<string>> {
    const ids = (kind: string) => keys.filter((key) => key.startsWith(kind)).map((key) => key.slice(kind.length))
    const [products, customers, orders] = [ids(PRODUCT), ids(CUSTOMER), ids(ORDER)]
    // A missing row is not locked. The statement locks the free rows while it runs.
    const statement = sql`
      with
        free_products as materialized (
          select product_id from inventory where product_id = any(${products}::uuid[]) order by product_id for update skip locked
        ),
        free_customers as materialized (
          select user_id from pending_order_counts where user_id = any(${customers}::uuid[]) order by user_id for update skip locked
        ),
        free_orders as materialized (select id from orders where id = any(${orders}::uuid[]) order by id for update skip locked)
      select ${PRODUCT}::text || product_id as key from inventory
      where product_id = any(${products}::uuid[]) and product_id not in (select product_id from free_products)
      union all
      select ${CUSTOMER}::text || user_id from pending_order_counts
      where user_id = any(${customers}::uuid[]) and user_id not in (select user_id from free_customers)
      union all
      select ${ORDER}::text || id from orders where id = any(${orders}::uuid[]) and id not in (select id from free_orders)`
    const findLocked = prepared(statement, 'find_locked_rows')
    const { rows } = await inTransaction(this.#pool, (tx) => tx.query<{ key: string }>(findLocked), { lockTimeoutMs: LOCK_MS_WHEN_LOCKED })
    const locked = new Set(rows.map(({ key }) => key))
    const now = performance.now()
    for (const key of keys) {
      if (locked.has(key)) this.#foundAt.set(key, now)
      else this.#foundAt.delete(key)
    }
    return locked
  }
}

const [PRODUCT, CUSTOMER, ORDER] = ['product ', 'customer ', 'order ']

function keysOf({ products = [], customers = [], orders = [] }: Rows): string[] {
  return [...products.map((id) => PRODUCT + id), ...customers.map((id) => CUSTOMER + id), ...orders.map((id) => ORDER + id)]
}

export function rowsAreLocked(cause?: unknown): AppError {
  return new AppError('unavailable', 'Another request is changing the same rows. Retry in a moment.', { cause })
}
