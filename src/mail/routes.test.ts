import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startSmtpServer, type TestSmtpServer } from '../../test/smtp-server.ts'
import { type Account, startStore } from '../../test/store.ts'

const smtp = await startSmtpServer({ after })
const store = await startStore({ after }, { roles: ['api', 'stream', 'email'], smtpUrl: smtp.url })
const [operator, colleague] = [await registerOperator(store), await registerOperator(store)]
const HOSTILE = `"><img src=x onerror=alert(1)><script>alert(2)</script>`
const mug = await store.addProduct({ name: `Mug ${HOSTILE}`, stock: 1_000 })

const get = (path: string, token = operator.token) => store.call('GET', path, { token })
const post = (path: string, token = operator.token) => store.call('POST', path, { token })

async function placeOrder(customer: Account): Promise<{ id: string; number: string }> {
  const json = await store.ok('POST', '/orders', {
    token: customer.token,
    body: { items: [{ product_id: mug.id, quantity: 2 }], note: HOSTILE },
  })
  return json
}

const waitFor = (eventId: string, status: string) =>
  eventually(
    async () => {
      const { json } = await get(`/admin/mails/${eventId}`)
      return json?.status === status && json
    },
    { what: `the mail of ${eventId} is ${status}` },
  )

const receivedBy = ({ mails }: TestSmtpServer, { email }: Account) =>
  mails.filter(({ to }) => to !== undefined && 'value' in to && to.value[0]?.address === email)
const withoutLineEnds = (text: unknown) => String(text).replaceAll('\r\n', '\n').trim()

/** It opens the order. */
const LINK_TOKEN = /#[\w-]{64}/

test('shows each mail as the mail server got it, even after its content was deleted, but without the token in its link', async () => {
  const customer = await store.register()
  await store.pool.query('update users set name = $2, email_verified_at = now() where id = $1', [customer.id, `Ada ${HOSTILE}`])
  const order = await placeOrder(customer)
  await waitFor(`${order.id}.1`, 'sent')
  const tracking = { carrier: HOSTILE, number: '00340434161094015902', url: 'https://carrier.example/?n=1' }
  for (const [index, move] of [
    { to: 'confirmed' },
    { to: 'shipped', tracking, reference: 'p-1' },
    { to: 'returned', reason: HOSTILE },
  ].entries()) {
    await operator.ok('POST', `/admin/orders/${order.id}/transitions`, { body: move })
    await waitFor(`${order.id}.${index + 2}`, 'sent')
  }
  const received = receivedBy(smtp, customer)
  assert.equal(received.length, 4)
  const { rows } = await store.pool.query('select count(*) from email_deliveries where order_id = $1 and content is null', [order.id])
  assert.equal(rows[0].count, 4)
  for (const mail of received) {
    const shown = await get(`/admin/mails/${mail.headers.get('x-storefront-event')}`)
    const { subject, text, html } = shown.json.rendered
    assert.deepEqual(
      [subject, withoutLineEnds(text), withoutLineEnds(html)],
      [mail.subject, ...[mail.text, mail.html].map((body) => withoutLineEnds(body).replace(LINK_TOKEN, ''))],
    )
    assert.match(String(mail.text), LINK_TOKEN)
    assert.doesNotMatch(`${text}${html}`, LINK_TOKEN, 'who reads mails cannot cancel orders')
    assert.ok(!html.includes('<img') && !html.includes('<script') && html.includes('&lt;img'))
    assert.equal(shown.headers['cache-control'], 'no-store')
    assert.deepEqual([shown.json.order_id, shown.json.order_number, shown.json.to], [order.id, order.number, customer.email])
  }
  const listed = await get(`/admin/mails?order=${order.number}`)
  assert.deepEqual(
    listed.json.data.map(({ kind, status, attempts }: Record<string, unknown>) => [kind, status, attempts]),
    [
      ['returned', 'sent', 1],
      ['shipped', 'sent', 1],
      ['confirmed', 'sent', 1],
      ['created', 'sent', 1],
    ],
  )
})

