import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startStore, TEST_SECRET } from '../../test/store.ts'
import { isAuthentic, startWebhookReceiver } from '../../test/webhook-receiver.ts'
import { createEncryption } from '../auth/store-secret.ts'
import { addEndpoint } from './webhook-endpoints.ts'

test('an endpoint gets the catalogue events that it has chosen, signed, and an endpoint without types gets only order events', async (t) => {
  const store = await startStore(t, { roles: ['api', 'stream', 'webhook'], isPrivateWebhookAllowed: true })
  const [chosen, all] = [await startWebhookReceiver(t), await startWebhookReceiver(t)]
  const encryption = createEncryption(TEST_SECRET, 'webhook secret')
  const add = (url: string, eventTypes: string[] | null) => addEndpoint(store.pool, encryption, { url, eventTypes, isPrivateAllowed: true })
  const { secret } = await add(chosen.url, ['storefront.product.created', 'storefront.stock.depleted', 'storefront.order.created'])
  await add(all.url, null)
  const operator = await registerOperator(store)
  const body = { sku: 'W', name: 'A lamp', category: 'lamps', price: { amount: 5, currency: 'EUR' }, stock: 1 }
  const { id } = await operator.ok('POST', '/admin/products', { body })
  await operator.call('PATCH', `/admin/products/${id}`, { body: { name: 'Other' }, headers: { 'if-match': '*' } })
  const buyer = await store.register()
  const order = await buyer.ok('POST', '/orders', { body: { items: [{ product_id: id, quantity: 1 }] } })
  await eventually(async () => chosen.requests.length >= 3 && all.requests.length >= 1)
  assert.deepEqual(chosen.requests.map(({ headers }) => headers['webhook-id']).sort(), [`${id}.1`, `${id}.stock.2`, `${order.id}.1`].sort())
  assert.ok(chosen.requests.every((request) => isAuthentic(secret, request)))
  assert.deepEqual(
    all.requests.map(({ headers }) => headers['webhook-id']),
    [`${order.id}.1`],
  )
})
