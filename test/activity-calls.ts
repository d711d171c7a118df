import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { LocalLakeStore } from '../src/lake/local-store.ts'
import { exampleMailContent } from '../src/mail/example-mail.ts'
import { setStatus } from './broken-rows.ts'
import { writeFiles } from './lake-harness.ts'
import type { Account, Answer, CallOptions, TestStore } from './store.ts'

/** A call of an operator that succeeds and changes one subject. */
export interface ActivityCall extends Pick<CallOptions, 'body' | 'raw' | 'headers'> {
  /** For the path. */
  params?: Record<string, string>
  /** The id of the subject in the activity; null unless given. */
  subject?: string | ((answer: Answer) => string)
  /** What differs, before and after. */
  states?: [before: unknown, after: unknown]
}

export type MakeCall = (store: TestStore, operator: Account) => Promise<ActivityCall>

const NDJSON = { 'content-type': 'application/x-ndjson' }
const created = ({ json }: Answer) => String(json.id)
const newProduct = () => ({ sku: `A-${randomUUID()}`, name: 'A mug', category: 'mugs', price: { amount: 900, currency: 'EUR' } })

async function addWebhook(store: TestStore): Promise<string> {
  const id = randomUUID()
  await store.pool.query(`insert into webhook_endpoints (id, url, sealed_secret) values ($1, $2, 'one')`, [
    id,
    `https://shop.example/${id}`,
  ])
  return id
}

/** A category whose name is its id. */
async function addCategory(store: TestStore): Promise<string> {
  const id = randomUUID()
  await store.pool.query('insert into categories (id, name, slug) values ($1, $2, $2)', [id, id])
  return id
}

