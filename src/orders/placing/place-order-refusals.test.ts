import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { eventually } from '../../../test/eventually.ts'
import { assertProblem, faults } from '../../../test/problem.ts'
import { startStore } from '../../../test/store.ts'

const store = await startStore({ after })
const [ada, bob] = [await store.register(), await store.register()]

interface Line {
  product_id: string
  quantity: number
}
const order = (items: Line[], more: object = {}, token = ada.token) => store.call('POST', '/orders', { token, body: { items, ...more } })
const line = (product: { id: string }, quantity = 1): Line => ({ product_id: product.id, quantity })

async function countOrders(): Promise<number> {
  const { rows } = await store.pool.query<{ count: number }>('select count(*) from orders')
  return rows[0]?.count ?? -1
}

test('points to every line of a product that does not exist', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  const before = await countOrders()
  const unknown = randomUUID()
  const answer = await order([line({ id: unknown }), line(lamp), line({ id: unknown.toUpperCase() }), line({ id: randomUUID() })])
  assert.deepEqual(faults(assertProblem(answer, 422, 'unknown_product')), [
    '#/items/0/product_id',
    '#/items/2/product_id',
    '#/items/3/product_id',
  ])
  assert.equal(await countOrders(), before)
  assert.deepEqual(await store.readStock(lamp), [5])
})

test('lists every short line with the available units, and reserves nothing', async () => {
  const [plenty, few, none, untracked] = [
    await store.addProduct({ stock: 50 }),
    await store.addProduct({ stock: 3 }),
    await store.addProduct({ stock: 0 }),
    await store.addProduct({ stock: null }),
  ]
  const before = await countOrders()
  const answer = await order([line(untracked, 9), line(few, 2), line(plenty, 5), line(none), line({ id: few.id.toUpperCase() }, 2)])
  const problem = assertProblem(answer, 409, 'insufficient_stock')
  assert.deepEqual(problem.shortages, [
    { product_id: few.id, requested: 4, available: 3 },
    { product_id: none.id, requested: 1, available: 0 },
  ])
  assert.deepEqual(faults(problem), ['#/items/1/quantity', '#/items/3/quantity'])
  assert.equal(await countOrders(), before)
  assert.deepEqual(await store.readStock(plenty, few, none, untracked), [50, 3, 0, null])
})

test('shows a product as sold out as soon as its last unit is ordered', async () => {
  const lamp = await store.addProduct({ stock: 2 })
  const isInStock = async () => (await store.call('GET', `/products/${lamp.id}`)).json.in_stock
  await order([line(lamp)])
  assert.equal(await isInStock(), true)
  await order([line(lamp)])
  await eventually(async () => !(await isInStock()), { what: 'the product is shown as sold out' })
  assertProblem(await order([line(lamp)]), 409, 'insufficient_stock')
})

test('sells the last ten units to exactly ten of fifty orders at once', async () => {
  const lamp = await store.addProduct({ stock: 10 })
  const before = await countOrders()
  const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => order([line(lamp)], {}, i % 2 === 0 ? ada.token : bob.token)))
  assert.equal(answers.filter(({ status }) => status === 201).length, 10)
  for (const answer of answers.filter(({ status }) => status !== 201)) assertProblem(answer, 409, 'insufficient_stock')
  assert.equal((await countOrders()) - before, 10)
  assert.deepEqual(await store.readStock(lamp), [0])
})

test('accepts baskets that name the same products in opposite sequence at once', async () => {
  const products = await Promise.all(Array.from({ length: 12 }, () => store.addProduct({ stock: 1_000 })))
  const basket = products.map((product) => line(product))
  const answers = await Promise.all(Array.from({ length: 40 }, (_, i) => order(i % 2 === 0 ? basket : basket.toReversed())))
  assert.deepEqual(
    answers.map(({ status }) => status),
    Array(40).fill(201),
  )
  assert.deepEqual(await store.readStock(...products), Array(12).fill(960))
})

test('refuses products of several currencies in one order', async () => {
  const [euro, yen] = [await store.addProduct({ stock: 1 }), await store.addProduct({ stock: 1, currency: 'JPY' })]
  const before = await countOrders()
  assertProblem(await order([line(euro), line(yen)]), 422, 'mixed_currencies')
  assert.equal(await countOrders(), before)
  assert.deepEqual(await store.readStock(euro, yen), [1, 1])
  assert.deepEqual((await order([line(yen)])).json.total, { amount: 1_250, currency: 'JPY' })
})

test('refuses a total that a JSON number cannot hold exactly', async () => {
  const most = await store.addProduct({ stock: 9, amount: Number.MAX_SAFE_INTEGER })
  const cent = await store.addProduct({ stock: 9, amount: 1 })
  const before = await countOrders()
  assertProblem(await order([line(most, 2)]), 422, 'total_too_large')
  assertProblem(await order([line(most), line(cent)]), 422, 'total_too_large')
  assert.equal(await countOrders(), before)
  assert.deepEqual(await store.readStock(most, cent), [9, 9])
  const placed = await order([line(most)])
  assert.equal(placed.status, 201, placed.text)
  assert.match(placed.text, /"total":\{"amount":9007199254740991,/)
})

test("accepts a customer's client reference once, and returns the stock of the second order", async () => {
  const lamp = await store.addProduct({ stock: 5 })
  const more = { client_reference: 'PO-1' }
  assert.equal((await order([line(lamp)], more)).status, 201)
  assertProblem(await order([line(lamp)], more), 409, 'client_reference_taken')
  assert.equal((await order([line(lamp)], more, bob.token)).status, 201, 'another customer has references of his own')
  assert.deepEqual(await store.readStock(lamp), [3])

  const rivals = await Promise.all(Array.from({ length: 5 }, () => order([line(lamp)], { client_reference: 'PO-2' })))
  assert.deepEqual(rivals.map(({ status }) => status).sort(), [201, 409, 409, 409, 409])
  assert.deepEqual(await store.readStock(lamp), [2])
})
