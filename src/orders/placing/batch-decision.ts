import { randomUUIDv7 } from 'node:crypto'
import type { StockPrecision } from '../../catalogue/stock.ts'
import { AppError } from '../../errors.ts'
import { assertAvailable, assertTotal, priceBasket } from '../basket.ts'
import { locationOf, newOrder, type Order, renderResponse, responseTemplateOf } from '../order.ts'
import type { OrderStatus } from '../order-status.ts'
import type { ExistingState } from './existing-state.ts'
import { assertSameRequest, type IdempotencyKey, lockKeyOfIdempotencyKey } from './idempotency.ts'
import { lockKeyOfReference, type OrderRequest } from './order-request.ts'
import type { EarlierOrder, Repeat } from './repeats.ts'

/** The answer of `POST /orders`: the order as JSON, ready to send and the same, byte for byte, for a retry. */
export interface PlacedOrder {
  orderId: string
  json: string
  isReplay: boolean
}

/**
 * The outcome of a request. Nothing was done for one that is `in_progress`, because another transaction works on its
 * key or reference, or `blocked`, because a row that it needs is locked for long.
 */
export type Outcome =
  | { kind: 'placed'; order: PlacedOrder }
  | { kind: 'refused'; error: unknown }
  | { kind: 'in_progress' }
  | { kind: 'blocked' }

/** An order that is accepted and not stored yet. */
export interface Draft {
  key: IdempotencyKey | null
  order: Order
  /** The names that it takes. */
  repeats: readonly Repeat[]
  stockHolder: string | null
  itemsJson: string
  responseTemplate: string
}

type Decision = Outcome | { kind: 'accepted'; draft: Draft; isReplay: boolean }

export interface DecisionOptions {
  baseUrl: string
  now: Date
  /** The statuses in which customers cancel their orders. */
  cancellableStatuses: readonly OrderStatus[]
}

/**
 * Accepts or refuses requests in the order given, each by the state and by those accepted before it. No I/O; only the
 * ids are random.
 */
export class BatchDecision {
  readonly #options: DecisionOptions
  readonly #state: ExistingState
  readonly #references: Map<string, string>
  readonly #draftsByKey = new Map<string, Draft>()
  /** Drafts by repeat name. */
  readonly #draftsByName = new Map<string, Draft>()
  readonly #drafts: Draft[] = []
  readonly #decisions: readonly Decision[]

  constructor(requests: readonly OrderRequest[], state: ExistingState, options: DecisionOptions) {
    this.#options = options
    this.#state = state
    this.#references = new Map(state.references)
    this.#decisions = requests.map((request) => this.#decide(request))
  }

  /** The orders to store. */
  get drafts(): readonly Draft[] {
    return this.#drafts
  }

  get isEveryRequestAccepted(): boolean {
    return this.#decisions.every(({ kind }) => kind === 'accepted')
  }

