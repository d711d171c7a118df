import { randomUUID } from 'node:crypto'
import { recordProductEvents } from '../src/catalogue/change-catalogue.ts'
import type { Pool } from '../src/db/pool.ts'
import { inTransaction } from '../src/db/transaction.ts'
import { allowedTransitions, type OrderStatus } from '../src/orders/order-status.ts'
import { retryUntil } from '../test/eventually.ts'

const PRODUCTS = 5
const STOCK = 1_000_000
/** A time that no outage of the database outlasts. */
const PATIENCE_MS = 180_000

/** An order line with the price of every product. */
function lampLine(product_id: string, quantity: number) {
  const price = { amount: 1250, currency: 'EUR' }
  return { product_id, sku: 'LAMP', name: 'Lamp', unit_price: price, quantity, total: { ...price, amount: 1250 * quantity } }
}

/** A line of a deleted product, which has no stock. */
export const DELETED_LAMP = JSON.stringify([lampLine(randomUUID(), 1)])

/**
 * Customers and operators by plain SQL, as fast as the database allows. An order takes its stock in its own
 * transaction, a transition writes its version and its history, and a cancelled order returns its stock. A failed
 * statement is retried, so the shop continues while the database is unavailable.
 */
export class Shop {
  readonly #pool: Pool
  readonly #random: () => number
  readonly #products: string[] = []
  readonly #open: { id: string; status: OrderStatus; items: { product_id: string; quantity: number }[] }[] = []
  /** The newest acknowledged version of each order. */
  readonly acknowledged = new Map<string, number>()
  readonly initialStock = new Map<string, number>()
  readonly userId = randomUUID()
  readonly address = `${randomUUID()}@example.com`
  readonly userIds: string[] = []
  /** Customers whose mails must fail. */
  readonly unreachable = new Set<string>()
  /** Deliberately wrong, to check the checkers. */
  forgetsStock = false
  cancelled = 0

  constructor(pool: Pool, random: () => number) {
    this.#pool = pool
    this.#random = random
  }

  async open(): Promise<void> {
    await this.addCustomer(this.userId, this.address)
    await this.#pool.query('delete from products')
    for (let number = 0; number < PRODUCTS; number++) {
      const id = randomUUID()
      await this.#pool.query(
        `insert into products (id, sku, name, category, price_amount, price_currency, in_stock) values ($1, $2, 'Lamp', 'lamps', 1250, 'EUR', true)`,
        [id, `SKU-${id}`],
      )
      await this.#pool.query('insert into inventory (product_id, available) values ($1, $2)', [id, STOCK])
      this.#products.push(id)
      this.initialStock.set(id, STOCK)
    }
    await inTransaction(this.#pool, (tx) => recordProductEvents(tx, this.#products, null))
  }

  async addCustomer(id: string, email: string): Promise<void> {
    await this.#pool.query(`insert into users (id, email, password_hash) values ($1, $2, 'none')`, [id, email])
    this.userIds.push(id)
  }

  /** Places this number of orders, with about as many transitions among them. */
  async trade(orders: number): Promise<void> {
    for (let placed = 0; placed < orders; placed++) {
      await retryUntil(() => this.#place(), PATIENCE_MS)
      if (this.#random() < 0.9) await retryUntil(() => this.#move(), PATIENCE_MS)
    }
  }

  /** Returns a function that forgets later sales, like a restored database. */
  remember(): () => void {
    const [open, acknowledged, cancelled] = [structuredClone(this.#open), new Map(this.acknowledged), this.cancelled]
    return () => {
      this.#open.splice(0, this.#open.length, ...open)
      this.acknowledged.clear()
      for (const [id, version] of acknowledged) this.acknowledged.set(id, version)
      this.cancelled = cancelled
    }
  }

  /** Places orders by one statement, so they have one position in the log. */
  async placeTogether(count: number): Promise<void> {
    const at = new Date()
    const history = [{ status: 'pending', at: at.toISOString(), actor: { type: 'customer', id: this.userId }, reason: null }]
    await this.#pool.query(
      `insert into orders (id, user_id, status, items, total_amount, currency, status_history, created_at, updated_at)
      select gen_random_uuid(), $1, 'pending', $5, 1250, 'EUR', $2, $3, $3
      from generate_series(1, $4)`,
      [this.userId, JSON.stringify(history), at, count, DELETED_LAMP],
    )
  }

  async #place(): Promise<void> {
    const id = randomUUID()
    const product_id = this.#pick(this.#products)
    const quantity = 1 + Math.floor(this.#random() * 3)
    const items = [lampLine(product_id, quantity)]
    const at = new Date()
    const userId = this.#pick(this.userIds)
    const history = [{ status: 'pending', at: at.toISOString(), actor: { type: 'customer', id: userId }, reason: null }]
    await this.#pool.query(
      `with stock as (update inventory set available = available - $6 where product_id = $5)
      insert into orders (id, user_id, status, items, total_amount, currency, status_history, created_at, updated_at)
      values ($1, $2, 'pending', $3, $7, 'EUR', $4, $8, $8)`,
      [id, userId, JSON.stringify(items), JSON.stringify(history), product_id, quantity, 1250 * quantity, at],
    )
    this.acknowledged.set(id, 1)
    this.#open.push({ id, status: 'pending', items })
  }

  async #move(): Promise<void> {
    const order = this.#pick(this.#open)
    const targets = allowedTransitions(order.status)
    if (targets.length === 0) return
    const to = this.#pick(targets)
    const at = new Date()
    const change = [{ status: to, at: at.toISOString(), actor: { type: 'admin', id: null }, reason: null }]
    const [line] = order.items
    const restocked = to === 'cancelled' && !this.forgetsStock ? (line?.quantity ?? 0) : 0
    // The condition on the status makes a repeat after a lost answer change nothing.
    await this.#pool.query(
      `with moved as (
        update orders
        set status = $2, version = version + 1, status_history = status_history || $3::jsonb, updated_at = $4
        where id = $1 and status = $5
        returning id
      )
      update inventory set available = available + $7 where product_id = $6 and $7 > 0 and exists (select from moved)`,
      [order.id, to, JSON.stringify(change), at, order.status, line?.product_id, restocked],
    )
    this.acknowledged.set(order.id, (this.acknowledged.get(order.id) ?? 0) + 1)
    order.status = to
    if (to === 'cancelled') this.cancelled += 1
  }

  #pick<T>(values: readonly T[]): T {
    return values[Math.floor(this.#random() * values.length)] as T
  }
}
