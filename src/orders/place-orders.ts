import { randomUUIDv7 } from 'node:crypto'
import { findSellableProducts } from '../catalogue/products.ts'
import { lockStock, saveStock } from '../catalogue/stock.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import { assertAvailable, assertTotal, type Basket, type Offer, priceBasket } from './basket.ts'
import { assertSameRequest, findAnswers, type IdempotencyKey, insertAnswers, nameOfKey, type StoredAnswer } from './idempotency.ts'
import { drawOrderNumbers, findOrdersByReference, insertOrders, nameOfReference } from './insert-orders.ts'
import { newOrder, type Order, orderJson, type ShippingAddress } from './order.ts'
import type { Money } from './price.ts'
import { nameOfBuyer, type Purchases, readPurchases } from './purchases.ts'
import { isLockTimeout, tryLock, waitForLocks } from './request-locks.ts'

export interface OrderRequest {
  userId: string
  basket: Basket
  /** Null: whatever it costs. */
  expectedTotal: Money | null
  clientReference: string | null
  shippingAddress: ShippingAddress | null
  note: string | null
  idempotencyKey: IdempotencyKey | null
  traceparent: string
}

/** The answer of `POST /orders`: the order as JSON, ready to send and the same, byte for byte, for a retry. */
export interface PlacedOrder {
  orderId: string
  json: string
  isReplay: boolean
}

/** What became of a request. `busy`: something of it is in another process's hands, and nothing was done. */
export type Outcome = { kind: 'placed'; order: PlacedOrder } | { kind: 'refused'; error: unknown } | { kind: 'busy' }

export interface PlacingOptions {
  pool: Pool
  now: () => Date
  /** The address of an order, for `Location`. */
  locationOf: (orderId: string) => string
  /** Null: no limit. */
  maxQuantityPerProductAndUser: number | null
}

/** The longest that a batch waits for a row which somebody else has locked. */
const BATCH_LOCK_MS = 3_000

/**
 * Places orders in one transaction, each accepted or refused on its own, in the order given. All that were accepted are committed
 * when it returns, none when it throws. Nothing is sent here: the pipeline reacts to the commit. A request that another process
 * has in hand comes back as `busy`.
 */
export async function placeOrders(options: PlacingOptions, requests: readonly OrderRequest[]): Promise<Outcome[]> {
  return inTransaction(
    options.pool,
    async (tx) => {
      const taken = await tryLock(tx, requests.flatMap(locksOf(options)))
      const isBusy = (request: OrderRequest) => taken.size > 0 && locksOf(options)(request).some((lock) => taken.has(lock))
      return settle(tx, options, requests, isBusy)
    },
    { lockTimeoutMs: BATCH_LOCK_MS },
  )
}

/**
 * Places one order, and waits for what somebody else has in hand, `waitMs` at most. Throws `request_in_progress` or `unavailable`
 * when that was not enough, and whatever the order is refused for.
 */
export async function placeOrder(options: PlacingOptions, request: OrderRequest, waitMs: number): Promise<PlacedOrder> {
  const lockTimeoutMs = Math.max(1, Math.ceil(waitMs))
  const place = async (tx: Transaction) => {
    await waitForLocks(tx, locksOf(options)(request))
    return settle(tx, options, [request], () => false)
  }
  const [outcome] = await inTransaction(options.pool, place, { lockTimeoutMs }).catch((error) => {
    throw isLockTimeout(error) ? new AppError('unavailable', 'A product of the order is being changed. Try again in a moment.') : error
  })
  if (outcome?.kind !== 'placed') throw outcome?.kind === 'refused' ? outcome.error : new Error('an order was left without an outcome')
  return outcome.order
}

/** The names of what no two processes may have in hand at once. Products are not among them: their rows are locked. */
function locksOf({ maxQuantityPerProductAndUser }: PlacingOptions) {
  return ({ userId, idempotencyKey, clientReference }: OrderRequest): string[] => {
    const locks: string[] = []
    if (idempotencyKey !== null) locks.push(nameOfKey(idempotencyKey))
    if (clientReference !== null) locks.push(nameOfReference(userId, clientReference))
    if (maxQuantityPerProductAndUser !== null) locks.push(nameOfBuyer(userId))
    return locks
  }
}

/** An order that is accepted and will be committed with its batch. */
interface Draft {
  key: IdempotencyKey | null
  order: Order
  itemsJson: string
  json: string
}

type Decision = Outcome | { kind: 'drafted'; draft: Draft; isReplay: boolean }

async function settle(
  tx: Transaction,
  options: PlacingOptions,
  requests: readonly OrderRequest[],
  isBusy: (request: OrderRequest) => boolean,
): Promise<Outcome[]> {
  const ours = requests.filter((request) => !isBusy(request))
  const desk = await Desk.open(tx, options, ours)
  const decisions = requests.map((request): Decision => (isBusy(request) ? { kind: 'busy' } : desk.decide(request)))
  await desk.write(tx)
  return decisions.map((decision): Outcome => {
    if (decision.kind !== 'drafted') return decision
    const { draft, isReplay } = decision
    return { kind: 'placed', order: { orderId: draft.order.id, json: draft.json, isReplay } }
  })
}

