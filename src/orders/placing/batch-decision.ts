import { randomUUIDv7 } from 'node:crypto'
import type { AuditContext } from '../../activity/record-activity.ts'
import type { StockPrecision } from '../../catalogue/stock.ts'
import { AppError } from '../../errors.ts'
import { assertAvailable, assertTotal, priceBasket } from '../basket.ts'
import { type ItemAttributes, splitAttributes } from '../line-attributes.ts'
import { locationOf, newOrder, type Order, presentOrder, renderResponse, responseTemplateOf } from '../order.ts'
import type { OrderStatus } from '../order-status.ts'
import { presentForAdmin } from '../search-orders.ts'
import type { ExistingState } from './existing-state.ts'
import { assertSameRequest, type IdempotencyKey, lockKeyOfIdempotencyKey, type PlacedOrder, replayOf } from './idempotency.ts'
import { lockKeyOfReference, type OrderRequest } from './order-request.ts'
import { type EarlierOrder, isOfKey, type Repeat } from './repeats.ts'

/** `in_progress`: another transaction has the key or reference. `blocked`: another transaction holds a needed row. */
export type Outcome =
  | { kind: 'placed'; order: PlacedOrder }
  | { kind: 'refused'; error: unknown }
  | { kind: 'in_progress' }
  | { kind: 'blocked' }

export interface Draft {
  key: IdempotencyKey | null
  order: Order
  repeats: readonly Repeat[]
  stockHolder: string | null
  auditContext: AuditContext | null
  itemsJson: string
  itemAttributes: ItemAttributes | null
  responseTemplate: string
}

type Decision = Outcome | { kind: 'accepted'; draft: Draft; isReplay: boolean }

export interface DecisionOptions {
  baseUrl: string
  now: Date
  cancellableStatuses: readonly OrderStatus[]
}

/** Accepts or refuses requests in the given sequence. Earlier accepted requests count. Does no I/O. */
export class BatchDecision {
  readonly #options: DecisionOptions
  readonly #state: ExistingState
  readonly #references: Map<string, string>
  readonly #draftsByKey = new Map<string, Draft>()
  readonly #draftsByName = new Map<string, Draft>()
  readonly #drafts: Draft[] = []
  readonly #decisions: readonly Decision[]

  constructor(requests: readonly OrderRequest[], state: ExistingState, options: DecisionOptions) {
    this.#options = options
    this.#state = state
    this.#references = new Map(state.references)
    this.#decisions = requests.map((request) => this.#decide(request))
  }

  get drafts(): readonly Draft[] {
    return this.#drafts
  }

