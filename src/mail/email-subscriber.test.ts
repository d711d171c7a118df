import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import pino from 'pino'
import { createTestDatabase, type TestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { makeOrderEvent, makeOrderItem } from '../../test/order-event-factory.ts'
import { startSmtpServer } from '../../test/smtp-server.ts'
import { DeliveryQueue } from '../deliveries/delivery-queue.ts'
import type { OrderEvent } from '../orders/events.ts'
import { createEmailSubscriber } from './email-subscriber.ts'
import { mailLanguages } from './mail-languages.ts'
import type { Mail, Mailer } from './mailer.ts'
import { createMailRenderer } from './render-mail.ts'
import { createSmtpMailer } from './smtp-mailer.ts'
import { createTemplateReader } from './templates.ts'

const FROM = 'The Store <no-reply@store.example>'
const logger = pino({ level: 'silent' })
const basics = {
  makeOrderToken: () => 'order-token',
  render: createMailRenderer({ orderUrl: 'https://shop.example/order' }, createTemplateReader(null), mailLanguages('en', null)),
  logger,
  now: () => new Date(),
  maxPerHour: null,
}

async function setUp(t: TestContext, options: { mailer?: Mailer; maxAttempts?: number } = {}) {
  const db = await createTestDatabase(t)
  const server = await startSmtpServer(t)
  const deliveries = new DeliveryQueue({ pool: db.pool, logger, longestPauseSeconds: 0 })
  await deliveries.start()
  const mailer = options.mailer ?? createSmtpMailer({ url: server.url, from: FROM })
  const subscriber = createEmailSubscriber({ ...basics, pool: db.pool, deliveries, mailer, maxAttempts: options.maxAttempts ?? 100 })
  await subscriber.start()
  t.after(async () => {
    await subscriber.stop()
    await deliveries.stop()
  })
  return { db, deliveries, server, subscriber }
}

async function insertUser(db: TestDatabase, email: string, name: string | null = null): Promise<string> {
  const id = randomUUID()
  await db.pool.query(`insert into users (id, email, name, password_hash) values ($1, $2, $3, 'x')`, [id, email, name])
  return id
}

function publish(subscriber: ReturnType<typeof createEmailSubscriber>, events: OrderEvent[]): Promise<void> {
  const messages = events.map((event, index) => ({ sequence: index + 1, event }))
  return subscriber.handle(messages, new AbortController().signal)
}

interface Delivery {
  status: string
  attempts: number
  last_error: string | null
  sent_at: Date | null
}

async function deliveryOf(db: TestDatabase, event: OrderEvent): Promise<Delivery | undefined> {
  const { rows } = await db.pool.query(`select status, attempts, last_error, sent_at from email_deliveries where event_id = $1`, [event.id])
  return rows[0]
}

function waitFor(db: TestDatabase, event: OrderEvent, status: string): Promise<Delivery> {
  return eventually(
    async () => {
      const delivery = await deliveryOf(db, event)
      return delivery?.status === status && delivery
    },
    { what: `the mail is ${status}` },
  )
}

function recordingMailer(send: (mail: Mail) => Promise<void>): Mailer & { mails: Mail[]; isClosed: boolean } {
  const mailer = {
    connections: 16,
    mails: [] as Mail[],
    isClosed: false,
    async send(mail: Mail) {
      mailer.mails.push(mail)
      await send(mail)
    },
    async close() {
      mailer.isClosed = true
    },
  }
  return mailer
}

test('each order event makes one mail to the customer, however often it is delivered', async (t) => {
  const { db, server, subscriber } = await setUp(t)
  const [ada, bob] = [await insertUser(db, 'ada@example.com', 'Ada <script>'), await insertUser(db, 'bob@example.com')]
  const items = [makeOrderItem({ name: 'Mug <script>' })]
  const events = [
    makeOrderEvent({ order: { user_id: ada, number: 'SF-1', items } }),
    makeOrderEvent({ type: 'storefront.order.shipped', order: { user_id: bob, number: 'SF-2', version: 3 } }),
  ] as const
  await publish(subscriber, [...events, events[0]])
  await publish(subscriber, [...events])
  for (const event of events) await waitFor(db, event, 'sent')
  await publish(subscriber, [...events])
  assert.equal(server.mails.length, 2)
  const [created, shipped] = events.map(({ id }) => server.mails.find(({ messageId }) => messageId === `<${id}@store.example>`))
  assert.equal(created?.subject, 'We have received your order SF-1')
  assert.ok(created.text?.includes('2 × Mug <script>'))
  assert.ok(String(created.html).includes('Mug &lt;script&gt;') && !String(created.html).includes('<script>'))
  assert.equal(shipped?.subject, 'Your order SF-2 is on its way')
  assert.equal(shipped.to && 'text' in shipped.to && shipped.to.text, 'bob@example.com')
  const { rows } = await db.pool.query('select order_id, user_id, event_type, status, attempts from email_deliveries order by event_type')
  assert.deepEqual(
    rows.map((row) => Object.values(row)),
    events.map((event) => [event.subject, event.data.order.user_id, event.type, 'sent', 1]),
  )
})

test('queues nothing if a batch cannot be queued as a whole', async (t) => {
  const { db, subscriber } = await setUp(t)
  const events = [makeOrderEvent(), makeOrderEvent({ order: { user_id: 'not a uuid' } })]
  await assert.rejects(publish(subscriber, events))
  assert.equal((await db.pool.query('select from email_deliveries')).rowCount, 0)
})

test('mails wait while the mail server is unavailable, and are sent when it is back', async (t) => {
  const { db, server, subscriber } = await setUp(t)
  const event = makeOrderEvent({ order: { user_id: await insertUser(db, 'ada@example.com') } })
  await server.stop()
  await publish(subscriber, [event])
  const waiting = await eventually(async () => {
    const delivery = await deliveryOf(db, event)
    return delivery !== undefined && delivery.last_error !== null && delivery
  })
  assert.equal(waiting.status, 'queued')
  assert.match(waiting.last_error ?? '', /ECONNREFUSED/)
  const back = await startSmtpServer(t, server.port)
  const sent = await waitFor(db, event, 'sent')
  assert.ok(sent.attempts >= 2)
  assert.ok(sent.last_error === null && sent.sent_at)
  assert.equal(back.mails.length, 1)
})

test('a permanently refused recipient fails at once with the reason, and the other mails of the batch are sent once', async (t) => {
  const { db, server, subscriber } = await setUp(t)
  server.refuse('gone@example.com', { code: 550, text: '5.1.1 <gone@example.com> unknown' })
  server.refuse('busy@example.com', { code: 451, text: '4.7.1 try later', times: 2 })
  const users = await Promise.all(['ada', 'gone', 'busy', 'bob'].map((name) => insertUser(db, `${name}@example.com`)))
  const events = users.map((userId) => makeOrderEvent({ order: { user_id: userId } }))
  await publish(subscriber, events)
  const [ada, gone, busy, bob] = await Promise.all(events.map((event, index) => waitFor(db, event, index === 1 ? 'failed' : 'sent')))
  assert.deepEqual([ada?.attempts, gone?.attempts, busy?.attempts, bob?.attempts], [1, 1, 3, 1])
  assert.match(gone?.last_error ?? '', /550 5\.1\.1 <\(address\)> unknown/)
  assert.equal(gone?.sent_at, null)
  assert.equal(server.mails.length, 3)
  const { rows } = await db.pool.query('select event_id, receiver from email_deliveries where failed_at is not null')
  assert.deepEqual(rows, [{ event_id: events[1]?.id, receiver: null }])
})

test('a mail that keeps failing is given up after its last attempt, and delays no other', async (t) => {
  const mailer = recordingMailer(async ({ to }) => {
    if (to.address === 'poison@example.com') throw new Error('cannot talk to poison@example.com')
  })
  const { db, subscriber } = await setUp(t, { mailer, maxAttempts: 2 })
  const poison = makeOrderEvent({ order: { user_id: await insertUser(db, 'poison@example.com') } })
  const fine = makeOrderEvent({ order: { user_id: await insertUser(db, 'ada@example.com') } })
  await publish(subscriber, [poison, fine])
  await waitFor(db, fine, 'sent')
  const failed = await waitFor(db, poison, 'failed')
  assert.equal(failed.attempts, 2)
  assert.equal(failed.last_error, 'cannot talk to (address)')
  assert.equal(mailer.mails.filter(({ eventId }) => eventId === poison.id).length, 2)
})

test('a mail to a deleted account fails and is not retried', async (t) => {
  const { db, server, subscriber } = await setUp(t)
  const event = makeOrderEvent()
  const other = makeOrderEvent({ order: { user_id: await insertUser(db, 'ada@example.com') } })
  await publish(subscriber, [event, other])
  const failed = await waitFor(db, event, 'failed')
  await waitFor(db, other, 'sent')
  assert.deepEqual([failed.attempts, failed.last_error], [1, 'the account no longer exists'])
  assert.equal(server.mails.length, 1)
})

test('a mail that was interrupted by a crash is sent again as the same message', async (t) => {
  let isFirst = true
  let smtp: Mailer | undefined
  const mailer = recordingMailer(async (mail) => {
    await smtp?.send(mail)
    if (!isFirst) return
    isFirst = false
    throw new Error('the process died before it could write down that the mail is out')
  })
  const { db, server, subscriber } = await setUp(t, { mailer })
  smtp = createSmtpMailer({ url: server.url, from: FROM })
  t.after(() => smtp?.close())
  const event = makeOrderEvent({ order: { user_id: await insertUser(db, 'ada@example.com') } })
  await publish(subscriber, [event])
  const sent = await waitFor(db, event, 'sent')
  assert.equal(sent.attempts, 2)
  assert.deepEqual(
    server.mails.map(({ messageId }) => messageId),
    Array(2).fill(`<${event.id}@store.example>`),
  )
})

test('a hundred mails of one batch are sent, each once', async (t) => {
  const { db, server, subscriber } = await setUp(t)
  const userId = await insertUser(db, 'ada@example.com')
  const events = Array.from({ length: 100 }, () => makeOrderEvent({ order: { user_id: userId } }))
  await publish(subscriber, events)
  await eventually(async () => server.mails.length === 100)
  assert.equal(new Set(server.mails.map(({ messageId }) => messageId)).size, 100)
})

test('stopping waits for the mail in flight and closes the mailer, and works before start and twice', async (t) => {
  const begun = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  const mailer = recordingMailer(async () => {
    begun.resolve()
    await gate.promise
  })
  const { db, deliveries, subscriber } = await setUp(t, { mailer })
  const unused = recordingMailer(async () => {})
  await createEmailSubscriber({ pool: db.pool, deliveries, mailer: unused, ...basics }).stop()
  assert.equal(unused.isClosed, true)
  const event = makeOrderEvent({ order: { user_id: await insertUser(db, 'ada@example.com') } })
  await publish(subscriber, [event])
  await begun.promise
  const stopped = Promise.all([subscriber.stop(), subscriber.stop()])
  assert.equal((await deliveryOf(db, event))?.status, 'queued')
  assert.equal(mailer.isClosed, false)
  gate.resolve()
  await stopped
  assert.equal((await deliveryOf(db, event))?.status, 'sent')
  assert.equal(mailer.isClosed, true)
})
