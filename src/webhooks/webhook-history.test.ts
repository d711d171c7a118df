import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { silent } from '../../test/stream-harness.ts'
import { subscribe } from '../../test/topic-harness.ts'
import { makeNewEvent, startWebhooks } from '../../test/webhook-harness.ts'
import { startWebhookReceiver } from '../../test/webhook-receiver.ts'
import { rewindSubscriber } from '../audit/replay/rewind-subscriber.ts'
import type { OrderEvent } from '../orders/events.ts'
import { ORDERS } from '../topic/partitions.ts'
import { createPostgresTopic } from '../topic/postgres/postgres-topic.ts'
import { deleteOldEvents } from './webhook-deliveries.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

const daysAgo = (days: number) => new Date(Date.now() - days * DAY_MS)
const idsOf = (events: readonly OrderEvent[]) => events.map(({ id }) => id).toSorted()

test('events from before an endpoint was added are not posted to it, neither in the first run nor after a rewind', async (t) => {
  const { db, handle, add, deliveries, waitFor } = await startWebhooks(t)
  const topic = createPostgresTopic(ORDERS, { pool: db.pool, url: db.url, logger: silent })
  const ago = (ms: number) => makeNewEvent({ at: new Date(Date.now() - ms) })
  const publish = (...events: OrderEvent[]) => topic.publish(events.map((event) => ({ position: '', event })))
  const queued = async (id: string) => (await deliveries(id)).map(({ event_id }) => event_id).toSorted()

  const [old, newer] = [await startWebhookReceiver(t), await startWebhookReceiver(t)]
  const [first, second] = [await add(old.url), await add(newer.url)]
  await db.pool.query(`update webhook_endpoints set created_at = created_at - interval '2 days' where id = $1`, [first.id])
  const before = [ago(DAY_MS), ago(6 * MINUTE_MS)]
  // This event's clock is behind the database's, or it was still on its way when the endpoint was added.
  const skewed = ago(4 * MINUTE_MS)
  const after = makeNewEvent()
  await publish(ago(3 * DAY_MS), ...before, skewed, after)
  await subscribe(t, topic, 'webhook', handle)
  await waitFor(first.id, after, 'delivered')
  await waitFor(second.id, after, 'delivered')
  assert.deepEqual(await queued(first.id), idsOf([...before, skewed, after]))
  assert.deepEqual(await queued(second.id), idsOf([skewed, after]))

  // Restoring an older backup has this effect.
  await db.pool.query('delete from webhook_events where event_id = $1', [after.id])
  await rewindSubscriber({ pool: db.pool, url: db.url, topic, name: 'webhook' })
  await waitFor(first.id, after, 'delivered')
  await waitFor(second.id, after, 'delivered')
  assert.deepEqual(await queued(first.id), idsOf([...before, skewed, after]))
  assert.deepEqual(await queued(second.id), idsOf([skewed, after]))
  await eventually(async () => newer.requests.length === 3, { what: 'one that is posted again' })
})

test('an event whose record may be deleted is not posted again, however often it is read', async (t) => {
  const { db, add, publish, waitFor, deliveries } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const { id } = await add(receiver.url)
  await db.pool.query(`update webhook_endpoints set created_at = now() - interval '500 days'`)
  const event = makeNewEvent()
  await publish(event)
  await waitFor(id, event, 'delivered')
  for (const days of [29.99, 30.01, 30.99, 31.01, 400]) {
    await db.pool.query('update webhook_events set created_at = now() - make_interval(secs => $1)', [(days * DAY_MS) / 1_000])
    await deleteOldEvents(db.pool, new Date())
    await publish({ ...event, time: daysAgo(days).toISOString() })
    assert.deepEqual(
      (await deliveries(id)).map(({ status }) => status),
      days < 31 ? ['delivered'] : [],
      `after ${days} days`,
    )
  }
  assert.equal(receiver.requests.length, 1)
})

test('many old events are deleted in statements of at most a thousand', async (t) => {
  const { db } = await startWebhooks(t)
  await db.pool.query(
    `insert into webhook_events (event_id, type, body, created_at)
    select 'old ' || n, 'storefront.order.placed', '{}', now() - interval '40 days' from generate_series(1, 2500) as n`,
  )
  const deleted: (number | null)[] = []
  const query = db.pool.query.bind(db.pool) as (statement: unknown) => Promise<{ rowCount: number | null }>
  const watched = {
    async query(statement: unknown) {
      const result = await query(statement)
      deleted.push(result.rowCount)
      return result
    },
  }
  assert.equal(await deleteOldEvents(watched as unknown as typeof db.pool, new Date()), 2_500)
  assert.deepEqual(deleted, [1_000, 1_000, 500, 0])
})

test('delayed events are posted for thirty days, and older ones are logged', async (t) => {
  const { db, logged, clock, add, publish, waitFor, deliveries } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const all = await add(receiver.url)
  await add(receiver.url, ['storefront.order.shipped'])
  await db.pool.query(`update webhook_endpoints set created_at = now() - interval '31 days'`)
  // The time of the database counts, not that of this process.
  clock.passedMs = 60 * DAY_MS
  const late = makeNewEvent({ at: daysAgo(29.9) })
  await publish(late)
  await waitFor(all.id, late, 'delivered')
  assert.deepEqual(logged(), [])
  const old = { at: daysAgo(30.1) }
  const beforeAll = makeNewEvent({ at: daysAgo(32) })
  await publish({ ...late, time: old.at.toISOString() }, makeNewEvent(old), makeNewEvent(old), beforeAll)
  assert.deepEqual(
    (await deliveries(all.id)).map(({ event_id }) => event_id),
    [late.id],
  )
  assert.partialDeepStrictEqual(logged(), [{ level: 40, events: 3, msg: 'events older than 30 days are not posted any more' }])
})
