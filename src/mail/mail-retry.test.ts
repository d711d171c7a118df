import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { insertUser, startMailSubscriber, waitForDelivery } from '../../test/mail-harness.ts'
import { makeOrderEvent } from '../../test/order-event-factory.ts'
import { listDeliveries, retryFailed } from './email-deliveries.ts'
import { MailRefused } from './mailer.ts'
import { nextSendTime } from './plan-send-times.ts'

const HOUR_MS = 3_600_000
const UNLIMITED = { maxPerHour: null, now: new Date() }

test('failed mails can be retried, one or all of them', async (t) => {
  let isMended = false
  const { db, mails, publish } = await startMailSubscriber(t, {
    async send({ to }) {
      if (!isMended && to.address !== 'ada@example.com') throw new MailRefused('550 5.7.1 no')
    },
  })
  const eventOf = async (email: string) => makeOrderEvent({ order: { user_id: await insertUser(db, email) } })
  const [ada, bob, eve] = await Promise.all([eventOf('ada@example.com'), eventOf('bob@example.com'), eventOf('eve@example.com')])
  const events = [ada, bob, eve]
  await publish(events)
  await waitForDelivery(db, ada, 'sent')
  for (const event of [bob, eve]) await waitForDelivery(db, event, 'failed')
  isMended = true
  assert.equal(await retryFailed(db.pool, { ...UNLIMITED, eventId: ada.id }), 0, 'one that is out is not sent again')
  assert.equal(await retryFailed(db.pool, { ...UNLIMITED, eventId: bob.id }), 1)
  const sent = await waitForDelivery(db, bob, 'sent')
  assert.deepEqual([sent.attempts, sent.last_error], [1, null])
  assert.equal((await waitForDelivery(db, eve, 'failed')).last_error, '550 5.7.1 no')
  assert.equal(await retryFailed(db.pool, { ...UNLIMITED, eventId: null }), 1)
  await waitForDelivery(db, eve, 'sent')
  assert.deepEqual(mails.map(({ eventId }) => eventId).toSorted(), events.map(({ id }) => id).toSorted())
})

test('concurrent retries queue a mail once', async (t) => {
  const { db, mails, publish } = await startMailSubscriber(t, {
    async send() {
      if (mails.length === 0 && !isMended) throw new MailRefused('550 no')
    },
  })
  let isMended = false
  const event = makeOrderEvent({ order: { user_id: await insertUser(db, 'ada@example.com') } })
  await publish([event])
  await waitForDelivery(db, event, 'failed')
  isMended = true
  const queued = await Promise.all([1, 2, 3].map(() => retryFailed(db.pool, { ...UNLIMITED, eventId: null })))
  assert.equal(
    queued.reduce((sum, count) => sum + count, 0),
    1,
  )
  await waitForDelivery(db, event, 'sent')
  assert.equal(mails.length, 1)
})

test('an attempt that began before a mail was retried cannot fail the retried mail', async (t) => {
  const gate = Promise.withResolvers<void>()
  t.after(() => gate.resolve())
  let tries = 0
  const { db, publish } = await startMailSubscriber(t, {
    async send({ eventId }) {
      if (eventId === earlier.id) return
      if (++tries > 1) return
      await gate.promise
      throw new MailRefused('550 no')
    },
  })
  const userId = await insertUser(db, 'ada@example.com')
  const [earlier, event] = [makeOrderEvent({ order: { user_id: userId } }), makeOrderEvent({ order: { user_id: userId } })]
  // A domain that has taken a mail gets more than one at once.
  await publish([earlier])
  await waitForDelivery(db, earlier, 'sent')
  await publish([event])
  await eventually(async () => tries === 1)
  await db.pool.query(`update email_deliveries set status = 'failed' where event_id = $1`, [event.id])
  await retryFailed(db.pool, { ...UNLIMITED, eventId: null })
  await waitForDelivery(db, event, 'sent')
  gate.resolve()
  const { rows } = await eventually(async () => {
    const found = await db.pool.query('select status, attempts from email_deliveries where lease is null and event_id = $1', [event.id])
    return found.rowCount === 1 && found
  })
  assert.deepEqual(rows, [{ status: 'sent', attempts: 1 }])
})

