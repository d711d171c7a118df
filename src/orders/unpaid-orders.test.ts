import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'

const store = await startStore({ after })
const [ada, bob, { token }] = [await store.register(), await store.register(), await addBuyer(store, 'admin')]
const lamp = await store.addProduct({ stock: 1_000 })

async function place(by = ada): Promise<string> {
  const body = { items: [{ product_id: lamp.id, quantity: 1 }] }
  const { status, json, text } = await store.call('POST', '/orders', { token: by.token, body })
  assert.equal(status, 201, text)
  return json.id
}
const move = (id: string, to: string) => store.call('POST', `/admin/orders/${id}/transitions`, { token, body: { to } })
const pay = async (id: string, state: string, reference = 'p1') => {
  const body = { provider: 'bank', reference, state }
  assert.equal((await store.call('PUT', `/admin/orders/${id}/payment`, { token, body })).status, 200)
}
const unpaid = async (filter = ''): Promise<string[]> => {
  const { status, json, text } = await store.call('GET', `/admin/orders?unpaid=true${filter}`, { token })
  assert.equal(status, 200, text)
  return json.data.map(({ id }: { id: string }) => id)
}

test('lists the orders that wait for their payment', async () => {
  const [first, second, third, fourth] = [await place(), await place(bob), await place(), await place(bob)]
  await move(second, 'confirmed')
  assert.deepEqual(await unpaid(), [fourth, third, second, first])
  await pay(first, 'pending')
  await pay(second, 'failed')
  await pay(third, 'authorized')
  assert.deepEqual(await unpaid(), [fourth, second, first], 'a payment that is only announced or has failed pays nothing')
  await pay(second, 'paid', 'p2')
  assert.deepEqual(await unpaid(), [fourth, first])
  await pay(second, 'refunded', 'p2')
  assert.deepEqual(await unpaid(), [fourth, second, first])
  await move(fourth, 'cancelled')
  assert.deepEqual(await unpaid(), [second, first])
  assert.deepEqual(await unpaid(`&user_id=${bob.id}`), [second])
  assert.deepEqual(await unpaid('&status=pending'), [first])
  assert.deepEqual(await unpaid('&limit=1'), [second])
  await move(second, 'shipped')
  assert.deepEqual(await unpaid(), [first], 'it is sent, so its payment is no condition any more')
})

test('the filter for unpaid orders cannot be negated', async () => {
  assertProblem(await store.call('GET', '/admin/orders?unpaid=false', { token }), 400, 'invalid_query')
})

test('the filter uses the index of unpaid orders', async () => {
  const { rows } = await store.pool.query(`select indexdef from pg_indexes where indexname = 'orders_unpaid_number_idx'`)
  assert.match(rows[0]?.indexdef, /\(number DESC\) WHERE/)
  const client = await store.pool.connect()
  try {
    await client.query('begin')
    await client.query('set local enable_seqscan = off')
    await client.query('set local enable_bitmapscan = off')
    const { IS_UNPAID } = await import('./unpaid-orders.ts')
    const { rows: plan } = await client.query({
      ...IS_UNPAID,
      text: `explain select id from orders where ${IS_UNPAID.text} order by number desc limit 51`,
    })
    assert.match(JSON.stringify(plan), /orders_unpaid_number_idx/)
  } finally {
    await client.query('rollback')
    client.release()
  }
})