test('a failed mail is sent once if two operators retry it at the same time', async () => {
  const customer = await store.register()
  smtp.refuse(customer.email, { code: 550, text: `5.7.1 no ${HOSTILE}`, times: 1 })
  const { id } = await placeOrder(customer)
  const failed = await waitFor(`${id}.1`, 'failed')
  assert.match(failed.last_error, /550 5\.7\.1 no/)
  assert.match(failed.rendered.subject, /^We have received your order/)
  assert.notEqual(failed.failed_at, null)
  assert.deepEqual([failed.sent_at, failed.next_attempt_at], [null, null])
  const path = `/admin/mails/${id}.1/retry`
  const answers = await Promise.all([post(path), post(path, colleague.token), post(path)])
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 409, 409])
  for (const refused of answers.filter(({ status }) => status === 409)) assertProblem(refused, 409, 'mail_not_failed')
  const sent = await waitFor(`${id}.1`, 'sent')
  assert.deepEqual([sent.attempts, sent.last_error], [1, null])
  assert.match(assertProblem(await post(path), 409, 'mail_not_failed').detail, /is sent/)
  assert.equal(receivedBy(smtp, customer).length, 1)
})

test('one call queues all failed mails again, and concurrent calls queue none twice', async () => {
  const customers = await Promise.all([store.register(), store.register(), store.register()])
  for (const { email } of customers) smtp.refuse(email, { code: 550, text: 'no', times: 1 })
  for (const customer of customers) await waitFor(`${(await placeOrder(customer)).id}.1`, 'failed')
  const listed = await get('/admin/mails?status=failed')
  assert.equal(listed.json.data.length, 3)
  const answers = await Promise.all([post('/admin/mails/retry'), post('/admin/mails/retry', colleague.token)])
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200],
  )
  assert.equal(answers[0].json.queued + answers[1].json.queued, 3)
  assert.equal(answers[0].json.has_more, false)
  for (const customer of customers) await eventually(async () => receivedBy(smtp, customer).length === 1)
  assert.deepEqual((await post('/admin/mails/retry')).json, { queued: 0, has_more: false })
  for (const customer of customers) assert.equal(receivedBy(smtp, customer).length, 1)
})

test('a mail that is retried automatically shows why and when, and is sent when the mail server is back', async (t) => {
  const away = await startSmtpServer(t)
  const other = await startStore(t, { roles: ['api', 'stream', 'email'], smtpUrl: away.url })
  const admin = await registerOperator(other)
  const { port } = away
  await away.stop()
  const lamp = await other.addProduct()
  const customer = await other.register()
  const placed = await customer.call('POST', '/orders', { body: { items: [{ product_id: lamp.id, quantity: 1 }] } })
  const read = async () => (await admin.call('GET', `/admin/mails/${placed.json.id}.1`)).json
  const waiting = await eventually(
    async () => {
      const mail = await read()
      return mail?.attempts >= 1 && mail.next_attempt_at !== null && mail
    },
    { what: 'an attempt that failed' },
  )
  assert.equal(waiting.status, 'queued')
  assert.match(waiting.last_error, /ECONNREFUSED/)
  assert.ok(new Date(waiting.next_attempt_at) > new Date(waiting.queued_at))
  assertProblem(await admin.call('POST', `/admin/mails/${placed.json.id}.1/retry`), 409, 'mail_not_failed')
  const back = await startSmtpServer(t, port)
  await eventually(async () => (await read()).status === 'sent', { what: 'the mail is sent' })
  assert.equal(receivedBy(back, customer).length, 1)
})

test('a mail to a deleted account is listed without address and content', async () => {
  const customer = await store.register()
  const { id } = await placeOrder(customer)
  await waitFor(`${id}.1`, 'sent')
  await customer.ok('DELETE', '/me')
  const { json } = await get(`/admin/mails/${id}.1`)
  assert.deepEqual([json.to, json.rendered, json.status], [null, null, 'sent'])
  assert.deepEqual(
    (await get(`/admin/mails?order=${id}`)).json.data.map(({ to }: { to: string | null }) => to),
    [null],
  )
  assert.deepEqual((await get(`/admin/mails?email=${customer.email}`)).json.data, [])
})

test('a mail is shown without its content if its order was deleted or another program wrote it', async () => {
  const customer = await store.register()
  const { id } = await placeOrder(customer)
  await waitFor(`${id}.1`, 'sent')
  await store.pool.query(`update email_deliveries set event_id = $2 || '.7' where event_id = $1`, [`${id}.1`, id])
  assert.equal((await get(`/admin/mails/${id}.7`)).json.rendered, null, 'the order has no such version')
  const gone = randomUUID()
  await store.pool.query(`update email_deliveries set event_id = $2 || '.1', order_id = $2::uuid where event_id = $1`, [`${id}.7`, gone])
  const { json } = await get(`/admin/mails/${gone}.1`)
  assert.deepEqual([json.order_number, json.rendered], [null, null])
})

