import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { StatusChange } from '../src/orders/order.ts'
import { makeLakeDirectory, NEVER, queryFolder, startSink } from './lake-harness.ts'
import { makeOrderEvent, makeOrderItem, type OrderEventOverrides } from './order-event-factory.ts'

const DOCUMENT = readFileSync(new URL('../docs/lake-queries.md', import.meta.url), 'utf8')
const queries = new Map([...DOCUMENT.matchAll(/^## (.*)\n\n```sql\n([\s\S]*?)```/gm)].map(([, title = '', sql = '']) => [title, sql]))
const [ADA, BOB] = ['01900000-0000-7000-8000-00000000ada0', '01900000-0000-7000-8000-00000000b0b0']

const address = (country: string) => ({ name: 'Ada', line1: '1 St', city: 'Graz', postal_code: '8010', country })
const item = (category: string, quantity: number, amount: number, currency: string) =>
  makeOrderItem({ ...(category !== '' && { category }), quantity, total: { amount, currency } })
const change = (status: StatusChange['status'], type: 'customer' | 'admin', reason: string | null): StatusChange => ({
  ...{ status, at: '2026-03-01T10:00:00.000Z', actor: { type, id: null }, reason },
})

/** An order's events, one for each status; the first is placed at `at`, the others `hours` later each. */
function makeLife(at: string, hours: number, changes: StatusChange[], order: NonNullable<OrderEventOverrides['order']>) {
  const id = makeOrderEvent().subject
  return changes.map(({ status }, index) => {
    const updated_at = new Date(Date.parse(at) + index * hours * 3_600_000).toISOString()
    const history = changes.slice(0, index + 1)
    return makeOrderEvent({ order: { ...order, id, version: index + 1, status, status_history: history, created_at: at, updated_at } })
  })
}

const placed = change('pending', 'customer', null)
const shipped = [placed, change('confirmed', 'admin', null), change('shipped', 'admin', null)]
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
].flat()

const EXPECTED: Record<string, unknown[][]> = {
  'Sales by day of the shop': [
    ['2026-03-02', 'EUR', '2', '35.510'],
    ['2026-03-02', 'JPY', '1', '1200.000'],
  ],
  'Sales by category': [
    ['garden', 'EUR', '1', '5.500'],
    ['kitchen', 'EUR', '3', '30.010'],
    ['unknown', 'JPY', '3', '1200.000'],
  ],
  'Orders by country': [
    ['AT', '2', '1'],
    ['DE', '1', '1'],
    ['none', '1', '1'],
  ],
  'Cancellations by cause': [['admin', 'sold out', '1']],
  'From the order to the parcel': [['2', 18, 22.8]],
  'Customers who came again': [
    ['1', '1'],
    ['2', '1'],
  ],
  "One order's life": [
    [1, 'pending', 'customer', null, '2026-03-01T23:30:00.000Z'],
    [2, 'confirmed', 'admin', null, '2026-03-02T11:30:00.000Z'],
    [3, 'shipped', 'admin', null, '2026-03-02T23:30:00.000Z'],
  ],
}

test('each query of docs/lake-queries.md answers what it says', async (t) => {
  assert.deepEqual([...queries.keys()], Object.keys(EXPECTED))
  const directory = await makeLakeDirectory(t)
  for (const [title, sql] of queries)
    assert.deepEqual((await queryFolder(directory, sql)).rows.flat().filter(Number), [], `${title}, empty`)
  const sink = await startSink(t, directory)
  await sink.handle(
    events.map((event, index) => ({ sequence: index + 1, event })),
    NEVER,
  )
  await sink.flush()
  for (const [title, sql] of queries) assert.deepEqual((await queryFolder(directory, sql)).rows, EXPECTED[title], title)
})
