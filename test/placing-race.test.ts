import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { addBuyer, addBuyers, networkOf } from './buyers.ts'
import { onCleanup } from './cleanup.ts'
import { startStore } from './store.ts'

const BUYERS = 1_000

function countBy(statuses: readonly number[]): Record<string, number> {
  return Object.fromEntries([...Map.groupBy(statuses, (status) => String(status))].map(([status, same]) => [status, same.length]))
}

type Post = ReturnType<typeof networkOf>['post']

/** Retries with the same key after a 503, as a client should. */
async function order(post: Post, token: string, items: object[]): Promise<Awaited<ReturnType<Post>>> {
  const headers = { 'idempotency-key': randomUUID() }
  while (true) {
    const answer = await post('/orders', token, { items }, headers)
    if (answer.status !== 503) return answer
  }
}

test('sells 100 units to exactly 100 of 1,000 buyers who come at once', async (t) => {
  const store = await startStore(t)
  const network = networkOf(store)
  onCleanup(t, network.close)
  const [buyers, ticket] = [await addBuyers(store, BUYERS), await store.addProduct({ stock: 100 })]
  const answers = await Promise.all(buyers.map((buyer) => order(network.post, buyer.token, [{ product_id: ticket.id, quantity: 1 }])))
  assert.deepEqual(countBy(answers.map(({ status }) => status)), { 201: 100, 409: 900 })
  const refused = answers.filter(({ status }) => status === 409).map(({ text }) => JSON.parse(text))
  assert.ok(refused.every(({ code, shortages }) => code === 'insufficient_stock' && shortages[0].available === 0))
  assert.deepEqual(await store.readStock(ticket), [0])
  const { rows } = await store.pool.query(
    `select count(*) as orders, count(distinct user_id) as buyers, count(distinct number) as numbers, count(distinct xmin::text) < 100 as together
    from orders`,
  )
  assert.deepEqual(rows, [{ orders: 100, buyers: 100, numbers: 100, together: true }])
})

test('serves 1,000 baskets that name two scarce products in opposite order, from two processes', async (t) => {
  const store = await startStore(t)
  const second = await startStore(t, { databaseAddresses: store.config.databaseAddresses })
  const networks = [networkOf(store), networkOf(second)]
  for (const network of networks) onCleanup(t, network.close)
  const buyers = await addBuyers(store, BUYERS)
  const [left, right] = [await store.addProduct({ stock: 100 }), await store.addProduct({ stock: 300 })]
  const both = [
    { product_id: left.id, quantity: 1 },
    { product_id: right.id, quantity: 2 },
  ]
  const answers = await Promise.all(
    buyers.map((buyer, i) => order((networks[i % 2] ?? assert.fail()).post, buyer.token, i % 4 < 2 ? both : both.toReversed())),
  )
  assert.deepEqual(countBy(answers.map(({ status }) => status)), { 201: 100, 409: 900 })
  assert.deepEqual(await store.readStock(left, right), [0, 100])
  const { rows } = await store.pool.query('select count(*) as orders from orders')
  assert.deepEqual(rows, [{ orders: 100 }])
  const { rows: deadlocks } = await store.pool.query('select deadlocks from pg_stat_database where datname = current_database()')
  assert.deepEqual(deadlocks, [{ deadlocks: 0 }])
})

test('places one order for one key from 100 connections at once, and answers each of them alike', async (t) => {
  const store = await startStore(t)
  const network = networkOf(store)
  onCleanup(t, network.close)
  const [buyer, lamp] = [await addBuyer(store), await store.addProduct({ stock: 500 })]
  const body = { items: [{ product_id: lamp.id, quantity: 1 }] }
  const answers = await Promise.all(
    Array.from({ length: 100 }, () => network.post('/orders', buyer.token, body, { 'idempotency-key': '"one of a kind"' })),
  )
  assert.deepEqual(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size, 1)
  assert.equal(answers[0]?.status, 201)
  assert.equal(answers.filter(({ headers }) => headers['idempotency-replayed'] === 'true').length, 99)
  assert.deepEqual(await store.readStock(lamp), [499])
})