  /** The outcomes once the drafts are stored and have these numbers, in the order of `drafts`. */
  outcomes(numbers: readonly string[]): Outcome[] {
    const numberOf = new Map(this.#drafts.map((draft, index) => [draft, numbers[index]]))
    return this.#decisions.map((decision): Outcome => {
      if (decision.kind !== 'accepted') return decision
      const { draft, isReplay } = decision
      const number = numberOf.get(draft)
      if (number === undefined) throw new Error(`the order ${draft.order.id} has no number`)
      return {
        kind: 'placed',
        order: { orderId: draft.order.id, json: renderResponse(draft.responseTemplate, number, draft.itemsJson), isReplay },
      }
    })
  }

  #decide(request: OrderRequest): Decision {
    if (this.#state.isInProgress(request)) return { kind: 'in_progress' }
    try {
      const replay = this.#findReplay(request)
      if (replay !== null) return replay
      if (this.#state.isBlocked(request)) return { kind: 'blocked' }
      return { kind: 'accepted', draft: this.#accept(request), isReplay: false }
    } catch (error) {
      // An unknown error too: it is the answer to this request, and no other order of the batch suffers.
      return { kind: 'refused', error }
    }
  }

  #findReplay({ idempotencyKey: key, repeats }: OrderRequest): Decision | null {
    if (key === null) return null
    const lockKey = lockKeyOfIdempotencyKey(key)
    // Two requests with one key can be in one batch.
    const own = this.#state.responses.get(lockKey) ?? this.#draftsByKey.get(lockKey)
    if (own !== undefined) {
      assertSameRequest('fingerprint' in own ? own : (own.key ?? key), key)
      return replayOf(own)
    }
    const ofAddress = repeats.find(({ reason }) => reason === 'key')
    const earlier = ofAddress && this.#findEarlier(ofAddress)
    return earlier === undefined ? null : replayOf(earlier)
  }

  /** The order that has the name of a repeat: stored, or of this batch. */
  #findEarlier({ name, seconds }: Repeat): EarlierOrder | Draft | undefined {
    if (seconds === 0) return undefined
    const stored = this.#state.repeats.get(name)
    return this.#draftsByName.get(name) ?? (stored !== undefined && stored.ageSeconds < seconds ? stored : undefined)
  }

  #accept(request: OrderRequest): Draft {
    const { userId, basket, currency, clientReference, idempotencyKey, stockHolder = null } = request
    const { purchases, pending, guestHolds, prices, stock } = this.#state
    const reference = clientReference === null ? null : lockKeyOfReference(userId, clientReference)
    const earlier = reference === null ? undefined : this.#references.get(reference)
    if (earlier !== undefined) throw this.#referenceTaken(earlier)
    this.#assertNoRepeat(request, (owner) => owner === userId)
    const { items, total } = priceBasket(basket, currency, { products: prices.products, stock })
    assertTotal(request.expectedTotal, items, total)
    pending?.assertOneMore(userId)
    const ofCustomer = purchases?.excessOf(userId, basket.lines) ?? []
    const ofGuests = (precision: StockPrecision) => guestHolds?.excessOf(stockHolder, basket.lines, precision) ?? []
    assertAvailable(basket, stock.shortagesOf(basket.lines, 'rounded'), [...ofCustomer, ...ofGuests('rounded')])
    if (request.isOfBlockedAddress === true) throw new AppError('account_blocked', 'The shop has blocked this account. Ask the shop.')
    // The exact stock is checked last: learning it costs an order that is placed.
    assertAvailable(basket, [], ofGuests('exact'))
    assertAvailable(basket, stock.shortagesOf(basket.lines, 'exact'), [])
    // Another guest of the address may be anybody: a wrong guess of what was ordered costs an order that is placed.
    this.#assertNoRepeat(request, () => true)
    pending?.add(userId)
    stock.take(basket.lines)
    purchases?.add(userId, basket.lines)
    guestHolds?.add(stockHolder, basket.lines)
    const order = newOrder({ ...request, id: randomUUIDv7(), items, total, now: this.#options.now })
    if (reference !== null) this.#references.set(reference, order.id)
    const draft: Draft = {
      ...{ key: idempotencyKey, order, stockHolder },
      // A deliberate repeat can share its name with an earlier draft, which keeps it.
      repeats: request.repeats.filter(({ name }) => !this.#draftsByName.has(name)),
      itemsJson: JSON.stringify(items),
      responseTemplate: responseTemplateOf(order, this.#options.cancellableStatuses),
    }
    this.#drafts.push(draft)
    for (const { name } of draft.repeats) this.#draftsByName.set(name, draft)
    if (idempotencyKey !== null) this.#draftsByKey.set(lockKeyOfIdempotencyKey(idempotencyKey), draft)
    return draft
  }

  /** Throws when the order is a repeat of one whose owner counts. */
  #assertNoRepeat({ repeats, userId }: OrderRequest, counts: (owner: string) => boolean): void {
    for (const repeat of repeats) {
      const earlier = this.#findEarlier(repeat)
      if (earlier === undefined) continue
      const [owner, id] = 'order' in earlier ? [earlier.order.userId, earlier.order.id] : [earlier.userId, earlier.orderId]
      if (!counts(owner)) continue
      const orderId = owner === userId ? id : null
      if (repeat.reason === 'reference') throw this.#referenceTaken(orderId)
      const message =
        'The same lines were ordered to this address a short time ago. Send the request with "again": true to order them again.'
      throw new AppError('probably_placed_already', message, this.#pointTo(orderId))
    }
  }

  #referenceTaken(orderId: string | null): AppError {
    return new AppError('client_reference_taken', 'There is an order with this client_reference already.', this.#pointTo(orderId))
  }

  #pointTo(orderId: string | null) {
    return orderId === null ? {} : { members: { order_id: orderId }, headers: { location: locationOf(this.#options.baseUrl, orderId) } }
  }
}

/** Replays an order's answer. Throws `idempotency_key_reused` for an order that was deleted by hand. */
function replayOf(earlier: Draft | Pick<EarlierOrder, 'orderId' | 'json'>): Decision {
  if ('order' in earlier) return { kind: 'accepted', draft: earlier, isReplay: true }
  const { orderId, json } = earlier
  if (json === null) {
    throw new AppError('idempotency_key_reused', 'The order of this Idempotency-Key was deleted. Send another key to place a new one.')
  }
  return { kind: 'placed', order: { orderId, json, isReplay: true } }
}
