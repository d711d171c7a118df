import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { makeNewEvent, startWebhooks } from '../../test/webhook-harness.ts'
import { isAuthentic, startWebhookReceiver } from '../../test/webhook-receiver.ts'
import { inTransaction } from '../db/transaction.ts'
import { pairWanted } from './wanted-events.ts'
import { deleteOldEvents, insertDeliveries, redeliver } from './webhook-deliveries.ts'
import { disableEndpoint, enableEndpoint, lockRecipients, removeEndpoint } from './webhook-endpoints.ts'

const DAY_MS = 86_400_000

test('an event goes once to each endpoint that wants it, signed with that endpoint’s secret', async (t) => {
  const { db, add, publish, waitFor } = await startWebhooks(t)
  const [all, shipments] = [await startWebhookReceiver(t), await startWebhookReceiver(t)]
  const first = await add(all.url)
  const second = await add(shipments.url, ['storefront.order.shipped'])
  const created = makeNewEvent()
  const shipped = makeNewEvent({ type: 'storefront.order.shipped' })
  await publish(created, shipped, created)
  await publish(created, shipped)
  await waitFor(first.id, created, 'delivered')
  await waitFor(first.id, shipped, 'delivered')
  await waitFor(second.id, shipped, 'delivered')
  await publish(created, shipped)
  assert.deepEqual(all.requests.map(({ headers }) => headers['webhook-id']).toSorted(), [created.id, shipped.id].toSorted())
  assert.deepEqual(
    shipments.requests.map(({ headers, body }) => [headers['webhook-id'], JSON.parse(body)]),
    [[shipped.id, shipped]],
  )
  assert.ok(all.requests.every((request) => isAuthentic(first.secret, request) && !isAuthentic(second.secret, request)))
  assert.ok(shipments.requests.every((request) => isAuthentic(second.secret, request)))
  const { rows } = await db.pool.query('select sealed_secret from webhook_endpoints')
  assert.ok(rows.every((row) => !JSON.stringify(row).includes(first.secret.slice(6, 20))))
  assert.equal((await db.pool.query('select from webhook_deliveries')).rowCount, 3)
})

test('a delivery that is not accepted is retried with the same id, whatever the response was', async (t) => {
  const { add, publish, waitFor, endpoint } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const { id, secret } = await add(receiver.url)
  const answers = [500, 301, 404, 429]
  receiver.answer((response) => {
    response.writeHead(answers.shift() ?? 202, { location: receiver.url }).end()
  })
  const event = makeNewEvent()
  await publish(event)
  const delivered = await waitFor(id, event, 'delivered')
  assert.equal(delivered.attempts, 5)
  assert.equal(delivered.last_error, null)
  assert.deepEqual(new Set(receiver.requests.map(({ headers }) => headers['webhook-id'])), new Set([event.id]))
  assert.ok(receiver.requests.every((request) => isAuthentic(secret, request)))
  // A statement after that of the outcome.
  await eventually(async () => (await endpoint(id)).failing_since === null)
})

test('an endpoint that is down delays no other, and gets its webhooks when it is back', async (t) => {
  const { add, publish, waitFor, endpoint } = await startWebhooks(t)
  const [hanging, well] = [await startWebhookReceiver(t), await startWebhookReceiver(t)]
  const stuck = await add(hanging.url)
  const fine = await add(well.url)
  const held: ServerResponse[] = []
  hanging.answer((response) => void held.push(response))
  const events = Array.from({ length: 40 }, () => makeNewEvent())
  await publish(...events)
  for (const event of events) await waitFor(fine.id, event, 'delivered')
  assert.equal(well.requests.length, events.length)
  await eventually(async () => held.length > 0)
  hanging.answer((response) => void response.destroy())
  for (const response of held) response.destroy()
  const { failing_since, queued } = await eventually(async () => {
    const listed = await endpoint(stuck.id)
    return listed.failing_since !== null && listed
  })
  assert.ok(failing_since instanceof Date)
  assert.equal(queued, events.length)
  hanging.answer(200)
  for (const event of events) await waitFor(stuck.id, event, 'delivered')
  assert.equal((await endpoint(stuck.id)).failing_since, null)
})

