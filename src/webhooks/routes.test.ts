import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { assertProblem, faults } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startStore } from '../../test/store.ts'
import { startWebhookReceiver } from '../../test/webhook-receiver.ts'
import { signWebhook } from './webhook-signature.ts'

const [FIRST, SECOND, DISABLED] = [1, 2, 3].map((number) => `01997a61-7a12-7d33-9b40-00000000000${number}`)

test('lists endpoints without secrets, shows their deliveries, and queues deliveries again', async (t) => {
  const store = await startStore(t)
  const { token } = await registerOperator(store)
  await store.pool.query(
    `insert into webhook_endpoints (id, url, sealed_secret, disabled_at, disabled_reason)
    values ($1, 'https://one.example/a?token=very-secret', 'one', null, null), ($2, 'https://two.example/', 'two', null, null),
      ($3, 'https://three.example/', 'three', now(), 'it failed for three days')`,
    [FIRST, SECOND, DISABLED],
  )
  await store.pool.query(
    `with event as (
      insert into webhook_events (event_id, type, body)
      select gen_random_uuid() || case number % 2 when 0 then '.stock.' else '.' end || number, 'order.placed', '{}'
      from generate_series(1, 7) as number
      returning event_id, substring(event_id from '[0-9]+$')::int as number
    )
    insert into webhook_deliveries (endpoint_id, event_id, status, queued_at)
    select endpoint_id, event_id, case when number % 2 = 0 then 'failed' else 'delivered' end, now() - number / 2 * interval '1 minute'
    from event, unnest($1::uuid[]) as endpoint_id`,
    [[FIRST, SECOND]],
  )
  const list = (path: string) => store.call('GET', path, { token })
  const { json, text } = await list('/admin/webhooks')
  assert.deepEqual(
    json.data.map(({ url, state, failed }: Record<string, unknown>) => [url, state, failed]),
    [
      ['https://one.example/a?…', 'enabled', 3],
      ['https://two.example/', 'enabled', 3],
      ['https://three.example/', 'disabled', 0],
    ],
  )
  assert.doesNotMatch(text, /secret/)
  const path = `/admin/webhooks/${FIRST}/deliveries`
  assert.equal((await list(path)).json.data.length, 7)
  const failed = (await list(`${path}?status=failed`)).json.data
  assert.equal(failed.length, 3)

  const again = (id: string | undefined, body: object) => store.call('POST', `/admin/webhooks/${id}/redeliver`, { token, body })
  assert.match(failed[0].event_id, /\.stock\./)
  assert.deepEqual((await again(FIRST, { event_id: failed[0].event_id })).json, { queued: 1 })
  assert.deepEqual((await again(FIRST, { all_failed: true })).json, { queued: 2 })
  const { rows } = await store.pool.query(
    `select endpoint_id, count(*)::int as n from webhook_deliveries where status = 'queued' group by endpoint_id`,
  )
  assert.deepEqual(rows, [{ endpoint_id: FIRST, n: 3 }], 'those of the other endpoint stay')
  assertProblem(await again(DISABLED, { all_failed: true }), 409, 'webhook_disabled')
  for (const unknown of [`${randomUUID()}.1`, `${randomUUID()}.stock.2`]) {
    assertProblem(await again(FIRST, { event_id: unknown }), 404, 'not_found')
  }
  assertProblem(await again(randomUUID(), { all_failed: true }), 404, 'not_found')
  assertProblem(await again(FIRST, {}), 422, 'invalid_body')
})

