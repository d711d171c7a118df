import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { type OrderRecord, previousEventId, toEarlierEvents, toOrderEvents } from './events.ts'

const id = '01997a60-2b33-7e45-a1c8-6d0e9f7b3a55'
const user = '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b11'
const product_id = '01997a5e-1f20-7c11-b4d2-8e6a0f3b5c21'
const at = (minute: number) => `2026-03-04T18:0${minute}:00.000Z`
const admin = { type: 'admin', id: 'op' } as const
const tracking = { carrier: 'DHL', number: '1', url: 'https://track.example/1' }
const EUR = (amount: number) => ({ amount, currency: 'EUR' })

/** An order of two mugs that moved as a whole up to its return. */
const WHOLE: OrderRecord = {
  ...{ id, number: '100042', user_id: user, status: 'returned' },
  items: [{ product_id, sku: 'MUG', name: 'Mug', category: 'kitchen', unit_price: EUR(1_290), quantity: 2, total: EUR(2_580) }],
  ...{
    total_amount: '2580',
    currency: 'EUR',
    client_reference: 'cart-1',
    shipping_address: null,
    note: 'ring',
    version: 5,
    attributes: null,
  },
  status_history: [
    { status: 'pending', at: at(1), actor: { type: 'customer', id: user }, reason: null },
    { status: 'confirmed', at: at(2), actor: admin, reason: null, reference: 'pay_1' },
    { status: 'shipped', at: at(3), actor: admin, reason: null, reference: 'parcel_1', tracking },
    { status: 'delivered', at: at(4), actor: { type: 'system', id: null }, reason: null },
    { status: 'returned', at: at(5), actor: admin, reason: 'broken' },
  ],
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  ...{ created_at: new Date(at(1)), updated_at: new Date(at(5)) },
}

test('events of an order that moved as a whole are byte for byte those of releases without parts', () => {
  const text = toOrderEvents(WHOLE)
    .map((event) => JSON.stringify(event))
    .join('\n')
  // Digest of the text that an earlier release made of this row.
  const before = '62e3b45af1e7b905ce9b2b31ff452bf3e873e5f79058724bfcefb243403dc1a9'
  assert.equal(createHash('sha256').update(text).digest('hex'), before, text)
})

test('an event has the adjustments up to its time, and no such member when there are none', () => {
  const [placed] = WHOLE.status_history
  assert.ok(placed !== undefined)
  const adjusted = { type: 'adjusted', kind: 'fee', label: 'Wrapping', amount: 200 } as const
  const events = toOrderEvents({
    ...{ ...WHOLE, status: 'pending', version: 3, traceparent: null },
    status_history: [
      placed,
      { ...placed, at: at(2), change: adjusted },
      { ...placed, at: at(3), change: { type: 'adjustment_voided', adjustment: 2, amount: -200 } },
    ],
  })
  assert.deepEqual(
    events.map(({ data: { order } }) => [order.adjustments?.map(({ label }) => label), order.total.amount]),
    [
      [undefined, 2_580],
      [['Wrapping'], 2_780],
      [undefined, 2_580],
    ],
  )
})

test('each version of an order with parts has its own total and units, even when it is made from a later event', () => {
  const part = [{ product_id, quantity: 1 }]
  const [placed, confirmed] = WHOLE.status_history
  assert.ok(placed !== undefined && confirmed !== undefined)
  const record: OrderRecord = {
    ...WHOLE,
    status_history: [
      placed,
      confirmed,
      { ...confirmed, at: at(3), tracking, change: { type: 'shipped', lines: part } },
      { ...confirmed, status: 'shipped', at: at(4), change: { type: 'lines_cancelled', lines: part, amount: -1_290 } },
      { ...confirmed, status: 'returned', at: at(5), change: { type: 'returned', lines: part, restock: true } },
    ],
    traceparent: null,
  }
  const events = toOrderEvents(record)
  assert.deepEqual(
    events.map(({ type, data: { order } }) => {
      const { shipped = 0, cancelled = 0, returned = 0 } = order.items[0] ?? {}
      return [type.slice('storefront.order.'.length), order.total.amount, order.parcels?.length, shipped, cancelled, returned]
    }),
    [
      ['created', 2_580, undefined, 0, 0, 0],
      ['confirmed', 2_580, undefined, 0, 0, 0],
      ['updated', 2_580, 1, 1, 0, 0],
      ['shipped', 1_290, 1, 1, 1, 0],
      ['returned', 1_290, 1, 1, 1, 1],
    ],
  )
  const last = events.at(-1)
  assert.ok(last !== undefined)
  assert.deepEqual(toEarlierEvents(last), events.slice(0, -1))
  assert.equal(previousEventId(last), events.at(-2)?.id ?? null)
})