test('410 disables an endpoint at once, and what it misses can be redelivered after it was enabled', async (t) => {
  const { db, add, publish, waitFor, endpoint, deliveries } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const { id } = await add(receiver.url)
  receiver.answer(410)
  const [first, second, third] = [makeNewEvent(), makeNewEvent(), makeNewEvent()]
  await publish(first)
  assert.equal((await waitFor(id, first, 'failed')).last_error, 'answered 410')
  const disabled = await eventually(async () => {
    const listed = await endpoint(id)
    return listed.disabled_at !== null && listed
  })
  assert.equal(disabled.reason, 'it answered 410 Gone')
  await publish(second, third)
  assert.deepEqual((await deliveries(id)).map(({ status, attempts }) => [status, attempts]).toSorted(), [
    ['failed', 0],
    ['failed', 0],
    ['failed', 1],
  ])
  await assert.rejects(redeliver(db.pool, id, null), /enable it first/)
  receiver.answer(200)
  assert.ok(await enableEndpoint(db.pool, id))
  assert.equal(await redeliver(db.pool, id, second.id), 1)
  await waitFor(id, second, 'delivered')
  assert.equal((await deliveries(id)).filter(({ status }) => status === 'failed').length, 2)
  assert.equal(await redeliver(db.pool, id, null), 2)
  for (const event of [first, third]) await waitFor(id, event, 'delivered')
  assert.equal(await redeliver(db.pool, id, first.id), 1, 'one that was delivered is delivered again when it is asked for')
  await eventually(async () => receiver.requests.filter(({ headers }) => headers['webhook-id'] === first.id).length === 3)
})

test('an endpoint that accepted nothing for three days is disabled, and its webhooks have failed', async (t) => {
  const { clock, add, publish, waitFor, endpoint } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const { id } = await add(receiver.url)
  receiver.answer(503)
  const event = makeNewEvent()
  await publish(event)
  await eventually(async () => receiver.requests.length >= 2)
  clock.passedMs = 2.9 * DAY_MS
  const soFar = receiver.requests.length
  await eventually(async () => receiver.requests.length >= soFar + 2)
  assert.equal((await endpoint(id)).disabled_at, null)
  clock.passedMs = 3.1 * DAY_MS
  await waitFor(id, event, 'failed')
  const { reason } = await eventually(async () => {
    const listed = await endpoint(id)
    return listed.disabled_at !== null && listed
  })
  assert.equal(reason, 'nothing was taken for three days: answered 503')
})

test("a process whose clock differs from the database's gives up no webhook", async (t) => {
  const { clock, add, publish, waitFor } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const { id } = await add(receiver.url)
  clock.passedMs = 3.1 * DAY_MS
  receiver.answer(503)
  const event = makeNewEvent()
  await publish(event)
  await eventually(async () => receiver.requests.length >= 2)
  receiver.answer(200)
  await waitFor(id, event, 'delivered')
})

test('one event that an endpoint never accepts fails alone after three days', async (t) => {
  const { db, clock, add, publish, waitFor, endpoint } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const { id } = await add(receiver.url)
  const [poison, fine] = [makeNewEvent(), makeNewEvent()]
  receiver.answer((response, { headers }) => void response.writeHead(headers['webhook-id'] === poison.id ? 500 : 200).end())
  await publish(poison)
  await eventually(async () => receiver.requests.length >= 1)
  clock.passedMs = 2.5 * DAY_MS
  await publish(fine)
  await waitFor(id, fine, 'delivered')
  await eventually(async () => ((await endpoint(id)).failing_since?.getTime() ?? 0) > Date.now() + 2 * DAY_MS)
  await db.pool.query(`update webhook_deliveries set first_tried_at = now() - interval '3.1 days' where event_id = $1`, [poison.id])
  const failed = await waitFor(id, poison, 'failed')
  assert.equal(failed.last_error, 'answered 500')
  assert.equal((await endpoint(id)).disabled_at, null)
})

test('if an endpoint is disabled while events are queued for it, none of them stays queued', async (t) => {
  const { db, add, deliveries } = await startWebhooks(t)
  const { id } = await add('http://127.0.0.1:1/')
  let disabling: Promise<unknown> | undefined
  await inTransaction(db.pool, async (tx) => {
    const recipients = await lockRecipients(tx)
    let isDisabled = false
    disabling = disableEndpoint(db.pool, id, 'by this test', new Date()).then(() => {
      isDisabled = true
    })
    const isWaiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    await eventually(async () => isDisabled || (await db.pool.query(isWaiting)).rowCount === 1)
    const { pairs } = pairWanted(recipients, [makeNewEvent(), makeNewEvent()], new Date())
    await insertDeliveries(tx, pairs, new Date())
  })
  await disabling
  assert.deepEqual(
    (await deliveries(id)).map(({ status, last_error }) => [status, last_error]),
    Array(2).fill(['failed', 'the endpoint was disabled']),
  )
})

test('neither publishing events nor removing an endpoint fails when both happen at the same time', async (t) => {
  const { db, add, publish, deliveries } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const { id } = await add(receiver.url)
  const publishing = Array.from({ length: 20 }, () => publish(makeNewEvent(), makeNewEvent()))
  await Promise.all([...publishing, removeEndpoint(db.pool, id)])
  assert.deepEqual(await deliveries(id), [])
})

