import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createCatalogueOperator } from '../../test/catalogue-operator.ts'
import { startStore } from '../../test/store.ts'
import { saveStockEventPercent } from './product-events.ts'

const store = await startStore({ after })
const operator = await createCatalogueOperator(store)
const { call, create, setStock } = operator
const eventsOf = (id: string) => operator.eventsOf(id, 'stock')
const typesOf = (id: string) => operator.typesOf(id, 'stock')
const importStock = async (sku: string, stock: number) => {
  const raw = JSON.stringify({ sku, name: 'A lamp', category: 'lamps', price: { amount: 5, currency: 'EUR' }, stock })
  const { status } = await call('POST', '/admin/products/import', { raw, headers: { 'content-type': 'application/x-ndjson' } })
  assert.equal(status, 200)
}

test('stock events are recorded when stock reaches zero and when it is available again', async () => {
  const { id, sku } = await create({ stock: 2 })
  const buyer = await store.register()
  const order = await store.call('POST', '/orders', { token: buyer.token, body: { items: [{ product_id: id, quantity: 1 }] } })
  assert.deepEqual(await typesOf(id), [])
  const last = await store.call('POST', '/orders', { token: buyer.token, body: { items: [{ product_id: id, quantity: 1 }] } })
  assert.deepEqual([order.status, last.status], [201, 201])
  await store.call('POST', `/orders/${last.json.id}/cancel`, { token: buyer.token })
  await setStock(id, 0)
  await setStock(id, null)
  await setStock(id, 7)
  assert.deepEqual(await typesOf(id), [...['3 stock.depleted', '4 stock.replenished', '5 stock.depleted', '6 stock.replenished']])
  const [depleted, , , untracked] = await eventsOf(id)
  assert.deepEqual(depleted.data, { product_id: id, sku, available: 0, previous_available: 1 })
  assert.deepEqual(untracked.data, { product_id: id, sku, available: null, previous_available: 0 })
})

test('a new product without a unit is recorded as sold out', async () => {
  const { id, sku } = await create({ stock: 0 })
  const [event] = await eventsOf(id)
  assert.deepEqual(
    [event.version, event.type, event.data],
    [1, 'stock.depleted', { product_id: id, sku, available: 0, previous_available: null }],
  )
})

const buy = async (id: string, quantity: number) => {
  const buyer = await store.register()
  const { status } = await store.call('POST', '/orders', { token: buyer.token, body: { items: [{ product_id: id, quantity }] } })
  assert.equal(status, 201)
}
const levelsOf = async (id: string) =>
  (await eventsOf(id)).map(({ type, data }) => `${type.replace('stock.', '')} ${data.previous_available} ${data.available}`)

test('a stock level event is recorded each time the level has moved by the set percentage', async (t) => {
  t.after(() => saveStockEventPercent(store.pool, 0))
  await saveStockEventPercent(store.pool, 25)
  const { id, sku } = await create({ stock: 10 })
  // Two of ten units are less than a quarter.
  for (let unit = 1; unit <= 7; unit++) await buy(id, 1)
  assert.deepEqual(await levelsOf(id), ['level_changed 8 7', 'level_changed 5 4'])
  await setStock(id, 100)
  await buy(id, 3)
  await buy(id, 21)
  assert.deepEqual((await levelsOf(id)).slice(2), ['level_changed 3 100'])
  await buy(id, 1)
  assert.deepEqual((await levelsOf(id)).slice(3), ['level_changed 76 75'])
  // Another system that sets what is left after each sale hides nothing.
  await setStock(id, 70)
  await importStock(sku, 61)
  await setStock(id, 58)
  assert.deepEqual((await levelsOf(id)).slice(4), ['level_changed 61 58'])
  await buy(id, 58)
  await setStock(id, 40)
  await buy(id, 9)
  await buy(id, 1)
  assert.deepEqual((await levelsOf(id)).slice(5), ['depleted 58 0', 'replenished 0 40', 'level_changed 31 30'])
})

test('turning the percentage for stock level events on or off records no event by itself', async (t) => {
  t.after(() => saveStockEventPercent(store.pool, 0))
  const before = await create({ stock: 100 })
  await saveStockEventPercent(store.pool, 10)
  const { id } = await create({ stock: 100 })
  await buy(before.id, 60)
  await setStock(before.id, 39)
  await buy(id, 10)
  await saveStockEventPercent(store.pool, 0)
  await buy(id, 40)
  await saveStockEventPercent(store.pool, 10)
  await buy(id, 20)
  await buy(id, 30)
  assert.deepEqual([await levelsOf(before.id), await levelsOf(id)], [[], ['level_changed 100 90', 'depleted 30 0']])
})
