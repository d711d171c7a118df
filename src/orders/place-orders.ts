import { randomUUIDv7 } from 'node:crypto'
import { findSellableProducts } from '../catalogue/products.ts'
import { lockStock, saveStock } from '../catalogue/stock.ts'
import type { Pool, Transaction } from '../db/pool.ts'
import { inPipelinedTransaction, type Sent } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import { assertAvailable, assertTotal, type Basket, type Offer, priceBasket } from './basket.ts'
import { assertSameRequest, findAnswers, type IdempotencyKey, insertAnswers, nameOfKey, type StoredAnswer } from './idempotency.ts'
import { drawOrderNumbers, findOrdersByReference, insertOrders, nameOfReference } from './insert-orders.ts'
import { fillIn, newOrder, type Order, orderFrame, type ShippingAddress } from './order.ts'
import type { Money } from './price.ts'
import { nameOfBuyer, type Purchases, readPurchases } from './purchases.ts'
import { IS_SETTLED, isLockTimeout, tryLock, waitForLocks } from './request-locks.ts'

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
  /** Order numbers that were drawn and not used, for the next orders of this process. */
  spareNumbers: number[]
}

/** The longest that a batch waits for a row which somebody else has locked. */
const BATCH_LOCK_MS = 3_000

/**
 * Places orders in one transaction, each accepted or refused on its own, in the order given. All that were accepted are committed
 * when it returns, none when it throws. Nothing is sent here: the pipeline reacts to the commit. A request that another process
 * has in hand comes back as `busy`. `onLocked` is called when all locks are held and only writing and committing is left.
 */
export async function placeOrders(
  options: PlacingOptions,
  requests: readonly OrderRequest[],
  onLocked: () => void = () => {},
): Promise<Outcome[]> {
  const place = (tx: Transaction) => settle(tx, options, requests, tryLock(tx, requests.flatMap(namesOf(options))), onLocked)
  return inPipelinedTransaction(options.pool, place, { lockTimeoutMs: BATCH_LOCK_MS })
}

/**
 * Places one order, and waits for what somebody else has in hand, `waitMs` at most. Throws `request_in_progress` or `unavailable`
 * when that was not enough, and whatever the order is refused for.
 */
export async function placeOrder(options: PlacingOptions, request: OrderRequest, waitMs: number): Promise<PlacedOrder> {
  const lockTimeoutMs = Math.max(1, Math.ceil(waitMs))
  const place = async (tx: Transaction) => {
    await waitForLocks(tx, namesOf(options)(request))
    return settle(tx, options, [request], Promise.resolve(new Set()))
  }
  const [outcome] = await inPipelinedTransaction(options.pool, place, { lockTimeoutMs }).catch((error) => {
    throw isLockTimeout(error) ? new AppError('unavailable', 'A product of the order is being changed. Try again in a moment.') : error
  })
  if (outcome?.kind !== 'placed') throw outcome?.kind === 'refused' ? outcome.error : new Error('an order was left without an outcome')
  return outcome.order
}

/** The names of what no two transactions may have in hand at once. Products are not among them: their rows are locked. */
export function namesOf({ maxQuantityPerProductAndUser }: PlacingOptions) {
  return ({ userId, idempotencyKey, clientReference }: OrderRequest): string[] => {
    const locks: string[] = []
    if (idempotencyKey !== null) locks.push(nameOfKey(idempotencyKey))
    if (clientReference !== null) locks.push(nameOfReference(userId, clientReference))
    if (maxQuantityPerProductAndUser !== null) locks.push(nameOfBuyer(userId))
    return locks
  }
}

/** Prices come with the stock that may have been waited for. */
async function lockOffer(tx: Transaction, requests: readonly OrderRequest[], condition?: { unless: string }): Promise<Offer> {
  const productIds = [...new Set(requests.flatMap(({ basket }) => basket.lines.map((line) => line.product_id)))]
  const [stock, products] = await Promise.all([lockStock(tx, productIds, condition), findSellableProducts(tx, productIds)])
  return { stock, products }
}

function isTaken(options: PlacingOptions, request: OrderRequest, taken: ReadonlySet<string>): boolean {
  return taken.size > 0 && namesOf(options)(request).some((lock) => taken.has(lock))
}

function isAnswered({ idempotencyKey: key }: OrderRequest, answers: ReadonlyMap<string, StoredAnswer>): boolean {
  return answers.size > 0 && key !== null && answers.has(nameOfKey(key))
}

/** An order that is accepted and will be committed with its batch. */
interface Draft {
  key: IdempotencyKey | null
  order: Order
  itemsJson: string
  frame: string
}

type Decision = Outcome | { kind: 'drafted'; draft: Draft; isReplay: boolean }

/**
 * Two round trips: what was there of the requests, prices and stock, and all that is to be written with the commit. `taken` is the first
 * statement of the first. When that finds requests that need no stock, a third one in between locks that of the others.
 */