/** What was there when the transaction had its locks, and what it has accepted since. */
class Desk {
  readonly #options: PlacingOptions
  readonly #now: Date
  readonly #answers: ReadonlyMap<string, StoredAnswer>
  readonly #references: Map<string, string>
  readonly #offer: Offer
  readonly #purchases: Purchases | null
  readonly #drafts: Draft[] = []
  readonly #draftsByKey = new Map<string, Draft>()

  private constructor(
    options: PlacingOptions,
    answers: ReadonlyMap<string, StoredAnswer>,
    references: Map<string, string>,
    offer: Offer,
    purchases: Purchases | null,
  ) {
    this.#options = options
    this.#now = options.now()
    this.#answers = answers
    this.#references = references
    this.#offer = offer
    this.#purchases = purchases
  }

  static async open(tx: Transaction, options: PlacingOptions, requests: readonly OrderRequest[]): Promise<Desk> {
    const keys = requests.flatMap(({ idempotencyKey }) => idempotencyKey ?? [])
    const answers = keys.length === 0 ? new Map<string, StoredAnswer>() : await findAnswers(tx, keys)
    const open = requests.filter(({ idempotencyKey: key }) => key === null || !answers.has(nameOfKey(key)))
    const references = await findOrdersByReference(tx, open)
    const productIds = [...new Set(open.flatMap(({ basket }) => basket.lines.map((line) => line.product_id)))]
    const stock = await lockStock(tx, productIds)
    const products = await findSellableProducts(tx, productIds)
    const limit = options.maxQuantityPerProductAndUser
    const purchases = limit === null ? null : await readPurchases(tx, open, limit)
    return new Desk(options, answers, references, { stock, products }, purchases)
  }

  decide(request: OrderRequest): Decision {
    try {
      return this.#findReplay(request) ?? { kind: 'drafted', draft: this.#accept(request), isReplay: false }
    } catch (error) {
      return { kind: 'refused', error }
    }
  }

  #findReplay({ idempotencyKey: key }: OrderRequest): Decision | null {
    if (key === null) return null
    const answer = this.#answers.get(nameOfKey(key))
    if (answer !== undefined) {
      assertSameRequest(answer, key)
      return { kind: 'placed', order: { orderId: answer.orderId, json: answer.json, isReplay: true } }
    }
    // Two requests with one key can wait in the same batch.
    const draft = this.#draftsByKey.get(nameOfKey(key))
    if (draft === undefined) return null
    assertSameRequest(draft.key ?? key, key)
    return { kind: 'drafted', draft, isReplay: true }
  }

  #accept(request: OrderRequest): Draft {
    const { userId, basket, clientReference, idempotencyKey } = request
    const reference = clientReference === null ? null : nameOfReference(userId, clientReference)
    const earlier = reference === null ? undefined : this.#references.get(reference)
    if (earlier !== undefined) throw this.#refuseReference(earlier)
    const { items, total } = priceBasket(basket, this.#offer)
    assertAvailable(basket, this.#offer.stock, this.#purchases?.excessOf(userId, basket.lines) ?? [])
    assertTotal(request.expectedTotal, items, total)
    this.#offer.stock.take(basket.lines)
    this.#purchases?.add(userId, basket.lines)
    const order = newOrder({ ...request, id: randomUUIDv7(), items, total, now: this.#now })
    if (reference !== null) this.#references.set(reference, order.id)
    const draft = { key: idempotencyKey, order, itemsJson: '', json: '' }
    this.#drafts.push(draft)
    if (idempotencyKey !== null) this.#draftsByKey.set(nameOfKey(idempotencyKey), draft)
    return draft
  }

  async write(tx: Transaction): Promise<void> {
    const drafts = this.#drafts
    if (drafts.length === 0) return
    const numbers = await drawOrderNumbers(tx, drafts.length)
    for (const [index, draft] of drafts.entries()) {
      draft.order.number = String(numbers[index])
      draft.itemsJson = JSON.stringify(draft.order.items)
      draft.json = orderJson(draft.order, draft.itemsJson)
    }
    await saveStock(tx, this.#offer.stock)
    await insertOrders(tx, drafts)
    const answers = drafts.flatMap(({ key, order, json }) => (key === null ? [] : [{ key, orderId: order.id, json }]))
    await insertAnswers(tx, answers)
  }

  #refuseReference(orderId: string): AppError {
    return new AppError('client_reference_taken', 'You have placed an order with this client_reference already.', {
      members: { order_id: orderId },
      headers: { location: this.#options.locationOf(orderId) },
    })
  }
}
