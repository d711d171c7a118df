import assert from 'node:assert/strict'
import { test } from 'node:test'
import { aCustomer, anOrder, moveCustomersIn, moveOrdersIn, startMoved } from '../../test/move-in-harness.ts'

test('an order whose number has no unique digits gets a number, keeps the text as its reference, and a second run changes nothing', async (t) => {
  const store = await startMoved(t)
  const file = [anOrder(1002, { number: '#1002' }), ...['#1002-A', 'INV-2025-1009', '1011-A'].map((number, at) => anOrder(at, { number }))]
  const first = await moveOrdersIn(store, file)
  assert.deepEqual([first.problems, first.outcomes.created, first.isEqual], [[], 4, true])
  const { rows } = await store.pool.query<{ number: number; client_reference: string }>(
    'select number, client_reference from orders order by number',
  )
  assert.deepEqual(
    rows.map(({ client_reference }) => client_reference),
    ['#1002', '#1002-A', 'INV-2025-1009', '1011-A'],
  )
  assert.equal(rows[0]?.number, 1002)
  assert.ok(rows.slice(1).every(({ number }) => number > 100_000))
  const again = await moveOrdersIn(store, file)
  assert.deepEqual([again.outcomes.unchanged, again.outcomes.created, again.problems], [4, 0, []])
})

test('a guest who ordered by phone has no address, and gets no mail', async (t) => {
  const store = await startMoved(t)
  const phone = { external_id: 'guest-of-order:1', name: 'Ada', guest: true }
  const { email: _, ...account } = aCustomer('zoe')
  const moved = await moveCustomersIn(store, [phone, { ...phone, external_id: 'guest-of-order:2' }, account])
  assert.deepEqual([moved.outcomes.created, moved.problems], [2, ['3: email is missing; only a guest has none']])
  const orders = await moveOrdersIn(store, [anOrder(1, { customer: { external_id: phone.external_id } })])
  assert.deepEqual(orders.problems, [])
  const { rows } = await store.pool.query<{ email: string }>(`select email from users where role = 'guest'`)
  assert.ok(rows.every(({ email }) => email.endsWith('@no-address.invalid')))
})

test("the proof compares with the other shop's text: other decimals are refused and show in the sums", async (t) => {
  const store = await startMoved(t)
  const line = { sku: 'A', name: 'A', quantity: 1 }
  const order = (number: number, currency: string, amount: number, source_total: string) =>
    anOrder(number, { currency, lines: [{ ...line, unit_price: amount }], total: amount, source_total })
  const file = [
    order(1, 'PYG', 15_000_000, '150000'),
    order(2, 'UGX', 50_000, '50000.0'),
    order(3, 'KWD', 1_299, '1.299'),
    order(4, 'KWD', 130, '1.299'),
    order(5, 'EUR', 3_315, '33.1485'),
    order(6, 'EUR', 3_315, '33,15'),
  ]
  const moved = await moveOrdersIn(store, file)
  assert.deepEqual(
    moved.problems.map((problem) => problem.slice(0, 2)),
    ['1:', '4:', '6:'],
  )
  assert.match(moved.problems[0] ?? '', /15000000 minor units, which are 15000000 PYG here, and the other shop has 150000/)
  assert.equal(moved.isEqual, false)
  assert.deepEqual([moved.source.of('PYG delivered').amount, moved.store.of('PYG delivered').amount], [150_000n, 0n])
  assert.deepEqual([moved.source.of('KWD delivered').amount, moved.store.of('KWD delivered').amount], [2_598n, 1_299n])
  assert.deepEqual(moved.source.of('UGX delivered'), moved.store.of('UGX delivered'))
})
