import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startSmtpServer } from '../../test/smtp-server.ts'
import { type Account, startStore } from '../../test/store.ts'
import { generateWebhookSecret, signWebhook } from '../webhooks/webhook-signature.ts'

const smtp = await startSmtpServer({ after })
const SECRET = generateWebhookSecret()
const options = { roles: ['api', 'stream', 'email'] as const, smtpUrl: smtp.url, mailMaxPerHour: null, mailEventsSecret: SECRET }
const store = await startStore({ after }, { ...options, roles: [...options.roles] })
const operator = await registerOperator(store)
const mug = await store.addProduct({ stock: 1_000 })

const get = (path: string) => operator.call('GET', path)

interface Signing {
  secret?: string
  at?: Date
  sent?: string
}

async function report(body: object | string, { secret = SECRET, at = new Date(), sent }: Signing = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const headers = { ...signWebhook([generateWebhookSecret(), secret], 'msg_1', at, text), 'content-type': 'application/json' }
  return store.call('POST', '/mail-events', { headers, raw: sent ?? text })
}
const bounce = (messageId: string, reason?: string) => ({
  type: 'mail.bounced',
  data: { message_id: messageId, ...(reason && { reason }) },
})

/** Places an order and returns the id of its mail, which is sent, and its Message-ID. */
async function sendMail(customer: Account): Promise<{ id: string; mail: string; messageId: string }> {
  const json = await store.ok('POST', '/orders', { token: customer.token, body: { items: [{ product_id: mug.id, quantity: 1 }] } })
  const mail = `${json.id}.1`
  await untilSent(mail)
  const received = smtp.mails.find(({ headers }) => headers.get('x-storefront-event') === mail)
  return { id: json.id, mail, messageId: String(received?.messageId) }
}
const untilSent = (mail: string) =>
  eventually(async () => (await get(`/admin/mails/${mail}`)).json?.status === 'sent', { what: `${mail} is sent` })
const undelivered = async (filter = '') =>
  (await get(`/admin/mails?undelivered=true${filter}`)).json.data.map(({ event_id }: { event_id: string }) => event_id)

test('a bounced mail is listed as undelivered and shown in the timeline until a copy is delivered', async () => {
  const customer = await store.register()
  const { id, mail, messageId } = await sendMail(customer)
  const other = await sendMail(await store.register())
  assert.deepEqual(await undelivered(), [])
  const told = await report(bounce(messageId, `550 5.1.1 <${customer.email}>: no such\nmailbox`))
  assert.equal(told.status, 204, told.text)
  const { json } = await get(`/admin/mails/${mail}`)
  assert.equal(json.status, 'sent')
  assert.match(json.bounce_reason, /^550 5\.1\.1 <\(address\)>: no such mailbox$/)
  assert.ok(Date.parse(json.bounced_at) > 0)
  assert.deepEqual([await undelivered(), await undelivered(`&order=${id}`), await undelivered(`&order=${other.id}`)], [[mail], [mail], []])
  assert.deepEqual([await undelivered(`&email=${customer.email}`), await undelivered('&status=failed')], [[mail], []])
  const { timeline } = (await get(`/admin/orders/${id}`)).json
  assert.equal(timeline[0].mail.bounced_at, json.bounced_at)

  // The first of two reports counts.
  assert.equal((await report(bounce(mail, 'another'))).status, 204)
  assert.deepEqual([(await get(`/admin/mails/${mail}`)).json.bounce_reason], [json.bounce_reason])

  // A notice of the same change to a former address is no copy.
  await store.pool.query(
    `insert into email_deliveries (event_id, order_id, user_id, event_type, status)
    select event_id || '.notice', order_id, user_id, 'storefront.order.readdressed', 'sent' from email_deliveries where event_id = $1`,
    [mail],
  )
  assert.deepEqual(await undelivered(), [mail])

  const copy = await operator.call('POST', `/admin/mails/${mail}/send-again`)
  await untilSent(copy.json.event_id)
  assert.deepEqual(await undelivered(), [])
  assert.equal((await report(bounce(copy.json.event_id))).status, 204)
  assert.deepEqual(await undelivered(), [copy.json.event_id, mail])
  assert.equal((await get(`/admin/mails/${copy.json.event_id}`)).json.bounce_reason, 'the mail came back')
})

