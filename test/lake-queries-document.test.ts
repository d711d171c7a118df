import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readyQuestions } from '../console/screens/lake-questions.ts'
import { queryWithin } from '../src/lake/bounded-query.ts'
import { LocalLakeStore } from '../src/lake/local-store.ts'
import type { OrderEvent } from '../src/orders/events.ts'
import type { StatusChange } from '../src/orders/order.ts'
import type { OrderChange, PaymentState } from '../src/orders/order-changes.ts'
import { orderStateOf } from '../src/orders/order-state.ts'
import { writeCatalogue } from './catalogue-lake.ts'
import { makeLakeDirectory, NEVER, queryFolder, startSink } from './lake-harness.ts'
import { makeOrderEvent, makeOrderItem, type OrderEventOverrides } from './order-event-factory.ts'

const DOCUMENT = readFileSync(new URL('../docs/data/lake-queries.md', import.meta.url), 'utf8')
const queries = new Map(
  [...DOCUMENT.matchAll(/^## (.*)\n\n(?:[A-Z](?:.+\n)+\n)?```sql\n([\s\S]*?)```/gm)].map(([, title = '', sql = '']) => [title, sql]),
)
const [ADA, BOB] = ['01900000-0000-7000-8000-00000000ada0', '01900000-0000-7000-8000-00000000b0b0']
const EVE = '01900000-0000-7000-8000-00000000e0e0'

const address = (country: string) => ({ name: 'Ada', line1: '1 St', city: 'Graz', postal_code: '8010', country })
const item = (category: string, quantity: number, amount: number, currency: string) =>
  makeOrderItem({
    ...{ ...(category !== '' && { category }), quantity },
    ...{ unit_price: { amount: amount / quantity, currency }, total: { amount, currency } },
  })
const change = (status: StatusChange['status'], type: 'customer' | 'admin', reason: string | null): StatusChange => ({
  ...{ status, at: '2026-03-01T10:00:00.000Z', actor: { type, id: null }, reason },
})

/**
 * An order's events, one for each change; the first is placed at `at`, the others `hours` later each. `order` is as
 * it was placed.
 */
function makeLife(
  at: string,
  hours: number,
  changes: StatusChange[],
  order: NonNullable<OrderEventOverrides['order']> & Pick<OrderEvent['data']['order'], 'items' | 'total'>,
) {
  const id = makeOrderEvent().subject
  return changes.map(({ status }, index) => {
    const updated_at = new Date(Date.parse(at) + index * hours * 3_600_000).toISOString()
    const history = changes.slice(0, index + 1)
    const { total, parcels, adjustments, payment } = orderStateOf({ items: order.items, total: order.total, history })
    const state = { ...order, total, original_total: order.total, parcels, adjustments, ...(payment !== null && { payment }) }
    const life = { id, version: index + 1, status, status_history: history, created_at: at, updated_at }
    return makeOrderEvent({ order: { ...state, ...life }, previous_status: changes[index - 1]?.status ?? null })
  })
}

const placed = change('pending', 'customer', null)
const shipped = [placed, change('confirmed', 'admin', null), change('shipped', 'admin', null)]
/** A change of an order besides its status, by a key. */
const amend = (status: StatusChange['status'], amendment: OrderChange): StatusChange => ({
  ...{ status, at: '2026-03-01T10:00:00.000Z', actor: { type: 'key', id: null }, reason: null, change: amendment },
})
const STRIPE = { provider: 'stripe', reference: 'pi_1' }
const pay = (status: StatusChange['status'], state: PaymentState) => amend(status, { type: 'payment', ...STRIPE, state })
const divided = item('garden', 4, 4_000, 'EUR')
const units = (quantity: number) => [{ product_id: divided.product_id, quantity }]
const events = [
  // In Vienna it is the 2nd already.
  makeLife('2026-03-01T23:30:00.000Z', 12, shipped, {
    ...{ user_id: ADA, shipping_address: address('AT'), total: { amount: 2_550, currency: 'EUR' }, client_reference: 'PO-7' },
    items: [item('kitchen', 2, 2_000, 'EUR'), item('garden', 1, 550, 'EUR')],
  }),
  makeLife('2026-03-02T10:00:00.000Z', 6, shipped, {
    ...{ user_id: ADA, shipping_address: address('AT'), total: { amount: 1_001, currency: 'EUR' }, client_reference: null },
    items: [item('kitchen', 1, 1_001, 'EUR')],
  }),
  makeLife('2026-03-02T11:00:00.000Z', 1, [placed], {
    ...{ user_id: BOB, shipping_address: null, total: { amount: 1_200, currency: 'JPY' }, client_reference: null },
    items: [item('', 3, 1_200, 'JPY')],
  }),
  makeLife('2026-03-03T11:00:00.000Z', 1, [placed, change('cancelled', 'admin', 'sold out')], {
    ...{ user_id: BOB, shipping_address: address('DE'), total: { amount: 12_345, currency: 'KWD' }, client_reference: null },
    items: [item('kitchen', 1, 12_345, 'KWD')],
  }),
  // One of four units is cancelled; three come in two parcels, one of them comes back. Then the order is paid and
  // partly refunded.
  makeLife(
    '2026-03-10T11:00:00.000Z',
    2,
    [
      placed,
      change('confirmed', 'admin', null),
      amend('confirmed', { type: 'adjusted', kind: 'shipping', label: 'Post', amount: 500 }),
      amend('confirmed', { type: 'lines_cancelled', lines: units(1), amount: -1_000 }),
      amend('confirmed', { type: 'shipped', lines: units(1) }),
      amend('shipped', { type: 'shipped', lines: units(2) }),
      amend('shipped', { type: 'returned', lines: units(1), restock: true }),
      pay('shipped', 'paid'),
      pay('shipped', 'partially_refunded'),
      amend('shipped', { type: 'payment', ...STRIPE, state: 'partially_refunded', refund: { amount: 900 } }),
    ],
    { user_id: EVE, shipping_address: address('FR'), total: { amount: 4_000, currency: 'EUR' }, client_reference: null, items: [divided] },
  ),
  // Paid back after it was cancelled. The provider reports it, too, and nothing was left.
  makeLife(
    '2026-03-11T11:00:00.000Z',
    1,
    [
      ...[placed, pay('pending', 'authorized')],
      amend('pending', { type: 'adjusted', kind: 'discount', label: 'Late', amount: -100 }),
      ...[pay('pending', 'paid'), change('cancelled', 'customer', 'too late')],
      amend('cancelled', { type: 'payment', ...STRIPE, state: 'partially_refunded', refund: { amount: 600 } }),
      pay('cancelled', 'refunded'),
    ],
    {
      ...{ user_id: EVE, shipping_address: address('FR'), total: { amount: 700, currency: 'EUR' }, client_reference: null },
      items: [item('kitchen', 1, 700, 'EUR')],
    },
  ),
].flat()

const EXPECTED: Record<string, unknown[][]> = {
  'Sales by day of the shop': [
    ['2026-03-02', 'EUR', '2', '35.510'],
    ['2026-03-02', 'JPY', '1', '1200.000'],
    ['2026-03-10', 'EUR', '1', '35.000'],
  ],
  'Sales by category': [
    ['garden', 'EUR', '4', '35.500'],
    ['kitchen', 'EUR', '3', '30.010'],
    ['unknown', 'JPY', '3', '1200.000'],
  ],
  'Orders by country': [
    ['AT', '2', '1'],
    ['FR', '2', '1'],
    ['DE', '1', '1'],
    ['none', '1', '1'],
  ],
  'Cancellations by cause': [
    ['admin', 'sold out', '1'],
    ['customer', 'too late', '1'],
  ],
  'Refunds by month': [['2026-03', 'EUR', '3', '1500', '1']],
  'From the order to the parcel': [['3', 12, 21.6]],
  'Customers who came again': [
    ['1', '2'],
    ['2', '1'],
  ],
  "One order's life": [
    [1, 'pending', 'customer', null, '2026-03-01T23:30:00.000Z'],
    [2, 'confirmed', 'admin', null, '2026-03-02T11:30:00.000Z'],
    [3, 'shipped', 'admin', null, '2026-03-02T23:30:00.000Z'],
  ],
  'Prices of a product over time': [
    ['EUR', '12.500', '2026-03-01T08:00:00.000Z', '2026-03-01T11:00:00.000Z'],
    ['EUR', '10.000', '2026-03-01T11:00:00.000Z', null],
    ['JPY', '300.000', '2026-03-01T08:00:00.000Z', '2026-03-01T10:00:00.000Z'],
    ['JPY', '300.000', '2026-03-01T12:00:00.000Z', null],
    ['USD', '19.990', '2026-03-01T08:00:00.000Z', '2026-03-01T09:00:00.000Z'],
    ['USD', '18.990', '2026-03-01T09:00:00.000Z', '2026-03-01T10:00:00.000Z'],
    ['USD', '19.990', '2026-03-01T10:00:00.000Z', null],
  ],
  'Products that are sold out': [['MUG-1', '2026-03-01T09:30:00.000Z']],
}

/** Answers to the console's ready questions, by title. */
const EXPECTED_ANSWERS: Record<string, unknown[][]> = {
  'Revenue per day': EXPECTED['Sales by day of the shop'] ?? [],
  'Best sellers': [
    ['MUG-1', 'Mug', 'EUR', '7', '65.510'],
    ['MUG-1', 'Mug', 'JPY', '3', '1200.000'],
  ],
  'Cancel rate': [
    ['2026-03-02', 0, '0', '3'],
    ['2026-03-03', 100, '1', '1'],
    ['2026-03-10', 0, '0', '1'],
    ['2026-03-11', 100, '1', '1'],
  ],
  'Time to ship': [
    ['2026-03-02', 18, 22.8, '2'],
    ['2026-03-10', 10, 10, '1'],
  ],
  'Repeat customers': [
    ['1 order', '2'],
    ['2 orders', '1'],
  ],
}

test('each query of docs/data/lake-queries.md, and each ready question of the console, answers what it says', async (t) => {
  assert.deepEqual([...queries.keys()], Object.keys(EXPECTED))
  const directory = makeLakeDirectory(t)
  for (const [title, sql] of queries)
    assert.deepEqual((await queryFolder(directory, sql)).rows.flat().filter(Number), [], `${title}, empty`)
  const sink = await startSink(t, directory)
  await sink.handle(
    events.map((event, index) => ({ sequence: index + 1, event })),
    NEVER,
  )
  await sink.flush()
  await writeCatalogue(t, new LocalLakeStore(directory))
  for (const [title, sql] of queries) assert.deepEqual((await queryFolder(directory, sql)).rows, EXPECTED[title], title)
  const bounds = { maxRows: 1_000, maxBytes: 1_000_000, memory: '512MB', spill: '1GB', spillDirectory: join(directory, 'spill') }
  const daysSince = Math.ceil((Date.now() - Date.parse('2026-03-01T00:00:00Z')) / 86_400_000) + 2
  // All time, a period with every order, and one without any.
  for (const days of [null, daysSince, 1]) {
    for (const { title, sql } of readyQuestions('Europe/Vienna', days)) {
      const { rows } = await queryWithin(new LocalLakeStore(directory), sql, bounds)
      const expected = days === 1 ? [] : EXPECTED_ANSWERS[title]
      assert.deepEqual(
        rows.map((row) => JSON.parse(row)),
        expected,
        `${title} of ${days} days`,
      )
    }
  }
})