test('adding, changing, testing, disabling, enabling, rotating and removing an endpoint records an activity each', async (t) => {
  const store = await startStore(t, { roles: ['api', 'webhook'], isPrivateWebhookAllowed: true })
  const receiver = await startWebhookReceiver(t)
  const { token } = await registerOperator(store)
  const call = (method: 'POST' | 'PATCH' | 'DELETE', path: string, body?: object) =>
    store.call(method, `/admin/webhooks${path}`, { token, ...(body === undefined ? {} : { body }) })
  const added = await call('POST', '', { url: `${receiver.url}?token=very-secret`, event_types: ['storefront.order.shipped'] })
  assert.equal(added.status, 201, added.text)
  const { id, secret, ...shown } = added.json
  assert.match(secret, /^whsec_/)
  assert.deepEqual(shown, {
    ...{ url: `${receiver.url}?…`, event_types: ['storefront.order.shipped'], state: 'enabled', since: null, reason: null },
    ...{ queued: 0, failed: 0 },
  })
  assert.doesNotMatch((await store.call('GET', '/admin/webhooks', { token })).text, /secret/)

  const equal = { url: `${receiver.url}?token=very-secret`, event_types: ['storefront.order.shipped'] }
  assert.equal(assertProblem(await call('POST', '', equal), 409, 'webhook_exists').webhook_id, id)
  const other = await call('POST', '', { url: `${receiver.url}?token=very-secret` })
  assert.deepEqual([other.status, other.json.event_types], [201, null])
  assertProblem(await call('PATCH', `/${other.json.id}`, { event_types: ['storefront.order.shipped'] }), 409, 'webhook_exists')
  for (const body of [{}, { event_types: [] }, { event_types: ['storefront.order.unknown'] }])
    assertProblem(await call('PATCH', `/${other.json.id}`, body), 422, 'invalid_body', JSON.stringify(body))
  const changed = await call('PATCH', `/${other.json.id}`, { url: `${receiver.url}/other` })
  assert.deepEqual([changed.json.url, changed.json.event_types], [`${receiver.url}/other`, null])
  assert.equal((await call('DELETE', `/${other.json.id}`)).status, 204)
  assertProblem(await call('DELETE', `/${other.json.id}`), 404, 'not_found')

  const tested = await call('POST', `/${id}/test`)
  assert.equal(tested.status, 202)
  const request = await eventually(async () => receiver.requests.find(({ headers }) => headers['webhook-id'] === tested.json.event_id), {
    what: 'the test event',
  })
  assert.equal(JSON.parse(request.body).type, 'storefront.webhook.test')
  assert.deepEqual(JSON.parse(request.body).data, { webhook: { id } })
  const signed = signWebhook([secret], tested.json.event_id, new Date(Number(request.headers['webhook-timestamp']) * 1_000), request.body)
  assert.equal(request.headers['webhook-signature'], signed['webhook-signature'])
  await eventually(
    async () =>
      (await store.ok('GET', `/admin/webhooks/${id}/deliveries?status=delivered`, { token })).data[0]?.event_id === tested.json.event_id,
    { what: 'its delivery' },
  )

  const rotated = await call('POST', `/${id}/rotate`)
  assert.match(rotated.json.secret, /^whsec_/)
  assert.notEqual(rotated.json.secret, secret)
  const disabled = await call('POST', `/${id}/disable`)
  assert.deepEqual([disabled.json.state, disabled.json.reason], ['disabled', 'an operator disabled it'])
  assertProblem(await call('POST', `/${id}/test`), 409, 'webhook_disabled')
  assert.equal((await call('POST', `/${id}/enable`)).json.state, 'enabled')
  assert.equal((await call('DELETE', `/${id}`)).status, 204)
  for (const path of ['/rotate', '/disable', '/enable', '/test']) assertProblem(await call('POST', `/${id}${path}`), 404, 'not_found')
  assertProblem(await call('PATCH', `/${id}`, { event_types: null }), 404, 'not_found')
  const { rows } = await store.pool.query(
    `select action, before::text || after::text as text from activities where subject_id = $1 order by id`,
    [id],
  )
  assert.deepEqual(
    rows.map(({ action }) => action),
    ['createWebhook', 'testWebhook', 'rotateWebhookSecret', 'disableWebhook', 'enableWebhook', 'deleteWebhook'],
  )
  for (const { text } of rows) assert.doesNotMatch(text ?? '', /very-secret|whsec_/)
})

test('an endpoint with a private address can be neither added nor set by a change', async (t) => {
  const store = await startStore(t)
  const { token } = await registerOperator(store)
  await store.pool.query(`insert into webhook_endpoints (id, url, sealed_secret) values ($1, 'https://one.example/', 'one')`, [FIRST])
  for (const url of [
    'http://shop.example/',
    'https://127.0.0.1/',
    'https://[::1]/',
    'https://localhost/',
    'https://a:b@shop.example/',
    'https://10.1.2.3/',
  ]) {
    for (const [method, path] of [
      ['POST', ''],
      ['PATCH', `/${FIRST}`],
    ] as const) {
      const refused = await store.call(method, `/admin/webhooks${path}`, { token, body: { url } })
      assert.deepEqual(faults(assertProblem(refused, 422, 'invalid_body')), ['#/url'], url)
    }
  }
  const { rows } = await store.pool.query('select url from webhook_endpoints')
  assert.deepEqual(rows, [{ url: 'https://one.example/' }])
})

test('sending orders to a new URL needs the permission to read them', async (t) => {
  const store = await startStore(t, { isPrivateWebhookAllowed: true })
  const operator = await registerOperator(store)
  const keyWith = async (...scopes: string[]) => (await operator.ok('POST', '/admin/api-keys', { body: { name: 'a till', scopes } })).key
  const [narrow, wide] = [await keyWith('webhooks:write'), await keyWith('webhooks:write', 'orders:read')]
  const add = (token: string) => store.call('POST', '/admin/webhooks', { token, body: { url: 'http://127.0.0.1:9/hooks' } })
  assertProblem(await add(narrow), 403, 'forbidden')
  const { id } = (await add(wide)).json
  const change = (token: string) => store.call('PATCH', `/admin/webhooks/${id}`, { token, body: { url: 'http://127.0.0.1:10/hooks' } })
  assertProblem(await change(narrow), 403, 'forbidden')
  assert.equal((await change(wide)).status, 200)
})

