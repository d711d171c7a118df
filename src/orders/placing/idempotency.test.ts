import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { assertProblem, faults } from '../../../test/problem.ts'
import { type Account, startStore } from '../../../test/store.ts'

const store = await startStore({ after })
const [ada, bob] = [await store.register(), await store.register()]

const order = (product: { id: string }, key: string, { quantity = 1, by = ada }: { quantity?: number; by?: Account } = {}) =>
  store.call('POST', '/orders', {
    token: by.token,
    body: { items: [{ product_id: product.id, quantity }] },
    headers: { 'idempotency-key': key },
  })

/** Counts the orders, the keys and the available units of the product. */
async function read(product: { id: string }) {
  const { rows } = await store.pool.query<{ orders: number; keys: number; available: number }>(
    `select
      (select count(*) from orders where product_ids @> array[$1::uuid]) as orders,
      (select count(*) from idempotency_keys join orders on id = order_id where product_ids @> array[$1::uuid]) as keys,
      available
    from inventory
    where product_id = $1`,
    [product.id],
  )
  return rows[0]
}

test('answers a retry with the same bytes and places one order', async () => {
  const lamp = await store.addProduct({ stock: 5, name: 'L\u00e1mp "\u{1f986}"' })
  const first = await order(lamp, 'retry')
  assert.equal(first.status, 201, first.text)
  assert.equal(first.headers['idempotency-replayed'], undefined)
  await store.pool.query(`update products set name = 'other', price_amount = 1 where id = $1`, [lamp.id])
  await store.call('POST', `/orders/${first.json.id}/cancel`, { token: ada.token })

  const retry = await order(lamp, 'retry')
  assert.equal(retry.status, 201)
  assert.equal(retry.text, first.text)
  assert.equal(retry.headers['idempotency-replayed'], 'true')
  for (const header of ['location', 'content-type', 'cache-control']) assert.equal(retry.headers[header], first.headers[header])
  assert.deepEqual(await read(lamp), { orders: 1, keys: 1, available: 5 })
})

test('answers with the same bytes that an earlier version of the store has stored', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  const first = await order(lamp, 'long ago')
  const kept = JSON.stringify({ ...first.json, items: [] })
  await store.pool.query('update idempotency_keys set response = $2 where order_id = $1', [first.json.id, kept])
  assert.equal((await order(lamp, 'long ago')).text, first.text)
})

test('places two orders for the same body without a key or with another key', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  await order(lamp, 'one')
  await order(lamp, 'two')
  const body = { items: [{ product_id: lamp.id, quantity: 1 }] }
  for (let i = 0; i < 2; i++) assert.equal((await store.call('POST', '/orders', { token: ada.token, body })).status, 201)
  assert.deepEqual(await read(lamp), { orders: 4, keys: 2, available: 1 })
})

test('treats a quoted key and the bare key as the same', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  const first = await order(lamp, '"quo ted"')
  for (const key of ['quo ted', '"quo ted"', ' quo ted ']) assert.equal((await order(lamp, key)).text, first.text, key)
  assert.deepEqual(await read(lamp), { orders: 1, keys: 1, available: 4 })
})

test('refuses a key that was used with another body', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  await order(lamp, 'other body')
  assertProblem(await order(lamp, 'other body', { quantity: 2 }), 422, 'idempotency_key_reused')
  assert.deepEqual(await read(lamp), { orders: 1, keys: 1, available: 4 })
})

test('refuses a key whose order was deleted by hand and places nothing, and another key places the order', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  const first = await order(lamp, 'deleted')
  await store.pool.query('delete from orders where id = $1', [first.json.id])
  const again = assertProblem(await order(lamp, 'deleted'), 422, 'idempotency_key_reused')
  assert.match(again.detail, /was deleted/)
  assert.equal((await order(lamp, 'a new one')).status, 201)
  assert.deepEqual(await store.readStock(lamp), [3])
})

test('places one order for twenty requests with the same key at once', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  const key = randomUUID()
  const answers = await Promise.all(Array.from({ length: 20 }, () => order(lamp, key)))
  assert.deepEqual(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1)
  assert.equal(answers[0]?.status, 201)
  assert.equal(answers.filter(({ headers }) => headers['idempotency-replayed'] === 'true').length, 19)
  assert.deepEqual(await read(lamp), { orders: 1, keys: 1, available: 4 })
})

test('accepts one of two bodies that come with the same key at once', async () => {
  const lamp = await store.addProduct({ stock: 50 })
  const answers = await Promise.all(Array.from({ length: 10 }, (_, i) => order(lamp, 'two bodies', { quantity: 1 + (i % 2) })))
  assert.deepEqual(answers.map(({ status }) => status).sort(), [...Array(5).fill(201), ...Array(5).fill(422)])
  assert.equal((await read(lamp))?.orders, 1)
})

test('separates the keys of different customers', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  const [mine, theirs] = [await order(lamp, 'shared'), await order(lamp, 'shared', { by: bob })]
  assert.equal(theirs.status, 201)
  assert.notEqual(theirs.json.id, mine.json.id)
  assert.equal(theirs.headers['idempotency-replayed'], undefined)
  assert.equal((await order(lamp, 'shared', { by: bob, quantity: 2 })).status, 422)
  assert.deepEqual(await read(lamp), { orders: 2, keys: 2, available: 3 })
})

test('stores no refusal: the same key places the order as soon as it can be placed', async () => {
  const lamp = await store.addProduct({ stock: 0 })
  assertProblem(await order(lamp, 'refused'), 409, 'insufficient_stock')
  assertProblem(await order({ id: randomUUID() }, 'refused'), 422, 'unknown_product')
  assert.deepEqual(await read(lamp), { orders: 0, keys: 0, available: 0 })
  await store.pool.query('update inventory set available = 1 where product_id = $1', [lamp.id])
  const placed = await order(lamp, 'refused')
  assert.equal(placed.status, 201)
  assert.equal(placed.headers['idempotency-replayed'], undefined)
})

test('refuses keys that are empty, too long or not printable ASCII', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  for (const key of ['', ' ', '""', 'x'.repeat(256), 'caf\u00e9', 'a\tb', 'a\u007fb']) {
    const problem = assertProblem(await order(lamp, key), 400, 'invalid_header', JSON.stringify(key))
    assert.deepEqual(faults(problem), ['Idempotency-Key'])
  }
  assert.deepEqual(await read(lamp), { orders: 0, keys: 0, available: 5 })
  assert.equal((await order(lamp, 'x'.repeat(255))).status, 201)
})

test('forgets a key after 24 hours, and then places a new order for it', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  const age = (interval: string) =>
    store.pool.query(`update idempotency_keys set created_at = now() - $1::interval where key = 'old'`, [interval])
  const first = await order(lamp, 'old')
  await age('23 hours 59 minutes')
  assert.equal((await order(lamp, 'old')).json.id, first.json.id)
  await age('24 hours 1 second')
  const second = await order(lamp, 'old', { quantity: 2 })
  assert.equal(second.status, 201, second.text)
  assert.equal(second.headers['idempotency-replayed'], undefined)
  const replay = await order(lamp, 'old', { quantity: 2 })
  assert.equal(replay.text, second.text)
  const { rows } = await store.pool.query(`select order_id from idempotency_keys where key = 'old'`)
  assert.deepEqual(rows, [{ order_id: second.json.id }])
  assert.deepEqual(await read(lamp), { orders: 2, keys: 1, available: 2 })
})
