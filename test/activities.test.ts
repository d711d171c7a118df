import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import type { RunCommand } from '../src/audit/audit-runner.ts'
import { ensureSampleLake, type MakeCall, makeCalls } from './activity-calls.ts'
import { registerOperator } from './register-operator.ts'
import { startStore } from './store.ts'

/** A command that runs until the store stops. */
const untilStopped: RunCommand = (_args, { signal }) =>
  new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
const store = await startStore({ after }, { runCommand: untilStopped })
const operator = await registerOperator(store)
await ensureSampleLake(store)
const { paths } = (await store.call('GET', '/openapi.json')).json
const operations = Object.entries(paths as Record<string, Record<string, { operationId: string; 'x-required-scope'?: string }>>)
  .flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), ...operation })),
  )
  // A quote changes nothing, and shows only what every visitor may read.
  .filter(({ operationId }) => operationId !== 'quoteOrderForCustomer')
  .filter((operation) => operation.method !== 'GET' && operation['x-required-scope'] !== undefined)

const newest = async () => Number((await store.pool.query('select coalesce(max(id), 0)::int as id from activities')).rows[0].id)
const since = async (id: number) =>
  (
    await store.pool.query(
      `select action, actor_type, actor_id, subject_type, subject_id, before, after, request_id from activities where id > $1 order by id`,
      [id],
    )
  ).rows

test('the document has changes of operators, and each is known here: a new one needs its call in activity-calls.ts', () => {
  assert.ok(operations.length > 13)
  assert.deepEqual(
    operations.map(({ operationId }) => operationId).filter((id) => makeCalls[id] === undefined),
    [],
  )
})

for (const { operationId, method, path } of operations) {
  test(`${operationId} leaves exactly its activity, with actor, action and request; a refusal leaves none`, async () => {
    const call = await (makeCalls[operationId] as MakeCall)(store, operator)
    const start = await newest()
    const url = Object.entries(call.params ?? {}).reduce((text, [name, value]) => text.replace(`{${name}}`, value), path)
    const { subject, states, ...request } = call
    // Nobody may do this with the token of a customer, and nothing is recorded.
    const refused = await store.call(method, url, { ...request, token: (await store.register()).token })
    assert.equal(refused.status, 403, refused.text)
    assert.deepEqual(await since(start), [])
    const answer = await store.call(method, url, { ...request, token: operator.token })
    assert.ok(answer.status >= 200 && answer.status < 300, `${answer.status} ${answer.text}`)
    const id = typeof subject === 'function' ? subject(answer) : (subject ?? null)
    const recorded = (await since(start)).map(({ before, after: now, ...activity }) => {
      if (states !== undefined) assert.deepEqual([before, now], states)
      return activity
    })
    assert.deepEqual(recorded, [
      {
        ...{ action: operationId, actor_type: 'admin', actor_id: operator.id },
        ...{ subject_type: recorded[0]?.subject_type, subject_id: id, request_id: answer.headers['x-request-id'] },
      },
    ])
  })
}

test('a change that is refused or rolled back leaves no activity', async () => {
  const product = await store.addProduct({ stock: 3 })
  const order = await placeOrder(product.id)
  const start = await newest()
  const { token } = operator
  const headers = { 'if-match': '"999"' }
  const body = { name: 'x' }
  const statuses = [
    await store.call('PATCH', `/admin/products/${product.id}`, { token, headers, body }),
    await store.call('PUT', `/admin/products/${product.id}/stock`, { token, body: { stock: 1, expected: 99 } }),
    await store.call('POST', `/admin/products/${product.id}/stock/adjustments`, { token, body: { delta: -9, reference: 'r' } }),
    await store.call('POST', `/admin/orders/${order}/transitions`, { token, body: { to: 'delivered' } }),
    await store.call('POST', `/admin/mails/${randomUUID()}.1/retry`, { token }),
    await store.call('POST', '/admin/operators', { token, body: { email: operator.email, role: 'support' } }),
  ].map(({ status }) => status)
  assert.deepEqual(statuses, [412, 412, 409, 409, 404, 409])
  assert.deepEqual(await since(start), [])
})

