import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startSmtpServer } from '../../test/smtp-server.ts'
import { type Account, startStore } from '../../test/store.ts'
import { sendAgain } from './send-again.ts'

const smtp = await startSmtpServer({ after })
const store = await startStore({ after }, { roles: ['api', 'stream', 'email'], smtpUrl: smtp.url, mailMaxPerHour: null })
const [operator, colleague] = [await registerOperator(store), await registerOperator(store)]
const mug = await store.addProduct({ stock: 1_000 })

const get = (path: string) => operator.call('GET', path)
const again = (eventId: string, { token }: Account = operator) => store.call('POST', `/admin/mails/${eventId}/send-again`, { token })

async function placeOrder({ token }: Account): Promise<{ id: string; mail: string }> {
  const json = await store.ok('POST', '/orders', { token, body: { items: [{ product_id: mug.id, quantity: 2 }] } })
  return { id: json.id, mail: `${json.id}.1` }
}

const untilIs = (eventId: string, status: string) =>
  eventually(async () => (await get(`/admin/mails/${eventId}`)).json?.status === status, {
    what: `${eventId} is ${status}`,
  })
const sentAbout = (id: string) => smtp.mails.filter((mail) => String(mail.headers.get('x-storefront-event')).startsWith(id))
const countCopies = async (id: string) =>
  (await store.pool.query('select count(*)::integer as n from email_deliveries where order_id = $1', [id])).rows[0].n - 1

test('if two operators send a mail again at once, one succeeds: a copy goes to the current address and is in the timeline', async () => {
  const customer = await store.register()
  const { id, mail } = await placeOrder(customer)
  await untilIs(mail, 'sent')
  await store.pool.query('update users set email = $2 where id = $1', [customer.id, `new-${customer.email}`])
  // The copy stays queued until its second attempt.
  smtp.refuse(`new-${customer.email}`, { code: 451, text: 'later', times: 1 })
  const answers = await Promise.all([again(mail), again(mail, colleague), again(mail)])
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 409, 409])
  for (const answer of answers.filter(({ status }) => status === 409)) assertProblem(answer, 409, 'mail_not_sent')
  const copy = answers.find(({ status }) => status === 200)?.json
  assert.deepEqual([copy.event_id, copy.copy_of, copy.to], [`${mail}.copy1`, mail, `new-${customer.email}`])
  assert.match(copy.rendered.subject, /^Copy: We have received your order/)
  await untilIs(copy.event_id, 'sent')
  const [first, second, ...others] = sentAbout(id)
  assert.equal(others.length, 0)
  assert.equal(second?.subject, `Copy: ${first?.subject}`)
  assert.notEqual(second?.messageId, first?.messageId)
  assert.ok(second?.to !== undefined && 'value' in second.to)
  assert.equal(second.to.value[0]?.address, `new-${customer.email}`)
  const { timeline } = (await get(`/admin/orders/${id}`)).json
  assert.deepEqual(
    timeline.map((entry: { mail: { status: string }; mail_copies: { status: string }[] }) => [
      entry.mail.status,
      entry.mail_copies.map(({ status }) => status),
    ]),
    [['sent', ['sent']]],
  )
  assert.equal((await get(`/admin/mails/${copy.event_id}`)).json.rendered.subject, second.subject)
})

test('a mail is sent again at most five times, also if the ids of its copies are used', async () => {
  const { id, mail } = await placeOrder(await store.register())
  await untilIs(mail, 'sent')
  for (let number = 1; number <= 5; number++) {
    const { status, json, text } = await again(number === 1 ? mail : `${mail}.copy${number - 1}`)
    assert.equal(status, 200, text)
    assert.deepEqual([json.event_id, json.copy_of], [`${mail}.copy${number}`, mail])
    await untilIs(json.event_id, 'sent')
  }
  assert.match(assertProblem(await again(mail), 409, 'mail_not_repeatable').detail, /five|5 times/)
  assert.equal(sentAbout(id).length, 6)
})