test('an endpoint with any number of deliveries is disabled and removed by statements of at most a thousand rows', async (t) => {
  const { db, add, endpoint } = await startWebhooks(t)
  const { id } = await add('http://127.0.0.1:1/')
  await db.pool.query(`create function refuse_many() returns trigger language plpgsql as $$ begin
      if (select count(*) from changed) > 1000 then raise exception 'too many at once'; end if;
      return null;
    end $$;
    create trigger update_few after update on webhook_deliveries referencing new table as changed for each statement execute function refuse_many();
    create trigger delete_few after delete on webhook_deliveries referencing old table as changed for each statement execute function refuse_many()`)
  await db.pool.query(
    `with event as (
      insert into webhook_events (event_id, type, body) select 'e.' || number, 'test', '{}' from generate_series(1, 2500) as number returning event_id
    )
    insert into webhook_deliveries (endpoint_id, event_id, status, queued_at, due_at)
    select $1, event_id, 'queued', now(), now() + interval '1 hour' from event`,
    [id],
  )
  await inTransaction(db.pool, async (worker) => {
    await worker.query(`select from webhook_deliveries where event_id = 'e.1' for update`)
    assert.ok(await disableEndpoint(db.pool, id, 'by this test', new Date()))
    const { queued, failed, reason } = await endpoint(id)
    assert.deepEqual([queued, failed, reason], [1, 2_499, 'by this test'], 'a worker has one of the first batch')
  })
  assert.ok(await removeEndpoint(db.pool, id))
  assert.equal((await db.pool.query('select from webhook_deliveries')).rowCount, 0)
  assert.equal(await removeEndpoint(db.pool, id), false)
})

test('deliveries that an interruption leaves queued for a disabled endpoint fail without a request', async (t) => {
  const { db, add, publish, waitFor } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const { id } = await add(receiver.url)
  const [first, second] = [makeNewEvent(), makeNewEvent()]
  await publish(first)
  await waitFor(id, first, 'delivered')
  await db.pool.query(`update webhook_endpoints set disabled_at = now(), disabled_reason = 'by this test'`)
  await publish(second)
  await db.pool.query(`update webhook_deliveries set status = 'queued' where event_id = $1`, [second.id])
  assert.equal((await waitFor(id, second, 'failed')).last_error, 'the endpoint was disabled')
  assert.equal(receiver.requests.length, 1)
})

test('a failing endpoint is listed with the reason of its latest failure', async (t) => {
  const { add, publish, endpoint } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const { id } = await add(receiver.url)
  assert.equal((await endpoint(id)).reason, null)
  receiver.answer(503)
  await publish(makeNewEvent())
  await eventually(async () => (await endpoint(id)).reason === 'answered 503', { what: 'the reason' })
  receiver.answer(200)
  await eventually(async () => (await endpoint(id)).failing_since === null)
  assert.equal((await endpoint(id)).reason, null)
})

test('deletes old events, and waits for no other transaction', async (t) => {
  const { db, add, publish, waitFor, deliveries } = await startWebhooks(t)
  const [well, down] = [await startWebhookReceiver(t), await startWebhookReceiver(t)]
  down.answer(500)
  const [fine, failing] = [await add(well.url), await add(down.url, ['storefront.order.shipped'])]
  const [done, waiting] = [makeNewEvent(), makeNewEvent({ type: 'storefront.order.shipped' })]
  await publish(done, waiting)
  await waitFor(fine.id, done, 'delivered')
  await waitFor(fine.id, waiting, 'delivered')
  await deleteOldEvents(db.pool, new Date(Date.now() + 30 * DAY_MS))
  assert.equal((await deliveries(fine.id)).length, 2)
  await deleteOldEvents(db.pool, new Date(Date.now() + 32 * DAY_MS))
  assert.deepEqual(
    (await deliveries(fine.id)).map(({ event_id }) => event_id),
    [waiting.id],
  )
  assert.equal((await deliveries(failing.id)).length, 1)
})

test('refuses an endpoint if one with the same URL and events exists, in any order, also when two are added at once', async (t) => {
  const { db, add } = await startWebhooks(t)
  const url = 'http://127.0.0.1/hooks'
  const outcomes = await Promise.allSettled([add(url), add(url)])
  assert.deepEqual(outcomes.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
  const { rows } = await db.pool.query('select id from webhook_endpoints')
  assert.equal(rows.length, 1)
  await assert.rejects(add(url), { code: 'webhook_exists', message: `the endpoint ${rows[0]?.id} has this URL and these events already` })
  const [created, shipped] = ['storefront.order.created', 'storefront.order.shipped']
  const some = await add(url, [created, shipped])
  await assert.rejects(add(url, [shipped, created]), { code: 'webhook_exists', message: new RegExp(some.id) })
  // Other events or another URL make a different endpoint.
  await add(url, [shipped])
  await add(`${url}?tenant=2`)
})

test('refuses unknown event types', async (t) => {
  const { add } = await startWebhooks(t)
  await assert.rejects(
    add('http://127.0.0.1/', ['storefront.order.eaten']),
    /there is no event storefront\.order\.eaten; there are storefront/,
  )
})
