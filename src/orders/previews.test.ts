import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { makeKey } from '../../test/api-keys.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startStore } from '../../test/store.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
const buyer = await store.register()
const lamp = await store.addProduct({ stock: 10, amount: 1_000 })
const EUR = { currency: 'EUR' }
const SHIPPING = { kind: 'shipping', label: 'Express', amount: { amount: 490, ...EUR } }

const withoutTimes = (json: string) => json.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')

/** Each previewable change. It applies after the preceding ones. */
const CHANGES: [method: string, path: string, body: object | undefined][] = [
  ['POST', 'adjustments', SHIPPING],
  ['DELETE', 'adjustments/2', undefined],
  ['PUT', 'payment', { provider: 'stripe', reference: 'pi_1', state: 'paid' }],
  ['POST', 'refunds', { amount: { amount: 500, ...EUR }, reference: 're_1' }],
  ['POST', 'transitions', { to: 'confirmed' }],
  ['POST', 'shipments', { lines: [{ product_id: lamp.id, quantity: 1 }] }],
  ['POST', 'returns', { lines: [{ product_id: lamp.id, quantity: 1 }], restock: true }],
  ['POST', 'cancellations', { lines: [{ product_id: lamp.id, quantity: 1 }] }],
]

test('each change shows its result in a preview that writes nothing, and has it without the preview', async () => {
  const items = [{ product_id: lamp.id, quantity: 3 }]
  const { json: placed } = await store.call('POST', '/orders', { token: buyer.token, body: { items } })
  const { key } = await makeKey(store, ['orders:move', 'orders:adjust'])
  const written = async () => {
    const { rows } = await store.pool.query('select to_jsonb(orders) as row from orders where id = $1', [placed.id])
    const { rows: activities } = await store.pool.query('select count(*)::int as count from activities')
    return { order: rows[0].row, activities: activities[0].count, stock: await store.readStock(lamp) }
  }
  for (const [method, path, body] of CHANGES) {
    const call = (query: string, by = token) => store.call(method, `/admin/orders/${placed.id}/${path}${query}`, { token: by, body })
    const before = await written()
    const previewed = await call('?preview=true')
    assert.equal(previewed.status, 200, `${path}: ${previewed.text}`)
    assertProblem(await call('?preview=true', key), 403, 'forbidden', 'it would read an order without a trace')
    assert.deepEqual(await written(), before, path)
    const made = await call('')
    assert.equal(made.status, 200, `${path}: ${made.text}`)
    assert.equal(withoutTimes(previewed.text), withoutTimes(made.text), path)
    assert.notDeepEqual(await written(), before, path)
  }
  const refused = await store.call('POST', `/admin/orders/${placed.id}/transitions?preview=true`, { token, body: { to: 'pending' } })
  assert.ok(refused.status === 409 || refused.status === 422, refused.text)
})