test('neither a refused test nor an answer from a former URL disables an endpoint, and a test is queued once', async (t) => {
  const store = await startStore(t, { roles: ['api', 'webhook'], isPrivateWebhookAllowed: true })
  const [former, receiver] = [await startWebhookReceiver(t), await startWebhookReceiver(t)]
  const { token } = await registerOperator(store)
  const call = (method: 'POST' | 'PATCH' | 'GET', path: string, body?: object) =>
    store.call(method, `/admin/webhooks${path}`, { token, ...(body === undefined ? {} : { body }) })
  const held = Promise.withResolvers<void>()
  former.answer((response) => void held.promise.then(() => response.writeHead(410).end()))
  const { id } = (await call('POST', '', { url: former.url })).json
  const tests = await Promise.all(Array.from({ length: 6 }, () => call('POST', `/${id}/test`)))
  assert.equal(new Set(tests.map(({ json }) => json.event_id)).size, 1)
  await eventually(async () => former.requests.length === 1, { what: 'the test' })
  const deliver = (eventId: string) =>
    store.pool.query(
      `with event as (insert into webhook_events (event_id, type, body) values ($2, 'storefront.order.created', '{}'))
      insert into webhook_deliveries (endpoint_id, event_id, status, queued_at) values ($1, $2, 'queued', now())`,
      [id, eventId],
    )
  held.resolve()
  await eventually(async () => (await call('GET', `/${id}/deliveries?status=failed`)).json.data.length === 1, { what: 'its refusal' })
  const stateOf = async () => (await call('GET', '')).json.data[0].state
  assert.equal(await stateOf(), 'enabled')

  const again = Promise.withResolvers<void>()
  former.answer((response) => void again.promise.then(() => response.writeHead(410).end()))
  const eventId = `${randomUUID()}.1`
  await deliver(eventId)
  await eventually(async () => former.requests.length === 2, { what: 'the event' })
  assert.equal((await call('PATCH', `/${id}`, { url: receiver.url })).status, 200)
  again.resolve()
  await eventually(async () => (await call('GET', `/${id}/deliveries?status=failed`)).json.data.length === 2, { what: 'its refusal' })
  assert.equal(await stateOf(), 'enabled')
  assert.deepEqual((await call('POST', `/${id}/redeliver`, { event_id: eventId })).json, { queued: 1 })
  await eventually(async () => receiver.requests.length === 1, { what: 'the event at the new URL' })
  await eventually(async () => (await call('GET', `/${id}/deliveries?status=delivered`)).json.data.length === 1, { what: 'its delivery' })
  await store.pool.query(`update webhook_endpoints set failing_since = now() - interval '2 days' where id = $1`, [id])
  assert.equal((await call('PATCH', `/${id}`, { event_types: ['storefront.order.shipped'] })).json.state, 'failing')
  assert.equal((await call('PATCH', `/${id}`, { url: former.url })).json.state, 'enabled')
  assert.equal((await call('PATCH', `/${id}`, { url: `${former.url}?token=other` })).status, 200)
  const { rows } = await store.pool.query(`select after from activities where action = 'updateWebhook' order by id desc limit 1`)
  assert.equal(JSON.stringify(rows).includes('token=other'), false)
})

test('a store has at most a hundred endpoints', async (t) => {
  const store = await startStore(t, { isPrivateWebhookAllowed: true })
  const { token } = await registerOperator(store)
  await store.pool.query(
    `insert into webhook_endpoints (id, url, sealed_secret) select gen_random_uuid(), 'https://shop.example/' || n, '' from generate_series(1, 98) as n`,
  )
  const add = (port: number) => store.call('POST', '/admin/webhooks', { token, body: { url: `http://127.0.0.1:${port}/` } })
  const answers = await Promise.all([1, 2, 3, 4].map(add))
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, 201, 409, 409])
  for (const refused of answers.filter(({ status }) => status === 409)) assertProblem(refused, 409, 'too_many_webhooks')
})

test('concurrent calls that add the same endpoint create one', async (t) => {
  const store = await startStore(t, { isPrivateWebhookAllowed: true })
  const { token } = await registerOperator(store)
  const body = { url: 'http://127.0.0.1:9/hooks' }
  const answers = await Promise.all(Array.from({ length: 8 }, () => store.call('POST', '/admin/webhooks', { token, body })))
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, ...Array(7).fill(409)])
})
