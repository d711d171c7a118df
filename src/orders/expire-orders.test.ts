import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { allowBrokenRows, setStatus } from '../../test/broken-rows.ts'
import { eventually } from '../../test/eventually.ts'
import { startStore } from '../../test/store.ts'
import { expireOrders } from './expire-orders.ts'

const store = await startStore({ after }, { pendingOrderTtlSeconds: 3_600 })
const ada = await store.register()

async function place(product: { id: string }, age: string, status = 'pending'): Promise<string> {
  const { json } = await store.call('POST', '/orders', { token: ada.token, body: { items: [{ product_id: product.id, quantity: 1 }] } })
  await store.pool.query('update orders set created_at = created_at - $2::interval where id = $1', [json.id, age])
  if (status !== 'pending') await setStatus(store.pool, [json.id], status)
  return json.id
}
const read = async (id: string) =>
  (await store.pool.query('select status, version, status_history -> -1 as last from orders where id = $1', [id])).rows[0]

// The scheduled job runs each minute.
test('the scheduled job cancels orders that were pending for too long, returns their stock and records the reason', async () => {
  const lamp = await store.addProduct({ stock: 10 })
  const [old, young, paid] = [await place(lamp, '2 hours'), await place(lamp, '30 minutes'), await place(lamp, '2 hours', 'confirmed')]
  const order = await eventually(
    async () => {
      const row = await read(old)
      return row?.status === 'cancelled' && row
    },
    { what: 'the scheduled job', timeoutMs: 240_000 },
  )
  assert.equal(order.version, 2)
  assert.deepEqual(order.last.actor, { type: 'system', id: null })
  assert.equal(order.last.reason, 'not confirmed in time')
  assert.deepEqual([(await read(young))?.status, (await read(paid))?.status], ['pending', 'confirmed'])
  assert.deepEqual(await store.readStock(lamp), [8])
})

test('reports an order that cannot be cancelled, and cancels the others', async () => {
  const lamp = await store.addProduct({ stock: 10 })
  const ids: string[] = []
  for (const age of ['5 hours', '4 hours', '3 hours', '2 hours']) ids.push(await place(lamp, age))
  const [, refused = '', malformed = ''] = ids
  await allowBrokenRows(store.pool)
  await store.pool.query(`update orders set status_history = '{}' where id = $1`, [malformed])
  await store.pool.query(
    `create function refuse_one() returns trigger language plpgsql as $$ begin raise exception 'not this one'; end $$;
    create trigger refuse_one before update on orders for each row when (old.client_reference = 'refused') execute function refuse_one()`,
  )
  await store.pool.query(`update orders set client_reference = 'refused' where id = $1`, [refused])
  const failed: string[] = []
  assert.equal(await expireOrders(store.pool, 3_600, new Date(), (id) => void failed.push(id)), 2)
  assert.deepEqual(failed.toSorted(), [refused, malformed].sort())
  assert.deepEqual(await Promise.all(ids.map(async (id) => (await read(id))?.status)), ['cancelled', 'pending', 'pending', 'cancelled'])
  assert.deepEqual(await store.readStock(lamp), [8])
  await assert.rejects(expireOrders(store.pool, 3_600, new Date()), /not this one|iterable/)
  await store.pool.query('drop trigger refuse_one on orders')
  await store.pool.query('delete from orders where id = any($1)', [[refused, malformed]])
})

test('cancels each of many orders once when several processes expire them at once', async () => {
  const lamp = await store.addProduct({ stock: 300 })
  const body = { items: [{ product_id: lamp.id, quantity: 1 }] }
  await Promise.all(Array.from({ length: 250 }, () => store.call('POST', '/orders', { token: ada.token, body })))
  const later = new Date(Date.now() + 7_200_000)
  const counts = await Promise.all([1, 2, 3].map(() => expireOrders(store.pool, 3_600, later)))
  assert.ok(counts.reduce((sum, count) => sum + count, 0) >= 250)
  assert.deepEqual(await store.readStock(lamp), [300])
  const { rows } = await store.pool.query(`select distinct status, version from orders where product_ids @> array[$1::uuid]`, [lamp.id])
  assert.deepEqual(rows, [{ status: 'cancelled', version: 2 }])
})
