import assert from 'node:assert/strict'
import { test } from 'node:test'
import { anOrder, moveOrdersIn, startMoved } from '../../test/move-in-harness.ts'

test("new orders get numbers above the file's, and a number of an order placed here is refused", async (t) => {
  const store = await startMoved(t)
  const ada = await store.register()
  const lamp = await store.addProduct()
  const place = async () => {
    const placed = await ada.ok('POST', '/orders', { body: { items: [{ product_id: lamp.id, quantity: 1 }] } })
    return Number(placed.number)
  }
  const own = await place()
  const result = await moveOrdersIn(store, [anOrder(own), anOrder(own + 1), anOrder(own + 5_000)])
  assert.deepEqual(result.problems, [`1: number ${own} belongs to another order of the store`])
  assert.equal(result.outcomes.created, 2)
  assert.ok((await place()) > own + 5_000)
})

test('numbers of refused lines do not count, whatever the reason', async (t) => {
  const store = await startMoved(t)
  const [ada, lamp] = [await store.register(), await store.addProduct()]
  const huge = 900_000_000_000_000
  const result = await moveOrdersIn(store, [
    anOrder(1, { reference: 'A-1' }),
    anOrder(huge, { customer: { external_id: 'nobody' } }),
    anOrder(huge + 1, { external_id: 'gid-1' }),
    anOrder(huge + 2, { note: 'a\u0000' }),
    anOrder(huge + 3, { lines: [{ sku: 'a', name: '\ud800', unit_price: 2_500, quantity: 1 }] }),
    anOrder(huge + 4, { reference: 'A-1' }),
  ])
  assert.equal(result.outcomes.created, 1)
  const again = await moveOrdersIn(store, [anOrder(huge + 5, { reference: 'A-1', customer: { email: 'ada@example.com' } })])
  assert.deepEqual(
    [...result.problems.toSorted(), ...again.problems].map((problem) => problem.split(':').slice(0, 2).join(':')),
    [
      '2: there is no such customer',
      '3: external_id was already on line 1',
      '4: note must be well-formed Unicode without NUL',
      '5: lines.0.name must be well-formed Unicode without NUL',
      '6: reference was already on line 1, of the same customer',
      '1: reference belongs to another order of the customer',
    ],
  )
  const placed = await ada.call('POST', '/orders', { body: { items: [{ product_id: lamp.id, quantity: 1 }] } })
  assert.ok(Number(placed.json.number) < 1_000_000, `the next order has number ${placed.json.number}`)
})

test('numbers are reserved up to 15 digits, and orders can still be placed above them', async (t) => {
  const store = await startMoved(t)
  const [ada, lamp] = [await store.register(), await store.addProduct()]
  const greatest = 999_999_999_999_999
  assert.deepEqual((await moveOrdersIn(store, [anOrder(greatest)])).problems, [])
  const placed = await ada.call('POST', '/orders', { body: { items: [{ product_id: lamp.id, quantity: 1 }] } })
  assert.deepEqual([placed.status, placed.json.number], [201, String(greatest + 1_001)])
})