/** One call for each change that a scope permits, by its operationId. */
export const makeCalls: Readonly<Record<string, MakeCall>> = {
  createProduct: async () => ({ body: newProduct(), subject: created }),
  updateProduct: async (store) => {
    const { id } = await store.addProduct({ name: 'Old' })
    const { headers } = await store.call('GET', `/products/${id}`)
    const states: ActivityCall['states'] = [{ name: 'Old' }, { name: 'New' }]
    return { params: { id }, headers: { 'if-match': String(headers.etag) }, body: { name: 'New', category: 'lamps' }, subject: id, states }
  },
  archiveProduct: async (store) => {
    const { id } = await store.addProduct()
    return { params: { id }, subject: id, states: [{ is_archived: false }, { is_archived: true }] }
  },
  restoreProduct: async (store, { token }) => {
    const { id } = await store.addProduct()
    await store.call('DELETE', `/admin/products/${id}`, { token })
    return { params: { id }, subject: id, states: [{ is_archived: true }, { is_archived: false }] }
  },
  updateProductGroup: async (store) => {
    const [{ id }, group] = [await store.addProduct(), randomUUID()]
    await store.pool.query('update products set variant_group = $2 where id = $1', [id, group])
    const states: ActivityCall['states'] = [
      { group, brand: null },
      { group, brand: 'Potter', updated: 1 },
    ]
    return { params: { group }, headers: { 'if-match': '*' }, body: { brand: 'Potter' }, states }
  },
  createCategory: async () => ({ body: { name: `Category ${randomUUID()}` }, subject: created }),
  updateCategory: async (store) => {
    const [id, name] = [await addCategory(store), `New ${randomUUID()}`]
    return { params: { id }, headers: { 'if-match': '*' }, body: { name }, subject: id, states: [{ name: id }, { name }] }
  },
  deleteCategory: async (store) => {
    const id = await addCategory(store)
    return { params: { id }, subject: id }
  },
  placeProducts: async (store) => {
    const name = `Ordered ${randomUUID()}`
    const { id: productId, sku } = await store.addProduct({ category: name })
    const { rows } = await store.pool.query('select id from categories where name = $1', [name])
    const states: ActivityCall['states'] = [{ products: [] }, { products: [sku] }]
    const { id } = rows[0]
    return { params: { id }, headers: { 'if-match': '*' }, body: { product_ids: [productId] }, subject: id, states }
  },
  importProducts: async () => ({ raw: JSON.stringify(newProduct()), headers: NDJSON, states: [null, { created: 1, updated: 0 }] }),
  setStock: async (store) => {
    const { id } = await store.addProduct({ stock: 7 })
    return { params: { id }, body: { stock: 9, expected: 7 }, subject: id, states: [{ stock: 7 }, { stock: 9 }] }
  },
  adjustStock: async (store) => {
    const { id } = await store.addProduct({ stock: 7 })
    return { params: { id }, body: { delta: -2, reference: 'broken' }, subject: id, states: [{ stock: 7 }, { stock: 5 }] }
  },
  moveOrder: async (store) => {
    const id = await placeOrder(store)
    return { params: { id }, body: { to: 'confirmed' }, subject: id, states: CONFIRMED }
  },
  moveOrders: async (store) => {
    const id = await placeOrder(store)
    return { raw: JSON.stringify({ order_id: id, to: 'confirmed' }), headers: NDJSON, subject: id, states: CONFIRMED }
  },
  shipLines: async (store) => partCall(await placeOrder(store, ['confirmed']), {}, ['confirmed', 'shipped'], 'shipped'),
  cancelLines: async (store) => partCall(await placeOrder(store), {}, ['pending', 'cancelled'], 'lines_cancelled'),
  returnLines: async (store) =>
    partCall(await placeOrder(store, ['confirmed', 'shipped']), { restock: true }, ['shipped', 'returned'], 'returned'),
  addOrderNote: async (store) => {
    const id = await placeOrder(store)
    return { params: { id }, body: { text: 'Called.' }, subject: id }
  },
  placeOrderForCustomer: async (store) => {
    const { id } = await store.addProduct()
    const body = { email: 'ada@example.com', items: [{ product_id: id, quantity: 1 }] }
    const states: ActivityCall['states'] = [null, { status: 'pending', version: 1, total: TOTAL }]
    return { body, headers: { 'idempotency-key': randomUUID() }, subject: created, states }
  },
  amendOrder: async (store) => {
    const id = await placeOrder(store)
    const after = { status: 'pending', version: 2, change: { type: 'amended', amended: ['email'] } }
    return { params: { id }, body: { email: 'ada@example.com' }, subject: id, states: [{ status: 'pending', version: 1 }, after] }
  },
  addAdjustment: async (store) => {
    const id = await placeOrder(store)
    const after = { status: 'pending', version: 2, total: SHIPPED_TOTAL, change: { type: 'adjusted', kind: 'shipping' } }
    return { params: { id }, body: SHIPPING, subject: id, states: [{ status: 'pending', version: 1, total: TOTAL }, after] }
  },
  voidAdjustment: async (store, { token }) => {
    const id = await placeOrder(store)
    await store.call('POST', `/admin/orders/${id}/adjustments`, { token, body: SHIPPING })
    const states: ActivityCall['states'] = [
      { status: 'pending', version: 2, total: SHIPPED_TOTAL },
      { status: 'pending', version: 3, total: TOTAL, change: { type: 'adjustment_voided', adjustment: 2 } },
    ]
    return { params: { id, version: '2' }, subject: id, states }
  },
  reportPayment: async (store) => {
    const id = await placeOrder(store)
    const payment = { provider: 'stripe', state: 'paid' }
    const after = { status: 'pending', version: 2, change: { type: 'payment', ...payment } }
    return { params: { id }, body: { ...payment, reference: 'pi_1' }, subject: id, states: [{ status: 'pending', version: 1 }, after] }
  },
  refundOrder: async (store, { token }) => {
    const id = await placeOrder(store)
    const payment = { provider: 'stripe', reference: 'pi_1' }
    await store.call('PUT', `/admin/orders/${id}/payment`, { token, body: { ...payment, state: 'paid' } })
    const change = { type: 'payment', provider: 'stripe', state: 'partially_refunded', refunded: 100 }
    const states: ActivityCall['states'] = [
      { status: 'pending', version: 2 },
      { status: 'pending', version: 3, change },
    ]
    return { params: { id }, body: { amount: { amount: 100, currency: 'EUR' }, reference: 're_1' }, subject: id, states }
  },
  blockCustomer: async (store) => {
    const { id } = await store.register()
    return { params: { id }, body: { reason: 'Orders with stolen cards.' }, subject: id }
  },
  unblockCustomer: async (store, operator) => {
    const { id } = await store.register()
    await store.call('POST', `/admin/customers/${id}/block`, { token: operator.token, body: { reason: 'A mistake.' } })
    return { params: { id }, subject: id }
  },
  eraseCustomer: async (store) => {
    const { id } = await store.register()
    return { params: { id }, subject: id }
  },
  createApiKey: async () => ({ body: NEW_KEY, subject: created }),
  rotateApiKey: async (store, operator) => {
    const id = await makeKey(store, operator)
    return { params: { id }, body: {}, subject: id }
  },
  revokeApiKey: async (store, operator) => {
    const id = await makeKey(store, operator)
    return { params: { id }, subject: id }
  },
  createWebhook: async () => ({ body: { url: `https://203.0.114.1/${randomUUID()}` }, subject: created }),
  updateWebhook: async (store) => {
    const id = await addWebhook(store)
    const types = ['storefront.order.shipped']
    return { params: { id }, body: { event_types: types }, subject: id, states: [{ event_types: null }, { event_types: types }] }
  },
  deleteWebhook: async (store) => {
    const id = await addWebhook(store)
    return { params: { id }, subject: id }
  },
  rotateWebhookSecret: async (store) => {
    const id = await addWebhook(store)
    return { params: { id }, subject: id }
  },
  enableWebhook: async (store) => {
    const id = await addWebhook(store)
    await store.pool.query(`update webhook_endpoints set disabled_at = now(), disabled_reason = 'it failed' where id = $1`, [id])
    return { params: { id }, subject: id }
  },
  disableWebhook: async (store) => {
    const id = await addWebhook(store)
    return { params: { id }, subject: id }
  },
  testWebhook: async (store) => {
    const id = await addWebhook(store)
    return { params: { id }, subject: id }
  },
  redeliverWebhooks: async (store) => {
    const id = randomUUID()
    await store.pool.query(
      `with endpoint as (insert into webhook_endpoints (id, url, sealed_secret) values ($1, 'https://shop.example/', 'one')),
       event as (insert into webhook_events (event_id, type, body) values ($2, 'order.placed', '{}'))
       insert into webhook_deliveries (endpoint_id, event_id, status, queued_at) values ($1, $2, 'failed', now())`,
      [id, `${randomUUID()}.1`],
    )
    return { params: { id }, body: { all_failed: true }, subject: id, states: [null, { queued: 1 }] }
  },
  startAudit: async () => ({ body: { kind: 'replay' }, subject: created, states: [null, { kind: 'replay' }] }),
  retryMail: async (store) => {
    const eventId = await failMail(store)
    return { params: { event_id: eventId }, subject: eventId, states: [{ status: 'failed' }, { status: 'queued' }] }
  },
  sendMailAgain: async (store) => {
    const eventId = await failMail(store)
    await store.pool.query(`update email_deliveries set status = 'sent', content = null where event_id = $1`, [eventId])
    return { params: { event_id: eventId }, subject: `${eventId}.copy1`, states: [null, { status: 'queued', copy_of: eventId }] }
  },
  retryMails: async (store) => {
    await failMail(store)
    return { states: [null, { queued: 1 }] }
  },
  queryLake: async () => ({
    body: { sql: 'select count(*) from orders', limit: 3 },
    states: [null, { sql: 'select count(*) from orders', limit: 3 }],
  }),
  createOperator: async () => ({
    body: { email: `${randomUUID()}@shop.example`, role: 'support' },
    subject: created,
    states: [null, { role: 'support' }],
  }),
  updateOperator: async (store) => {
    const id = await makeOperator(store)
    return { params: { id }, body: { role: 'analyst' }, subject: id, states: [{ role: 'warehouse' }, { role: 'analyst' }] }
  },
  removeOperator: async (store) => {
    const id = await makeOperator(store)
    return { params: { id }, subject: id, states: [{ role: 'warehouse' }, { role: 'customer' }] }
  },
  resetOperatorFactors: async (store) => {
    const id = await makeOperator(store)
    await store.pool.query(
      `insert into passkeys (id, user_id, credential_id, public_key, sign_count, transports, name)
      values (gen_random_uuid(), $1, $2, '', 0, '{}', 'Key')`,
      [id, randomUUID()],
    )
    const none = { passkeys: 0, totp: 0 }
    return { params: { id }, subject: id, states: [{ passkeys: 1, totp: 0 }, none] }
  },
}