test('a repeated change that changes nothing leaves no second activity', async () => {
  const product = await store.addProduct({ stock: 3 })
  const { token } = operator
  const start = await newest()
  const adjust = () =>
    store.call('POST', `/admin/products/${product.id}/stock/adjustments`, { token, body: { delta: 2, reference: 'once' } })
  const count = () => store.call('PUT', `/admin/products/${product.id}/stock`, { token, body: { stock: 5, expected: 5 } })
  assert.deepEqual([(await adjust()).status, (await adjust()).status, (await count()).status], [201, 200, 200])
  assert.deepEqual(
    (await since(start)).map(({ before, after: now }) => [before, now]),
    [[{ stock: 3 }, { stock: 5 }]],
  )
})

test('of two changes at once each records what it has changed: the states follow each other', async () => {
  const product = await store.addProduct({ stock: 10 })
  const start = await newest()
  const deltas = Array.from({ length: 8 }, (_, index) => index + 1)
  const answers = await Promise.all(
    deltas.map((delta) =>
      store.call('POST', `/admin/products/${product.id}/stock/adjustments`, {
        token: operator.token,
        body: { delta, reference: `r-${delta}` },
      }),
    ),
  )
  assert.ok(answers.every(({ status }) => status === 201))
  const recorded = await since(start)
  assert.equal(recorded.length, 8)
  const after = new Map(recorded.map(({ before, after: now }) => [before.stock, now.stock]))
  let stock = 10
  while (after.has(stock)) stock = after.get(stock)
  assert.equal(stock, 10 + 36)
})

test('what customers do records nothing: orders, cancellations, accounts', async () => {
  const product = await store.addProduct({ stock: 3 })
  const start = await newest()
  const customer = await store.register()
  const order = await placeOrder(product.id, customer.token)
  assert.equal((await store.call('POST', `/orders/${order}/cancel`, { token: customer.token, body: {} })).status, 200)
  await store.call('PATCH', '/me', { token: customer.token, body: { name: 'Ada' } })
  assert.equal((await store.call('DELETE', '/me', { token: customer.token })).status, 204)
  assert.deepEqual(await since(start), [])
})

test('an import of 1,200 lines is recorded in three rows that count; one that changes nothing, not at all', async () => {
  const lines = Array.from({ length: 1_200 }, (_, index) =>
    JSON.stringify({ sku: `I-${index}`, name: 'A cup', category: 'cups', price: { amount: 100, currency: 'EUR' } }),
  )
  const start = await newest()
  const send = () =>
    store.call('POST', '/admin/products/import', {
      token: operator.token,
      raw: lines.join('\n'),
      headers: { 'content-type': 'application/x-ndjson' },
    })
  await send()
  await send()
  const counted = (await since(start)).map(({ after: now }) => now)
  assert.deepEqual(counted, [
    { created: 500, updated: 0 },
    { created: 500, updated: 0 },
    { created: 200, updated: 0 },
  ])
})

test('a query is recorded without the values in it', async () => {
  const start = await newest()
  const sql = "select 'Ada''s' as a, $q$Eve$q$ as b -- Bob\n, count(*) from orders /* Carl */ where status = 'pending'"
  const ask = () => store.call('POST', '/admin/lake/queries', { token: operator.token, body: { sql } })
  let answer = await ask()
  // On a busy machine its process may need more than the ten seconds of a query.
  while (answer.json.code === 'query_timeout') answer = await ask()
  assert.equal(answer.status, 200, answer.text)
  const [{ after: recorded }] = await since(start)
  assert.match(recorded.sql, /^select '…' as a, '…' as b , count\(\*\) from orders where status = '…'$/)
})

async function placeOrder(productId: string, token?: string): Promise<string> {
  const { status, json, text } = await store.call('POST', '/orders', {
    token: token ?? (await store.register()).token,
    body: { items: [{ product_id: productId, quantity: 1 }] },
  })
  assert.equal(status, 201, text)
  return json.id
}