test('a mail reported as spam counts as delivered, and is not sent again', async () => {
  const { id, mail, messageId } = await sendMail(await store.register())
  const again = () => operator.call('POST', `/admin/mails/${mail}/send-again`)
  const copy = (await again()).json.event_id
  await untilSent(copy)
  const known = await undelivered()
  assert.equal((await report({ type: 'mail.complained', data: { message_id: copy } })).status, 204)
  const { complained_at, bounced_at } = (await get(`/admin/mails/${copy}`)).json
  assert.ok(Date.parse(complained_at) > 0)
  assert.equal(bounced_at, null)
  assert.deepEqual(await undelivered(), known)
  const { timeline } = (await get(`/admin/orders/${id}`)).json
  assert.deepEqual([timeline[0].mail.complained_at, timeline[0].mail_copies[0].complained_at], [null, complained_at])
  assert.match(assertProblem(await again(), 409, 'mail_not_repeatable').detail, /spam/)

  // A provider may report both.
  await Promise.all([report({ type: 'mail.complained', data: { message_id: messageId, reason: 'abuse' } }), report(bounce(mail))])
  assert.deepEqual(await undelivered(), known)
})

test('a mail that failed, bounced and was then retried no longer counts as bounced', async () => {
  const customer = await store.register()
  smtp.refuse(customer.email, { code: 550, text: 'no', times: 1 })
  const json = await customer.ok('POST', '/orders', { body: { items: [{ product_id: mug.id, quantity: 1 }] } })
  const mail = `${json.id}.1`
  await eventually(async () => (await get(`/admin/mails/${mail}`)).json?.status === 'failed', { what: 'it has failed' })
  assert.equal((await report(bounce(mail))).status, 204)
  const retried = await operator.call('POST', `/admin/mails/${mail}/retry`)
  assert.deepEqual([retried.json.bounced_at, retried.json.bounce_reason], [null, null])
  await untilSent(mail)
  assert.ok(!(await undelivered()).includes(mail))
})

test('refuses reports that are unsigned, altered, too old or from the future, and changes nothing', async () => {
  const { mail, messageId } = await sendMail(await store.register())
  const body = bounce(messageId)
  const minutes = (count: number) => new Date(Date.now() + count * 60_000)
  const refused = [
    await report(body, { secret: generateWebhookSecret() }),
    await report(body, { sent: JSON.stringify(bounce('<other.1@store.example>')) }),
    await report(body, { sent: `${JSON.stringify(body)} ` }),
    await report(body, { at: minutes(-6) }),
    await report(body, { at: minutes(6) }),
    await store.call('POST', '/mail-events', { body }),
    await store.call('POST', '/mail-events', {
      body,
      headers: { 'webhook-id': 'a', 'webhook-timestamp': 'NaN', 'webhook-signature': 'v1,' },
    }),
  ]
  for (const answer of refused) assertProblem(answer, 403, 'invalid_signature')
  assertProblem(await report('{"type":'), 400, 'malformed_json')
  for (const incomplete of [{ data: {} }, {}, { data: null }, { data: { message_id: 7 } }])
    assertProblem(await report({ type: 'mail.bounced', ...incomplete }), 422, 'invalid_body')
  assertProblem(await report({ data: { message_id: messageId } }), 422, 'invalid_body')
  assert.equal((await get(`/admin/mails/${mail}`)).json.bounced_at, null)
})

test('accepts and ignores other events, and reports about unknown mails', async () => {
  const { mail, messageId } = await sendMail(await store.register())
  for (const event of [
    { type: 'mail.delivered', data: { message_id: messageId } },
    { type: 'mail.opened', data: { message_id: 7, reason: { code: 5 } }, at: 0 },
    { type: 'mail.clicked', data: null },
    { type: 'endpoint.verified' },
    bounce(`<${randomUUID()}@store.example>`),
    bounce(`${randomUUID()}.1`),
    bounce('<<>>'),
    bounce("' or true --"),
  ])
    assert.equal((await report(event)).status, 204)
  assert.equal((await get(`/admin/mails/${mail}`)).json.bounced_at, null)
})

test('keeps the beginning of a long reason, without addresses of any form', async () => {
  const { mail } = await sendMail(await store.register())
  const reason = `550 o'brien@example.com "ada lovelace"@example.com <"a\\"b"@example.com>: ${'no such mailbox '.repeat(1_000)}`
  assert.equal((await report(bounce(mail, reason))).status, 204)
  const { bounce_reason } = (await get(`/admin/mails/${mail}`)).json
  assert.match(bounce_reason, /^550 \(address\) \(address\) <\(address\)>: no such mailbox no such/)
  assert.equal(bounce_reason.length, 300)
})

test('without a secret the route does not exist', async (t) => {
  const without = await startStore(t)
  assertProblem(await without.call('POST', '/mail-events', { body: bounce('a') }), 404, 'not_found')
})
