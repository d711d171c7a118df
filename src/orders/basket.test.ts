import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { assertProblem, faults } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'

const store = await startStore({ after })
const ada = await store.register()

const line = (product: { id: string }, quantity = 1) => ({ product_id: product.id, quantity })
const order = (items: object[], more: object = {}) => store.call('POST', '/orders', { token: ada.token, body: { items, ...more } })

test('names all faults of the lines in one answer', async () => {
  const [few, plenty] = [await store.addProduct({ stock: 2 }), await store.addProduct()]
  const unknown = randomUUID()
  const problem = assertProblem(await order([line(few, 3), line({ id: unknown }), line(plenty)]), 422, 'unknown_product')
  assert.deepEqual(faults(problem), ['#/items/1/product_id', '#/items/0/quantity'])
  assert.deepEqual(problem.shortages, [{ product_id: few.id, requested: 3, available: 2 }])
})

test('refuses an order whose total is not the one the customer saw, and says the current total', async () => {
  const lamp = await store.addProduct({ amount: 500, stock: 10 })
  const shown = { expected_total: { amount: 1_000, currency: 'EUR' } }
  assert.equal((await order([line(lamp, 2)], shown)).status, 201)
  await store.pool.query('update products set price_amount = 600 where id = $1', [lamp.id])
  const problem = assertProblem(await order([line(lamp, 2)], shown), 409, 'price_changed')
  assert.equal(problem.detail, 'The total is 12.00 EUR now.')
  assert.deepEqual(
    [problem.total, problem.items[0].unit_price],
    [
      { amount: 1_200, currency: 'EUR' },
      { amount: 600, currency: 'EUR' },
    ],
  )
  assertProblem(await order([line(lamp, 2)], { expected_total: { amount: 1_200, currency: 'USD' } }), 409, 'price_changed')
  assert.deepEqual(await store.readStock(lamp), [8])
})

test('quotes a basket, and reserves and stores nothing', async () => {
  const [lamp, vase] = [await store.addProduct({ amount: 500, stock: 3 }), await store.addProduct({ amount: 100, stock: 1 })]
  const quote = (items: object[], token: string | undefined = ada.token) =>
    store.call('POST', '/orders/quote', { body: { items }, ...(token === undefined ? {} : { token }) })
  const good = await quote([line(lamp, 2), line(vase), line(lamp)])
  assert.equal(good.status, 200, good.text)
  assert.deepEqual([good.json.total, good.json.is_available, good.json.shortages], [{ amount: 1_600, currency: 'EUR' }, true, []])
  assert.deepEqual(
    good.json.items.map((item: { quantity: number }) => item.quantity),
    [3, 1],
  )
  const short = await quote([line(vase, 2)])
  assert.deepEqual([short.json.is_available, short.json.shortages], [false, [{ product_id: vase.id, requested: 2, available: 1 }]])
  const many = await store.addProduct({ stock: 69 })
  const shortages = [{ product_id: many.id, requested: 10_000, available: 20 }]
  assert.deepEqual((await quote([line(many, 10_000)])).json.shortages, shortages)
  assert.deepEqual(assertProblem(await order([line(many, 10_000)]), 409, 'insufficient_stock').shortages, shortages)
  assertProblem(await quote([line({ id: randomUUID() })]), 422, 'unknown_product')
  assertProblem(await quote([]), 422, 'invalid_body')
  assertProblem(await store.call('POST', '/orders/quote', { body: { items: [line(lamp)] } }), 401, 'unauthenticated')
  assert.deepEqual(await store.readStock(lamp, vase), [3, 1])
})