test('pages of mails that were queued at the same time contain each mail once, with every filter', async (t) => {
  const other = await startStore(t)
  const admin = await registerOperator(other)
  const [ada, bob] = [await other.register(), await other.register()]
  const ids = Array.from({ length: 60 }, () => randomUUID())
  await other.pool.query(
    `insert into email_deliveries (event_id, order_id, user_id, event_type, status, queued_at)
     select id || '.1', id, case when number % 2 = 0 then $2::uuid else $3::uuid end, 'storefront.order.created',
       (array['queued', 'sent', 'failed'])[number % 3 + 1], '2026-03-01T10:00:00Z'::timestamptz + number / 20 * interval '1 minute'
     from unnest($1::uuid[]) with ordinality as made (id, number)`,
    [ids, ada.id, bob.id],
  )
  const walk = async (filter: Record<string, string>) => {
    const found: { event_id: string; queued_at: string; to: string; status: string }[] = []
    for (let cursor: string | null = null; ; ) {
      const query = new URLSearchParams({ ...filter, limit: '7', ...(cursor === null ? {} : { cursor }) })
      const json = await admin.ok('GET', `/admin/mails?${query}`)
      found.push(...json.data)
      cursor = json.next_cursor
      if (!json.has_more) return found
    }
  }
  const all = await walk({})
  assert.equal(new Set(all.map(({ event_id }) => event_id)).size, 60)
  const keys = all.map(({ queued_at, event_id }) => `${queued_at} ${event_id}`)
  assert.deepEqual(keys, keys.toSorted().reverse())
  const expect = async (filter: Record<string, string>, fits: (mail: (typeof all)[number]) => boolean) =>
    assert.deepEqual(await walk(filter), all.filter(fits), JSON.stringify(filter))
  await expect({ status: 'failed' }, ({ status }) => status === 'failed')
  await expect({ email: ada.email.toUpperCase() }, ({ to }) => to === ada.email)
  await expect({ email: bob.email, status: 'sent' }, ({ to, status }) => to === bob.email && status === 'sent')
  await expect({ email: 'nobody@example.com' }, () => false)
  await expect({ order: String(ids[3]) }, ({ event_id }) => event_id === `${ids[3]}.1`)
  await expect({ order: '999999999999999999' }, () => false)
  const [from, to] = ['2026-03-01T10:01:00Z', '2026-03-01T10:03:00Z']
  await expect({ from, to }, ({ queued_at }) => queued_at >= '2026-03-01T10:01' && queued_at < '2026-03-01T10:03')
  await expect({ from, email: ada.email }, (mail) => mail.queued_at >= '2026-03-01T10:01' && mail.to === ada.email)
  const cursor = (await admin.ok('GET', '/admin/mails?limit=1')).next_cursor
  assertProblem(await admin.call('GET', `/admin/mails?status=sent&cursor=${cursor}`), 400, 'invalid_cursor')
})

test('polling gets 304 until a mail has changed', async () => {
  const first = await get('/admin/mails')
  const again = () => operator.call('GET', '/admin/mails', { headers: { 'if-none-match': String(first.headers.etag) } })
  assert.equal((await again()).status, 304)
  const customer = await store.register()
  await waitFor(`${(await placeOrder(customer)).id}.1`, 'sent')
  assert.equal((await again()).status, 200)
})

test('an event without a mail is not found, and a leap second is refused as a time', async () => {
  const { id } = await placeOrder(await store.register())
  await waitFor(`${id}.1`, 'sent')
  assertProblem(await get('/admin/mails?from=2026-06-30T23:59:60Z'), 400, 'invalid_query')
  for (const eventId of [`${randomUUID()}.1`, `${id}.99`, `${id}.0`, 'x', 'retry']) {
    assertProblem(await get(`/admin/mails/${eventId}`), 404, 'not_found', eventId)
    if (eventId !== 'retry') assertProblem(await post(`/admin/mails/${eventId}/retry`), 404, 'not_found', eventId)
  }
})
