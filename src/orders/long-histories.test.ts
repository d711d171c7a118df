import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { startStore } from '../../test/store.ts'
import { pagingOf } from '../http/pagination.ts'
import { MAX_CHANGES_BYTES } from './change-limits.ts'
import { listOrders } from './list-orders.ts'
import { NumberPosition, PAGE_BYTES } from './order-page.ts'

const ORDERS = 40
const store = await startStore({ after })
const product = await store.addProduct()
const [ada, operator] = await Promise.all([addBuyer(store), addBuyer(store, 'admin')])
const { id: userId = '', token = '' } = ada ?? {}
const numbers: string[] = []
for (let n = 0; n < ORDERS; n++) {
  const { json } = await store.call('POST', '/orders', { token, body: { items: [{ product_id: product.id, quantity: 1 }] } })
  numbers.unshift(json.number)
}
// Fills the history up to the bytes that the API accepts, with letters that do not compress well. Each entry is also an
// adjustment, so an answer contains it twice.
await store.pool.query(
  `with long as (
    select jsonb_agg(jsonb_build_object('status', 'pending', 'at', '2026-03-01T12:00:00.000Z', 'actor', '{"type": "key", "id": null}'::jsonb, 'reason', null,
        'change', jsonb_build_object('type', 'adjusted', 'kind', 'fee', 'amount', 1, 'label', md5(random()::text) || md5(n::text) || md5(random()::text)))) as entries,
      count(*)::int as count
    from generate_series(1, $1 / 480) as n
  )
  update orders set status_history = status_history || long.entries, version = 1 + long.count from long where user_id = $2`,
  [MAX_CHANGES_BYTES, userId],
)

test('a page of orders with the longest histories has at most three MiB, and the pages have each order once', async () => {
  for (const [path, caller] of [
    ['/orders', token],
    ['/admin/orders', operator.token],
  ] as const) {
    const met: string[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const target: string = `${path}?limit=100${cursor && `&cursor=${cursor}`}`
      const { status, json, text } = await store.call('GET', target, { token: caller })
      assert.equal(status, 200, text.slice(0, 500))
      assert.ok(text.length < 3 * 1_048_576, `${path} answers ${text.length} bytes`)
      assert.ok(json.next_cursor === null || text.length > PAGE_BYTES)
      met.push(...json.data.map(({ number }: { number: string }) => number))
      cursor = json.next_cursor
    }
    assert.deepEqual(met, numbers)
  }
})

test('reading a page reads little more from the database than the page shows', async () => {
  const connection = await store.pool.connect()
  const { stream } = (connection as unknown as { connection: { stream: { bytesRead: number } } }).connection
  try {
    const before = stream.bytesRead
    const { orders } = await listOrders(connection as never, userId, {}, pagingOf([], { limit: 100 }, NumberPosition), [])
    const shown = orders.reduce((sum, order) => sum + order.length, 0)
    const read = stream.bytesRead - before
    assert.ok(read < 2 * shown, `reads ${read} bytes for ${shown}`)
  } finally {
    connection.release()
  }
})
