import { randomUUIDv7 } from 'node:crypto'
import { AppError } from '../../errors.ts'
import type { Money } from '../../money.ts'
import { assertAvailable, assertTotal, type Basket, type Offer, priceBasket } from '../basket.ts'
import { fillIn, newOrder, type Order, orderFrame, type ShippingAddress } from '../order.ts'
import type { PendingOrders } from '../pending-orders.ts'
import { assertSameRequest, type IdempotencyKey, nameOfKey, type StoredAnswer } from './idempotency.ts'
import { nameOfReference } from './insert-orders.ts'
import type { Purchases } from './purchases.ts'

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

/**
 * What became of a request. `busy`: something of it is in another process's hands, and nothing was done. `blocked`: likewise, for rows that it needs
 * are locked; `untilFree` returns whether they are free within this time.
 */
export type Outcome =
  | { kind: 'placed'; order: PlacedOrder }
  | { kind: 'refused'; error: unknown }
  | { kind: 'busy' }
  | { kind: 'blocked'; untilFree: (ms: number) => Promise<boolean> }

/** What there was of some requests when their transaction had its locks. */
export interface Findings {
  /** Whether something of a request is in another process's hands. */
  isTaken: (request: OrderRequest) => boolean
  answers: ReadonlyMap<string, StoredAnswer>
  references: ReadonlyMap<string, string>
  purchases: Purchases | null
  pending: PendingOrders | null
}

export const NOTHING_FOUND: Findings = {
  isTaken: () => false,
  answers: new Map(),
  references: new Map(),
  purchases: null,
  pending: null,
}

/** Of a request that needs no stock: another process has it in hand, or it was answered before. */
export function isSettled(request: OrderRequest, { isTaken, answers }: Findings): boolean {
  return isTaken(request) || (request.idempotencyKey !== null && answers.has(nameOfKey(request.idempotencyKey)))
}

/** An order that is accepted and will be committed with its batch. */
export interface Draft {
  key: IdempotencyKey | null
  order: Order
  itemsJson: string
  frame: string
}

export type Decision = Outcome | { kind: 'drafted'; draft: Draft; isReplay: boolean }

export interface DeskOptions {
  /** The address of an order, for `Location`. */
  locationOf: (orderId: string) => string
  now: Date
}

/** Decides upon requests, by what there was and by what it has accepted since. Pure, but for the ids that it gives. */
export class Desk {
  readonly #options: DeskOptions
  readonly #found: Findings
  readonly #offer: Offer
  readonly #references: Map<string, string>
  readonly #drafts: Draft[] = []
  readonly #draftsByKey = new Map<string, Draft>()

  constructor(options: DeskOptions, found: Findings, offer: Offer) {
    this.#options = options
    this.#found = found
    this.#offer = offer
    this.#references = new Map(found.references)
  }

  /** The orders that it has accepted. */
  get drafts(): readonly Draft[] {
    return this.#drafts
  }

  decide(request: OrderRequest): Decision {
    if (this.#found.isTaken(request)) return { kind: 'busy' }
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
    const { userId, basket, clientReference, idempotencyKey } = request
    const reference = clientReference === null ? null : nameOfReference(userId, clientReference)
    const earlier = reference === null ? undefined : this.#references.get(reference)
    if (earlier !== undefined) throw this.#refuseReference(earlier)
    const { items, total } = priceBasket(basket, this.#offer)
    assertAvailable(basket, this.#offer.stock, this.#found.purchases?.excessOf(userId, basket.lines) ?? [])
    assertTotal(request.expectedTotal, items, total)
    this.#found.pending?.add(userId)
    this.#offer.stock.take(basket.lines)
    this.#found.purchases?.add(userId, basket.lines)
    const order = newOrder({ ...request, id: randomUUIDv7(), items, total, now: this.#options.now })
    if (reference !== null) this.#references.set(reference, order.id)
    const draft = { key: idempotencyKey, order, itemsJson: JSON.stringify(items), frame: orderFrame(order) }
    this.#drafts.push(draft)
    if (idempotencyKey !== null) this.#draftsByKey.set(nameOfKey(idempotencyKey), draft)
    return draft
  }

  #refuseReference(orderId: string): AppError {
    return new AppError('client_reference_taken', 'You have placed an order with this client_reference already.', {
      members: { order_id: orderId },
      headers: { location: this.#options.locationOf(orderId) },
    })
  }
}

/** What a decision comes to once it is committed. `numbers` are those that the orders were given, by id. */
export function outcomeOf(decision: Decision, numbers: ReadonlyMap<string, string>): Outcome {
  if (decision.kind !== 'drafted') return decision
  const { order, frame, itemsJson } = decision.draft
  const number = numbers.get(order.id)
  if (number === undefined) throw new Error(`the order ${order.id} was given no number`)
  return { kind: 'placed', order: { orderId: order.id, json: fillIn(frame, number, itemsJson), isReplay: decision.isReplay } }
}
