import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { assertProblem, faults } from '../../../test/problem.ts'
import { startStore } from '../../../test/store.ts'

const store = await startStore({ after })
const ada = await store.register()

const line = (product: { id: string }, quantity = 1) => ({ product_id: product.id, quantity })
const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  store.call('POST', path, { token: ada.token, body, headers })

/** Adds a product of 12.50 EUR with prices in other currencies. */
async function addProduct(prices: object, stock: number | null = 100) {
  const product = await store.addProduct({ stock })
  await store.pool.query('update products set prices = $2 where id = $1', [product.id, prices])
  return product
}

test("an order has the currency that it names, or else that of the products' own prices", async () => {
  const [lamp, vase] = [
    await addProduct({ USD: { amount: 1_500 } }),
    await addProduct({ USD: { amount: 3, compare_at: 9 }, JPY: { amount: 2 } }),
  ]
  const body = { items: [line(lamp, 2), line(vase, 3)] }
  const dollars = { amount: 3_009, currency: 'USD' }
  const quote = await post('/orders/quote', { ...body, currency: 'USD' })
  assert.deepEqual(quote.json.total, dollars)
  const placed = await post('/orders', { ...body, currency: 'USD', expected_total: dollars })
  assert.equal(placed.status, 201, placed.text)
  assert.deepEqual(placed.json.total, dollars)
  assert.deepEqual(
    placed.json.items.map(({ unit_price }: { unit_price: object }) => unit_price),
    [
      { amount: 1_500, currency: 'USD' },
      { amount: 3, currency: 'USD' },
    ],
  )
  assert.deepEqual((await post('/orders', { ...body, currency: 'EUR' })).json.total, { amount: 6_250, currency: 'EUR' })
  assert.deepEqual((await post('/orders', body)).json.total, { amount: 6_250, currency: 'EUR' })
  assertProblem(await post('/orders', { ...body, currency: 'EUR', expected_total: dollars }), 409, 'price_changed')
})

test('refuses every line without a price in the currency, and reserves nothing', async () => {
  const [lamp, vase, cup] = [
    await addProduct({ USD: { amount: 1 } }, 5),
    await addProduct({}, 5),
    await addProduct({ CHF: { amount: 1 } }, 5),
  ]
  const items = [line(vase), line(lamp), { ...line(cup), product_id: cup.id.toUpperCase() }, line(vase)]
  for (const path of ['/orders', '/orders/quote']) {
    const problem = assertProblem(await post(path, { items, currency: 'USD' }), 422, 'currency_not_available')
    assert.deepEqual(faults(problem), ['#/items/0/product_id', '#/items/2/product_id', '#/items/3/product_id'])
    assertProblem(await post(path, { items, currency: 'XXY' }), 422, 'currency_not_available')
    for (const currency of ['usd', 'USDX', 1, null, '\0\0\0']) assertProblem(await post(path, { items, currency }), 422, 'invalid_body')
    assertProblem(await post(path, { items: [...items, line({ id: randomUUID() })], currency: 'USD' }), 422, 'unknown_product')
  }
  assert.deepEqual(await store.readStock(lamp, vase, cup), [5, 5, 5])
})

test("a price in another currency applies as soon as it is committed, like the product's own price", async () => {
  const lamp = await addProduct({ USD: { amount: 10 } })
  const total = async () => (await post('/orders', { items: [line(lamp)], currency: 'USD' })).json.total?.amount
  assert.equal(await total(), 10)
  for (const amount of [11, 12, 13]) {
    await store.pool.query('update products set prices = $2 where id = $1', [lamp.id, { USD: { amount } }])
    // The process has cached the previous price. Committing the order finds the catalogue's new version.
    assert.equal(await total(), amount)
  }
  await store.pool.query(`update products set prices = '{}' where id = $1`, [lamp.id])
  assertProblem(await post('/orders', { items: [line(lamp)], currency: 'USD' }), 422, 'currency_not_available')
})

test('refuses a key that was used in another currency', async () => {
  const lamp = await addProduct({ USD: { amount: 10 } })
  const headers = { 'idempotency-key': randomUUID() }
  const placed = await post('/orders', { items: [line(lamp)], currency: 'USD' }, headers)
  assert.deepEqual((await post('/orders', { items: [line(lamp)], currency: 'USD' }, headers)).json, placed.json)
  assertProblem(await post('/orders', { items: [line(lamp)] }, headers), 422, 'idempotency_key_reused')
})