async function settle(
  tx: Transaction,
  options: PlacingOptions,
  requests: readonly OrderRequest[],
  taken: Promise<ReadonlySet<string>>,
  onLocked: () => void = () => {},
): Promise<Sent<Outcome[]>> {
  const desk = await Desk.open(tx, options, requests, taken)
  const decisions = requests.map((request) => desk.decide(request))
  const statements = desk.write(tx)
  onLocked()
  const result = decisions.map((decision): Outcome => {
    if (decision.kind !== 'drafted') return decision
    const { draft, isReplay } = decision
    return { kind: 'placed', order: { orderId: draft.order.id, json: fillIn(draft.frame, draft.itemsJson), isReplay } }
  })
  return { result, statements }
}

/** What there was when the transaction had its locks. */
interface Findings {
  taken: ReadonlySet<string>
  answers: ReadonlyMap<string, StoredAnswer>
  references: Map<string, string>
  offer: Offer
  numbers: readonly number[]
  purchases: Purchases | null
}

/** Decides upon requests, by what there was and by what it has accepted since. */
class Desk {
  readonly #options: PlacingOptions
  readonly #found: Findings
  readonly #now: Date
  readonly #drafts: Draft[] = []
  readonly #draftsByKey = new Map<string, Draft>()

  private constructor(options: PlacingOptions, found: Findings) {
    this.#options = options
    this.#found = found
    this.#now = options.now()
  }

  static async open(
    tx: Transaction,
    options: PlacingOptions,
    requests: readonly OrderRequest[],
    locking: Promise<ReadonlySet<string>>,
  ): Promise<Desk> {
    const keys = requests.flatMap(({ idempotencyKey }) => idempotencyKey ?? [])
    const limit = options.maxQuantityPerProductAndUser
    const spare = options.spareNumbers.splice(0, requests.length)
    // In the order of the statements: what depends on a lock is read after it.
    const [taken, answers, references, drawn, purchases, early] = await Promise.all([
      locking,
      findAnswers(tx, keys),
      findOrdersByReference(tx, requests),
      drawOrderNumbers(tx, requests.length - spare.length),
      limit === null ? null : readPurchases(tx, requests, limit),
      lockOffer(tx, requests, { unless: IS_SETTLED }),
    ])
    const open = requests.filter((request) => !isTaken(options, request, taken) && !isAnswered(request, answers))
    // Nobody waits for the stock of an order that another process has in hand, or that was placed already.
    const offer = open.length === requests.length ? early : await lockOffer(tx, open)
    return new Desk(options, { taken, answers, references, offer, numbers: [...spare, ...drawn], purchases })
  }

  decide(request: OrderRequest): Decision {
    if (isTaken(this.#options, request, this.#found.taken)) return { kind: 'busy' }
    try {
      return this.#findReplay(request) ?? { kind: 'drafted', draft: this.#accept(request), isReplay: false }
    } catch (error) {
      return { kind: 'refused', error }
    }
  }

  #findReplay({ idempotencyKey: key }: OrderRequest): Decision | null {
    if (key === null) return null
    const name = nameOfKey(key)
    const answer = this.#found.answers.get(name)
    if (answer !== undefined) {
      assertSameRequest(answer, key)
      return { kind: 'placed', order: { orderId: answer.orderId, json: answer.json, isReplay: true } }
    }
    // Two requests with one key can wait in the same batch.
    const draft = this.#draftsByKey.get(name)
    if (draft === undefined) return null
    assertSameRequest(draft.key ?? key, key)
    return { kind: 'drafted', draft, isReplay: true }
  }

  #accept(request: OrderRequest): Draft {
    const { references, offer, numbers, purchases } = this.#found
    const { userId, basket, clientReference, idempotencyKey } = request
    const reference = clientReference === null ? null : nameOfReference(userId, clientReference)
    const earlier = reference === null ? undefined : references.get(reference)
    if (earlier !== undefined) throw this.#refuseReference(earlier)
    const { items, total } = priceBasket(basket, offer)
    assertAvailable(basket, offer.stock, purchases?.excessOf(userId, basket.lines) ?? [])
    assertTotal(request.expectedTotal, items, total)
    offer.stock.take(basket.lines)
    purchases?.add(userId, basket.lines)
    const number = String(numbers[this.#drafts.length])
    const order = newOrder({ ...request, id: randomUUIDv7(), number, items, total, now: this.#now })
    if (reference !== null) references.set(reference, order.id)
    const itemsJson = JSON.stringify(items)
    const draft = { key: idempotencyKey, order, itemsJson, frame: orderFrame(order) }
    this.#drafts.push(draft)
    if (idempotencyKey !== null) this.#draftsByKey.set(nameOfKey(idempotencyKey), draft)
    return draft
  }

  /** Sends what writes the accepted orders. */
  write(tx: Transaction): Promise<unknown>[] {
    const drafts = this.#drafts
    this.#options.spareNumbers.push(...this.#found.numbers.slice(drafts.length))
    if (drafts.length === 0) return []
    const answers = drafts.flatMap(({ key, order, frame }) => (key === null ? [] : [{ key, orderId: order.id, frame }]))
    return [saveStock(tx, this.#found.offer.stock), insertOrders(tx, drafts), insertAnswers(tx, answers)]
  }

  #refuseReference(orderId: string): AppError {
    return new AppError('client_reference_taken', 'You have placed an order with this client_reference already.', {
      members: { order_id: orderId },
      headers: { location: this.#options.locationOf(orderId) },
    })
  }
}