test('refuses mails that are queued, failed or unknown, and mails of erased accounts and lost orders', async () => {
  const customer = await store.register()
  const { id, mail } = await placeOrder(customer)
  await untilIs(mail, 'sent')
  for (const status of ['queued', 'failed']) {
    // The mail stays in this status, because it is not due.
    await store.pool.query(
      `update email_deliveries set status = $2, receiver = '-', due_at = now() + interval '1 day' where event_id = $1`,
      [mail, status],
    )
    assert.match(assertProblem(await again(mail), 409, 'mail_not_sent').detail, new RegExp(status))
  }
  await store.pool.query(`update email_deliveries set status = 'sent', receiver = null where event_id = $1`, [mail])
  for (const unknown of [`${randomUUID()}.1`, `${id}.9`, `${id}.1.copy9`, `${id}.1.copy`, 'x'])
    assertProblem(await again(unknown), 404, 'not_found', unknown)
  const lost = `${id}.7`
  await store.pool.query(
    `insert into email_deliveries (event_id, order_id, user_id, event_type, status)
    select $2, order_id, user_id, event_type, 'sent' from email_deliveries where event_id = $1`,
    [mail, lost],
  )
  assertProblem(await again(lost), 409, 'mail_not_repeatable')
  await customer.ok('DELETE', '/me')
  assertProblem(await again(mail), 409, 'mail_not_repeatable')
  assert.equal((await again(mail, customer)).status, 401)
  assert.equal(await countCopies(id), 1, 'the row of the lost order')
})

test('a copy counts towards the hourly limit of mails', async (t) => {
  const other = await startStore(t, { roles: ['api', 'stream', 'email'], smtpUrl: smtp.url, mailMaxPerHour: 1 })
  const admin = await registerOperator(other)
  const customer = await other.register()
  const lamp = await other.addProduct()
  const json = await customer.ok('POST', '/orders', { body: { items: [{ product_id: lamp.id, quantity: 1 }] } })
  const path = `/admin/mails/${json.id}.1`
  await eventually(async () => (await admin.call('GET', path)).json?.status === 'sent')
  const copy = await admin.call('POST', `${path}/send-again`)
  assert.equal(copy.status, 200, copy.text)
  assert.ok(Date.parse(copy.json.send_after) > Date.now() + 50 * 60_000, copy.json.send_after)
  await other.pool.query(`delete from email_deliveries where status = 'queued'`)
})

test('queues nothing if the activity cannot be recorded', async () => {
  const { id, mail } = await placeOrder(await store.register())
  await untilIs(mail, 'sent')
  const auditContext = { actor: { type: 'nobody' as 'system', id: null }, action: 'sendMailAgain', requestId: null }
  const { json } = await get(`/admin/mails/${mail}`)
  assert.equal(json.status, 'sent')
  const { rows } = await store.pool.query('select id from orders where id = $1', [id])
  assert.equal(rows.length, 1)
  const event = { id: mail, type: 'storefront.order.created', time: new Date().toISOString(), data: { order: EXAMPLE } }
  await assert.rejects(
    sendAgain(store.pool, { eventId: mail, event: event as never, maxPerHour: null, now: new Date(), auditContext }),
    /activities/,
  )
  assert.equal(await countCopies(id), 0)
})

const EXAMPLE = {
  number: '1',
  user_id: randomUUID(),
  status: 'pending',
  status_history: [{}],
  items: [],
  total: { amount: 0, currency: 'EUR' },
}

test('a notice goes to the former address, is sent once, and is not sent if the former address gets another mail', async () => {
  const customer = await store.register()
  const { id, mail } = await placeOrder(customer)
  await untilIs(mail, 'sent')
  const amend = (email: string | null) => operator.call('POST', `/admin/orders/${id}/amendments`, { body: { email } })
  assert.equal((await amend(`other-${customer.email}`)).status, 200)
  await untilIs(`${id}.2.former`, 'sent')
  assertProblem(await again(`${id}.2.former`), 409, 'mail_not_repeatable')
  for (const eventId of [`${id}x2`, `${id}.2xformer`]) assertProblem(await again(eventId), 404, 'not_found')
  await store.pool.query(`update users set email = md5(id::text) || '@no-address.invalid' where id = $1`, [customer.id])
  const { json } = await amend(null)
  assert.deepEqual(json.mails, [{ kind: 'readdressed', to: 'former_address' }])
  await untilIs(`${id}.3.former`, 'sent')
  const last = await amend(`third-${customer.email}`)
  assert.deepEqual(last.json.mails, [{ kind: 'amended', to: 'customer' }])
  await untilIs(`${id}.4`, 'sent')
  assertProblem(await get(`/admin/mails/${id}.4.former`), 404, 'not_found')
})
