import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '../test/eventually.ts'
import { type StoreProcess, serve } from '../test/store-process.ts'
import type { Round } from './round.ts'

const CLIENTS = 4
const BASE_URL = 'http://localhost:3000'
/** A time that none of these faults outlasts. */
const PATIENCE_MS = 120_000
const ANSWER_MS = 20_000
const ERROR_LEVEL = 50

interface Answer {
  id: string
  number: string
}

/** Two API processes, and customers who order from both. They retry with the same key until they have an order. */
export class ApiShop {
  readonly processes: readonly StoreProcess[]
  readonly #round: Round
  readonly #products: string[]
  readonly #tokens: string[] = []
  /** The number that a customer was told for each order, by order id. */
  readonly numbers = new Map<string, string>()

  private constructor(round: Round, processes: readonly StoreProcess[]) {
    this.#round = round
    this.processes = processes
    this.#products = [...round.shop.initialStock.keys()]
  }

  static async open(round: Round): Promise<ApiShop> {
    const env = { ...round.environment('api'), BASE_URL }
    const shop = new ApiShop(round, [await serve(round.cleanup, { env }), await serve(round.cleanup, { env })])
    for (let i = 0; i < CLIENTS; i++) await shop.#register()
    return shop
  }

  /**
   * Places each order of all customers once and cancels about a quarter. Rejects if an order is placed twice, or not
   * placed within two minutes.
   */
  async trade(orders: number): Promise<void> {
    await this.place(orders)
    const { rows } = await this.#round.pool.query<{ orders: number }>('select count(*)::integer as orders from orders')
    const { acknowledged } = this.#round.shop
    if (rows[0]?.orders !== acknowledged.size) throw new Error(`${rows[0]?.orders} orders for ${acknowledged.size} requests`)
  }

  /** Like `trade` without the final count, for a database that may lose orders. */
  async place(orders: number): Promise<void> {
    const { acknowledged } = this.#round.shop
    let left = orders
    const client = async (token: string) => {
      for (; left > 0; await pause(20)) {
        left -= 1
        const body = JSON.stringify({ items: [{ product_id: this.#pick(this.#products), quantity: 1 }] })
        const { id, number } = await this.#send('/orders', { token, body })
        acknowledged.set(id, 1)
        this.numbers.set(id, number)
        if (this.#round.random() > 0.25) continue
        await this.#send(`/orders/${id}/cancel`, { token })
        acknowledged.set(id, 2)
      }
    }
    await Promise.all(this.#tokens.map(client))
  }

  /** A random product. */
  product(): string {
    return this.#pick(this.#products)
  }

  async #register(): Promise<void> {
    const body = JSON.stringify({ email: `${randomUUID()}@example.com`, password: 'a long enough passphrase' })
    const answer = await fetch(`${this.processes[0]?.url}/auth/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    })
    const { access_token } = (await answer.json()) as { access_token: string }
    this.#tokens.push(access_token)
  }

  async #send(path: string, { token, body }: { token: string; body?: string }): Promise<Answer> {
    const headers = {
      authorization: `Bearer ${token}`,
      'idempotency-key': randomUUID(),
      ...(body && { 'content-type': 'application/json' }),
    }
    const attempt = async () => {
      const { url, logs } = this.#pick(this.processes)
      const signal = AbortSignal.timeout(ANSWER_MS)
      // An incomplete answer counts as no answer.
      const told = await fetch(url + path, { method: 'POST', headers, signal, ...(body && { body }) })
        .then(async (answer) => ({ answer, json: (await answer.json()) as Answer & { code?: string } }))
        .catch(() => null)
      if (told === null) return false
      const { answer, json } = told
      if (answer.ok) return json
      // After a lost answer, a repeated cancellation finds the order cancelled. It can also be missing if the database
      // has lost it.
      if (path.endsWith('/cancel') && ['illegal_transition', 'not_found'].includes(json.code ?? '')) return { id: '', number: '' }
      const comesAgain = answer.status === 503 || json.code === 'request_in_progress'
      if (!comesAgain || !answer.headers.has('retry-after'))
        throw new Error(
          `${path}: ${answer.status} ${json.code}: ${JSON.stringify(logs.filter(({ level }) => Number(level) >= ERROR_LEVEL))}`,
        )
      return false
    }
    return (await eventually(attempt, { what: `an answer to ${path}`, timeoutMs: PATIENCE_MS, pauseMs: 200 })) as Answer
  }

  #pick<T>(values: readonly T[]): T {
    return values[Math.floor(this.#round.random() * values.length)] as T
  }
}