const NEW_KEY = { name: 'scanner', scopes: ['stock:read'] }

function partCall(id: string, body: object, [before, after]: [string, string], type: string): ActivityCall {
  const version = ['pending', 'confirmed', 'shipped'].indexOf(before) + 1
  const states: ActivityCall['states'] = [
    { status: before, version },
    { status: after, version: version + 1, change: { type, units: 1 } },
  ]
  return { params: { id }, body, subject: id, states }
}

async function makeKey(store: TestStore, { token }: Account): Promise<string> {
  const { json } = await store.call('POST', '/admin/api-keys', { token, body: NEW_KEY })
  return json.id
}

const SHIPPING = { kind: 'shipping', label: 'Express', amount: { amount: 490, currency: 'EUR' } }
const TOTAL = { amount: 1_250, currency: 'EUR' }
const SHIPPED_TOTAL = { amount: 1_740, currency: 'EUR' }

const CONFIRMED: ActivityCall['states'] = [
  { status: 'pending', version: 1 },
  { status: 'confirmed', version: 2 },
]

/** A lake with some orders in the store's folder. */
export async function ensureSampleLake(store: TestStore): Promise<void> {
  await writeFiles({ after: () => {} }, new LocalLakeStore(join(store.config.dataDir, 'lake')), [2])
}

async function placeOrder(store: TestStore, moves: readonly string[] = []): Promise<string> {
  const { token } = await store.register()
  const { id: productId } = await store.addProduct()
  const { json } = await store.call('POST', '/orders', { token, body: { items: [{ product_id: productId, quantity: 1 }] } })
  for (const status of moves) await setStatus(store.pool, [json.id], status)
  return json.id
}

async function failMail(store: TestStore): Promise<string> {
  const id = await placeOrder(store)
  await store.pool.query(
    `insert into email_deliveries (event_id, order_id, user_id, event_type, status, content, failed_at)
     select id || '.1', id, user_id, 'storefront.order.created', 'failed', $2, now() from orders where id = $1`,
    [id, JSON.stringify(exampleMailContent('created', 'EUR'))],
  )
  return `${id}.1`
}

async function makeOperator(store: TestStore): Promise<string> {
  const { id } = await store.register()
  await store.pool.query(`update users set role = 'warehouse' where id = $1`, [id])
  return id
}