test('a mail whose process died during the last attempt is given up, and counts as sent if it did go out', async (t) => {
  const gate = Promise.withResolvers<void>()
  t.after(() => gate.resolve())
  let tries = 0
  const { db, publish } = await startMailSubscriber(t, {
    maxAttempts: 1,
    async send({ eventId }) {
      if (eventId === earlier?.id) return
      tries++
      await gate.promise
    },
  })
  const userId = await insertUser(db, 'ada@example.com')
  const [earlier, event, lost] = [1, 2, 3].map(() => makeOrderEvent({ order: { user_id: userId } }))
  assert.ok(earlier && event && lost)
  // A domain that has taken a mail gets more than one at once.
  await publish([earlier])
  await waitForDelivery(db, earlier, 'sent')
  await publish([event])
  await eventually(async () => tries === 1)
  // Another process has given it up, after missed heartbeats of this one.
  await db.pool.query(
    `update email_deliveries set status = 'failed', failed_at = now(), receiver = null, lease = null, leased_until = null where event_id = $1`,
    [event.id],
  )
  gate.resolve()
  const sent = await waitForDelivery(db, event, 'sent')
  assert.deepEqual([sent.attempts, sent.last_error], [1, null])
  // The process that took it has ended.
  await db.pool.query('alter table email_deliveries alter attempts set default 1')
  await publish([lost])
  const failed = await waitForDelivery(db, lost, 'failed')
  assert.deepEqual([failed.attempts, failed.last_error, tries], [2, 'the process ended during the last try', 1])
})

test('lists mails by status and by order, newest first', async (t) => {
  const { db, publish } = await startMailSubscriber(t, {
    async send({ to }) {
      if (to.address === 'gone@example.com') throw new MailRefused('550 5.1.1 unknown')
    },
  })
  const [ada, gone] = await Promise.all([insertUser(db, 'ada@example.com'), insertUser(db, 'gone@example.com')])
  const created = makeOrderEvent({ order: { user_id: ada } })
  const shipped = makeOrderEvent({ type: 'storefront.order.shipped', order: { id: created.subject, user_id: ada, version: 2 } })
  const refused = makeOrderEvent({ order: { user_id: gone } })
  const expected = {
    event_id: refused.id,
    attempts: 1,
    order_number: '7',
    event_type: 'storefront.order.created',
    status: 'failed',
    last_error: '550 5.1.1 unknown',
  }
  await db.pool.query(
    `insert into orders (id, number, user_id, status, items, total_amount, currency, status_history, created_at, updated_at)
     values ($1, 7, $2, 'pending', $5, 2500, 'EUR', $6, now(), now()), ($3, 8, $4, 'pending', $5, 2500, 'EUR', $6, now(), now())`,
    [
      ...[refused.subject, gone, created.subject, ada],
      ...[JSON.stringify(created.data.order.items), JSON.stringify(created.data.order.status_history)],
    ],
  )
  await publish([created])
  await publish([shipped])
  await publish([refused])
  await waitForDelivery(db, created, 'sent')
  await waitForDelivery(db, shipped, 'sent')
  await waitForDelivery(db, refused, 'failed')
  const list = async (filter: object) => (await listDeliveries(db.pool, { limit: 10, ...filter })).map(({ event_id }) => event_id)
  assert.deepEqual(await list({}), [refused.id, shipped.id, created.id])
  assert.deepEqual(await list({ limit: 1 }), [refused.id])
  assert.deepEqual(await list({ status: 'sent' }), [shipped.id, created.id])
  assert.deepEqual(await list({ order: '8' }), [shipped.id, created.id])
  assert.deepEqual(await list({ order: created.subject.toUpperCase() }), [shipped.id, created.id])
  assert.deepEqual(await list({ order: '8', status: 'failed' }), [])
  assert.deepEqual(await list({ order: '9' }), [])
  const [failed] = await listDeliveries(db.pool, { status: 'failed', limit: 10 })
  assert.partialDeepStrictEqual(failed, expected)
})

test('an account’s mails beyond the limit wait for their hour and are not lost, and other accounts do not wait', async (t) => {
  const anHourAgo = Date.now() - HOUR_MS
  const { db, mails, publish } = await startMailSubscriber(t, { maxPerHour: 2, now: () => new Date(anHourAgo) })
  const [ada, bob] = await Promise.all([insertUser(db, 'ada@example.com'), insertUser(db, 'bob@example.com')])
  const events = Array.from({ length: 5 }, () => makeOrderEvent({ order: { user_id: ada } }))
  const others = [makeOrderEvent({ order: { user_id: bob } }), makeOrderEvent({ order: { user_id: bob } })]
  await publish([...events.slice(0, 3), ...others])
  await publish([...events, ...others])
  for (const event of [...events.slice(0, 4), ...others]) await waitForDelivery(db, event, 'sent')
  const { rows } = await db.pool.query(
    `select event_id, send_after from email_deliveries where user_id = $1 order by send_after, event_id`,
    [ada],
  )
  assert.deepEqual(
    rows.map(({ send_after }) => send_after.getTime() - anHourAgo),
    [0, 0, HOUR_MS, HOUR_MS, 2 * HOUR_MS],
  )
  const last = await waitForDelivery(db, events[4] ?? makeOrderEvent(), 'queued')
  assert.equal(last.attempts, 0)
  assert.equal(mails.length, 6)
  const due = await db.pool.query('select due_at from email_deliveries where event_id = $1', [events[4]?.id])
  assert.deepEqual(due.rows, [{ due_at: last.send_after }])
})

