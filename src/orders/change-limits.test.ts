import assert from 'node:assert/strict'
import { randomInt, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { makeOrderItem } from '../../test/order-event-factory.ts'
import type { SellableProduct } from '../catalogue/products.ts'
import { StockLevels } from '../catalogue/stock.ts'
import { AppError } from '../errors.ts'
import { encodeEvent } from '../topic/nats/messages.ts'
import type { AmendmentOffer } from './amendment-offer.ts'
import { changesSizeBytes, MAX_CHANGES_BYTES } from './change-limits.ts'
import { type OrderEvent, toOrderEvent } from './events.ts'
import { decideMove, type Move } from './move-orders.ts'
import { newOrder, type Order, stateOf } from './order.ts'
import type { LineQuantity } from './order-changes.ts'

const NOW = new Date('2026-03-01T10:00:00.000Z')
/** Largest message of a NATS server with default settings, headers included. */
const DEFAULT_MAX_PAYLOAD = 1024 * 1024
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 -'
/** Random letters, which compress badly. */
const text = (length: number) => Array.from({ length }, () => LETTERS[randomInt(LETTERS.length)]).join('')
const EUR = (amount: number) => ({ amount, currency: 'EUR' })

/** Makes a confirmed order with this number of lines. */
function place(lines: number, quantity: number, { name = 300, sku = 64, category = 100 } = {}): Order {
  const items = Array.from({ length: lines }, () =>
    makeOrderItem({
      ...{ sku: text(sku), name: text(name), category: text(category) },
      ...{ unit_price: EUR(1_000_000), quantity, total: EUR(1_000_000 * quantity) },
    }),
  )
  const attributes = Object.fromEntries(Array.from({ length: 7 }, (_, index) => [`a${index}`, text(500)]))
  const address = () => ({
    ...{ name: text(200), company: text(200), line1: text(200), line2: text(200), city: text(100), region: text(100) },
    ...{ postal_code: text(20), country: 'DE', phone: text(40) },
  })
  const order = newOrder({
    ...{ id: randomUUID(), userId: randomUUID(), items, total: EUR(lines * quantity * 1_000_000), clientReference: text(100) },
    ...{ shippingAddress: address(), billingAddress: address(), vatNumber: text(40), note: text(1_000), attributes },
    ...{ actor: { type: 'customer', id: randomUUID() } as const, traceparent: '', now: NOW },
  })
  return take(order, { to: 'confirmed' })
}

const LONG = () => ({ reason: text(500), reference: text(200) })
const TRACKING = () => ({ carrier: text(100), number: text(100), url: `https://${text(1_990).replaceAll(' ', '-')}` })

type Requested = Pick<Move, 'to' | 'change'> & Partial<Move>

function take(order: Order, requested: Requested, offer?: AmendmentOffer): Order {
  const actor = { type: 'admin', id: randomUUID() } as const
  const outcome = decideMove({ orderId: order.id, actor, reason: null, traceparent: '', ...requested } as Move, order, NOW, offer)
  if (outcome.kind === 'refused') throw outcome.error
  return outcome.order
}

/** Applies changes until one is refused. Returns the order and the number of applied changes. */
function takeAll(order: Order, next: (index: number) => Requested, code = 'too_many_changes'): { order: Order; taken: number } {
  for (let [now, taken] = [order, 0]; ; taken++) {
    try {
      now = take(now, next(taken))
    } catch (error) {
      assert.ok(error instanceof AppError && error.code === code, String(error))
      return { order: now, taken }
    }
  }
}

const ship = (lines: LineQuantity[] | null): Requested => ({ change: { type: 'shipped', lines } })
const one = ({ items }: Order, index: number) => [{ product_id: items[index % items.length]?.product_id ?? '', quantity: 1 }]
const eachOnce = ({ items }: Order) => items.map(({ product_id }) => ({ product_id, quantity: 1 }))

function eventOf(order: Order): OrderEvent {
  const { userId: user_id, clientReference: client_reference, shippingAddress: shipping_address, statusHistory: status_history } = order
  const times = { created_at: order.createdAt, updated_at: order.updatedAt }
  const { total, ...same } = order
  return toOrderEvent(
    { ...same, user_id, client_reference, shipping_address, status_history, ...times, total_amount: String(total.amount), currency: 'EUR' },
    order,
  )
}
const payloadBytes = (order: Order) => encodeEvent(eventOf(order)).payload.length
const jsonBytes = (order: Order) => Buffer.byteLength(JSON.stringify(eventOf(order)))

test('an order takes a hundred part changes of each kind, and after them its rest', () => {
  const placed = place(2, 500, { name: 4 })
  const part = (type: 'lines_cancelled' | 'shipped') => (index: number) => ({ change: { type, lines: one(placed, index) } })
  const first = placed.items.map(({ product_id }) => ({ product_id, quantity: 100 }))
  const shipped = takeAll(take(placed, ship(first)), part('shipped'))
  assert.equal(shipped.taken, 99)
  const returned = takeAll(shipped.order, (index) => ({ change: { type: 'returned', lines: one(placed, index), restock: true } }))
  assert.equal(returned.taken, 100)
  const cancelled = takeAll(returned.order, part('lines_cancelled'))
  assert.equal(cancelled.taken, 100)
  const rest = take(cancelled.order, { to: 'shipped' })
  assert.deepEqual([rest.status, take(rest, { to: 'returned' }).status], ['shipped', 'returned'])
  const done = take(cancelled.order, { change: { type: 'lines_cancelled', lines: null } })
  assert.deepEqual([done.status, take(done, { change: { type: 'returned', lines: null, restock: false } }).status], ['shipped', 'returned'])
})

test('an amendment leaves at most a thousand lines in an order', () => {
  const placed = place(1, 1)
  const added = Array.from({ length: 1_000 }, (): SellableProduct => {
    return { id: randomUUID(), sku: 'S', name: 'Lamp', category: 'Lamps', price: EUR(100), prices: {}, inStock: true }
  })
  const offer: AmendmentOffer = {
    products: new Map(added.map((product) => [product.id, product])),
    stock: new StockLevels(new Map(added.map(({ id }) => [id, null]))),
    ...{ precision: 'exact', purchases: null },
  }
  const amend = (products: readonly SellableProduct[]) => {
    const lines = products.map(({ id }) => ({ product_id: id, quantity: 1, price: 'now' as const }))
    return take(placed, { change: { type: 'amended', lines } }, offer)
  }
  assert.equal(stateOf(amend(added.slice(1))).items.length, 1_000)
  assert.throws(() => amend(added), { code: 'too_many_changes' })
})

const ADJUST = () =>
  ({ change: { type: 'adjusted', kind: 'fee', label: text(100), amount: 1, currency: 'EUR' }, reference: text(200) }) as const

/** Orders with the largest histories: parcels of many lines, or entries with much text. */
const LARGEST: Record<string, (placed: Order) => Order> = {
  lines: (placed) => takeAll(placed, () => ({ ...ship(eachOnce(placed)), ...LONG(), tracking: TRACKING() })).order,
  texts: (placed) => {
    const shipped = takeAll(take(placed, ship(eachOnce(placed))), (index) => ({
      change: { type: 'returned', lines: one(placed, index), restock: true },
      ...LONG(),
    }))
    return takeAll(shipped.order, (index) => ({ change: { type: 'lines_cancelled', lines: one(placed, index) }, ...LONG() })).order
  },
}

for (const [what, fill] of Object.entries(LARGEST)) {
  test(`an order of a thousand lines can end, and its event fits into a broker's message, however many ${what} its history has`, () => {
    const placed = place(1_000, 10)
    const filled = takeAll(fill(placed), (index) => ({ ...ship(one(placed, index)), ...LONG(), tracking: TRACKING() })).order
    const adjusted = takeAll(filled, ADJUST).order
    assert.ok(changesSizeBytes(adjusted) <= MAX_CHANGES_BYTES)
    const paid = takeAll(adjusted, () => ({ change: { type: 'payment', provider: text(50), reference: text(200), state: 'refunded' } }))
    assert.equal(paid.taken, 100, 'what a payment provider reports is never refused for the size')
    const back = take(paid.order, { change: { type: 'returned', lines: null, restock: true }, ...LONG() })
    const shipped = take(back, { to: 'shipped', ...LONG(), tracking: TRACKING() })
    const ended = take(take(shipped, { to: 'delivered', ...LONG() }), { to: 'returned', ...LONG() })
    assert.equal(ended.status, 'returned')
    const [json, payload] = [jsonBytes(ended), payloadBytes(ended)]
    assert.ok(payload < 0.9 * DEFAULT_MAX_PAYLOAD, `${json} bytes, ${payload} as they are sent`)
  })
}
