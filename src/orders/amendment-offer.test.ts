import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { assertProblem } from '../../test/problem.ts'
import { startStore } from '../../test/store.ts'

const store = await startStore({ after })
const { token } = await addBuyer(store, 'admin')

const amend = (id: string, body: object, query = '') => store.call('POST', `/admin/orders/${id}/amendments${query}`, { token, body })

async function place(): Promise<string> {
  const [buyer, lamp] = [await store.register(), await store.addProduct({ stock: 5 })]
  const { json, text } = await store.call('POST', '/orders', {
    token: buyer.token,
    body: { items: [{ product_id: lamp.id, quantity: 1 }] },
  })
  assert.ok(json.id, text)
  return json.id
}

test("a product's scheduled start or end of sale is judged at the time of the amendment", async () => {
  const id = await place()
  const soon = new Date(Date.now() + 3_600_000).toISOString()
  const [left, entered] = [await store.addProduct({ stock: 5 }), await store.addProduct({ stock: 5 })]
  for (const [product, body] of [
    [left, { unpublished_at: soon }],
    [entered, { published_at: soon }],
  ] as const)
    assert.equal((await store.call('PATCH', `/admin/products/${product.id}`, { token, body, headers: { 'if-match': '*' } })).status, 200)
  const add = (product: { id: string }) => amend(id, { lines: [{ product_id: product.id, quantity: 1 }] })
  assertProblem(await add(entered), 422, 'unknown_product')
  const tx = await store.pool.connect()
  await tx.query('begin')
  await tx.query('set local session_replication_role = replica')
  const hours = `interval '2 hours'`
  await tx.query(
    `update products set published_at = published_at - ${hours}, unpublished_at = unpublished_at - ${hours}, changes_at = changes_at - ${hours}
     where id = any($1)`,
    [[left.id, entered.id]],
  )
  await tx.query('commit')
  tx.release()
  assertProblem(await add(left), 422, 'unknown_product')
  const { status, text } = await add(entered)
  assert.equal(status, 200, text)
})

test('a preview rounds stock like a quote, so the exact number cannot be searched for', async () => {
  const id = await place()
  const many = await store.addProduct({ stock: 30 })
  const add = (quantity: number, query: string) => amend(id, { lines: [{ product_id: many.id, quantity }] }, query)
  assert.equal((await add(31, '?preview=true')).status, 200)
  assertProblem(await add(51, '?preview=true'), 409, 'insufficient_stock')
  assertProblem(await add(31, ''), 409, 'insufficient_stock')
  assert.deepEqual(await store.readStock(many), [30])
})