test('retried mails count like new ones, and those beyond an account’s limit wait for their hour', async (t) => {
  const clock = { ms: Date.now() - 2 * HOUR_MS }
  const now = () => new Date(clock.ms)
  let isMended = false
  const { db, mails, publish } = await startMailSubscriber(t, {
    maxPerHour: 2,
    now,
    async send({ to }) {
      if (!isMended && to.address !== 'eve@example.com') throw new MailRefused('550 no')
    },
  })
  const [ada, bob, eve] = await Promise.all(['ada', 'bob', 'eve'].map((name) => insertUser(db, `${name}@example.com`)))
  const eventOf = (user?: string) => makeOrderEvent({ order: { user_id: user } as { user_id: string } })
  const events = [eventOf(ada), eventOf(ada), eventOf(bob), eventOf(eve)]
  await publish(events)
  clock.ms += HOUR_MS
  const later = [eventOf(ada), eventOf(ada)]
  await publish(later)
  for (const event of [...events.slice(0, 3), ...later]) await waitForDelivery(db, event, 'failed')
  await waitForDelivery(db, events[3] ?? eventOf(), 'sent')
  isMended = true
  // The two that were refused just now do not count beside themselves.
  assert.equal(await retryFailed(db.pool, { eventId: null, maxPerHour: 2, now: now() }), 5)
  for (const event of [...events, ...later]) await waitForDelivery(db, event, 'sent')
  const startedAt = clock.ms
  const next = eventOf(ada)
  await publish([next])
  const timesOf = async (user?: string) => {
    const { rows } = await db.pool.query(
      'select event_id, send_after from email_deliveries where user_id = $1 order by send_after, event_id',
      [user],
    )
    return rows.map(({ event_id, send_after }) => [event_id, (send_after.getTime() - startedAt) / HOUR_MS])
  }
  const byId = (batch: { id: string }[]) => batch.map(({ id }) => id).toSorted()
  assert.deepEqual(await timesOf(ada), [
    ...byId(events.slice(0, 2)).map((id) => [id, 0]),
    ...byId(later).map((id) => [id, 1]),
    [next.id, 2],
  ])
  assert.deepEqual(await timesOf(bob), [[events[2]?.id, 0]])
  const { rows } = await db.pool.query('select due_at from email_deliveries where event_id = $1', [later[0]?.id])
  assert.deepEqual(rows, [{ due_at: new Date(startedAt + HOUR_MS) }])
  assert.equal(mails.filter(({ to }) => to.address === 'ada@example.com').length, 4)
})

test('no hour has more mails of an account than the limit, however they arrive', () => {
  let seed = 42
  const random = () => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
    return seed / 2 ** 31
  }
  for (let round = 0; round < 50; round++) {
    const limit = 1 + Math.floor(random() * 5)
    const sent: number[] = []
    let now = 0
    for (let mail = 0; mail < 60; mail++) {
      now += random() < 0.6 ? 0 : random() * HOUR_MS
      const recent = sent.filter((time) => time > now - HOUR_MS)
      sent.push(nextSendTime(recent.slice(-limit), limit, now))
    }
    assert.deepEqual(
      sent,
      sent.toSorted((a, b) => a - b),
    )
    for (const [index, time] of sent.entries()) assert.ok((sent[index + limit] ?? Number.POSITIVE_INFINITY) - time >= HOUR_MS)
  }
})

test('an event without a mail is skipped', async (t) => {
  const { db, publish } = await startMailSubscriber(t)
  const user = await insertUser(db, 'ada@example.com')
  const event = { ...makeOrderEvent({ order: { user_id: user } }), type: 'storefront.order.refunded' as 'storefront.order.created' }
  await publish([event])
  assert.deepEqual(await listDeliveries(db.pool, { limit: 10 }), [])
})