  get isEveryRequestAccepted(): boolean {
    return this.#decisions.every(({ kind }) => kind === 'accepted')
  }

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
      // An unknown error refuses only this request, and the other orders of the batch continue.
      return { kind: 'refused', error }
    }
  }

  #findReplay({ idempotencyKey: key, repeats }: OrderRequest): Decision | null {
    if (key === null) return null
    const lockKey = lockKeyOfIdempotencyKey(key)
    const shared = repeats.find(isOfKey)
    // Two requests of a batch can have the same key.
    const earlier = this.#state.responses.get(lockKey) ?? this.#draftsByKey.get(lockKey) ?? (shared && this.#findEarlier(shared))
    if (earlier === undefined) return null
    if (!('order' in earlier)) return { kind: 'placed', order: replayOf(earlier, key) }
    assertSameRequest(earlier.key ?? key, key)
    return { kind: 'accepted', draft: earlier, isReplay: true }
  }

  #findEarlier({ name, seconds }: Repeat): EarlierOrder | Draft | undefined {
    if (seconds === 0) return undefined
    const stored = this.#state.repeats.get(name)
    return this.#draftsByName.get(name) ?? (stored !== undefined && stored.ageSeconds < seconds ? stored : undefined)
  }

  #accept(request: OrderRequest): Draft {
    const { userId, basket, currency, clientReference, idempotencyKey, stockHolder = null, auditContext = null } = request
    const { purchases, pending, guestHolds, prices, stock } = this.#state
    const reference = clientReference === null ? null : lockKeyOfReference(userId, clientReference)
    const earlier = reference === null ? undefined : this.#references.get(reference)
    if (earlier !== undefined) throw this.#referenceTaken(request, earlier)
    this.#assertNoRepeat(request, (owner) => owner === userId)
    const { items, total } = priceBasket(basket, currency, { products: prices.products, stock })
    assertTotal(request.expectedTotal, items, total)
    pending?.assertOneMore(userId)
    const ofCustomer = purchases?.excessOf(userId, basket.lines) ?? []
    const ofGuests = (precision: StockPrecision) => guestHolds?.excessOf(stockHolder, basket.lines, precision) ?? []
    assertAvailable(basket, stock.shortagesOf(basket.lines, 'rounded'), [...ofCustomer, ...ofGuests('rounded')])
    if (request.isOfBlockedAddress === true) throw new AppError('account_blocked', 'The shop has blocked this account. Ask the shop.')
    // The exact stock is checked last, so probing it costs a placed order.
    assertAvailable(basket, [], ofGuests('exact'))
    assertAvailable(basket, stock.shortagesOf(basket.lines, 'exact'), [])
    // Anybody can be a guest with this address, so probing another person's order costs a placed order.
    this.#assertNoRepeat(request, () => true)
    pending?.add(userId)
    stock.take(basket.lines)
    purchases?.add(userId, basket.lines)
    guestHolds?.add(stockHolder, basket.lines)
    const actor = auditContext?.actor ?? ({ type: 'customer', id: userId } as const)
    const order = newOrder({ ...request, id: randomUUIDv7(), items, total, actor, now: this.#options.now })
    if (reference !== null) this.#references.set(reference, order.id)
    const stored = splitAttributes(items)
    const draft: Draft = {
      ...{ key: idempotencyKey, order, stockHolder, auditContext },
      // A deliberate repeat can share its name with an earlier draft, which keeps the name.
      repeats: request.repeats.filter(({ name }) => !this.#draftsByName.has(name)),
      ...{ itemsJson: JSON.stringify(stored.items), itemAttributes: stored.attributes },
      responseTemplate: responseTemplateOf(
        order,
        auditContext === null ? (placed) => presentOrder(placed, this.#options.cancellableStatuses) : presentForAdmin,
      ),
    }
    this.#drafts.push(draft)
    for (const { name } of draft.repeats) this.#draftsByName.set(name, draft)
    if (idempotencyKey !== null) this.#draftsByKey.set(lockKeyOfIdempotencyKey(idempotencyKey), draft)
    return draft
  }

  #assertNoRepeat(request: OrderRequest, counts: (owner: string) => boolean): void {
    for (const repeat of request.repeats) {
      const earlier = this.#findEarlier(repeat)
      if (earlier === undefined) continue
      const [owner, id] = 'order' in earlier ? [earlier.order.userId, earlier.order.id] : [earlier.userId, earlier.orderId]
      if (!counts(owner)) continue
      const orderId = owner === request.userId || request.auditContext !== undefined ? id : null
      if (repeat.reason === 'reference') throw this.#referenceTaken(request, orderId)
      const message =
        'The same lines were ordered to this address a short time ago. Send the request with "again": true to order them again.'
      throw new AppError('probably_placed_already', message, this.#pointTo(request, orderId))
    }
  }

  #referenceTaken(request: OrderRequest, orderId: string | null): AppError {
    return new AppError('client_reference_taken', 'There is an order with this client_reference already.', this.#pointTo(request, orderId))
  }

  #pointTo({ auditContext }: OrderRequest, orderId: string | null) {
    if (orderId === null) return {}
    const location = locationOf(this.#options.baseUrl, orderId, auditContext !== undefined)
    return { members: { order_id: orderId }, headers: { location } }
  }
}
