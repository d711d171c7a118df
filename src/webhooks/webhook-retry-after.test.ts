import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { makeNewEvent, startWebhooks } from '../../test/webhook-harness.ts'
import { startWebhookReceiver } from '../../test/webhook-receiver.ts'

const HOUR = 3_600

/** The number of seconds until the one open delivery is due. */
const UNTIL_DUE = `select extract(epoch from due_at - now())::float8 as seconds from webhook_deliveries where lease is null`

for (const [status, retryAfter] of [
  [429, () => String(HOUR)],
  [503, () => new Date(Date.now() + HOUR * 1_000).toUTCString()],
] as const) {
  test(`a Retry-After in an answer with ${status} sets the next pause, once`, async (t) => {
    const { db, add, publish, waitFor, deliveries } = await startWebhooks(t)
    const receiver = await startWebhookReceiver(t)
    const { id } = await add(receiver.url)
    receiver.answer((response) => void response.writeHead(status, { 'retry-after': retryAfter() }).end())
    const event = makeNewEvent()
    await publish(event)
    const { seconds } = await eventually(async () => {
      const { rows } = await db.pool.query<{ seconds: number }>(UNTIL_DUE)
      return rows.length === 1 && (rows[0]?.seconds ?? 0) > 60 && rows[0]
    })
    assert.ok(seconds > HOUR - 60 && seconds < HOUR * 1.25 + 1, String(seconds))
    assert.deepEqual(
      (await deliveries(id)).map((row) => [row.status, row.attempts, row.last_error]),
      [['queued', 1, `answered ${status}`]],
    )
    assert.equal(receiver.requests.length, 1)
    receiver.answer(200)
    await db.pool.query('update webhook_deliveries set due_at = now()')
    assert.equal((await waitFor(id, event, 'delivered')).attempts, 2)
    assert.equal(receiver.requests.length, 2)
  })
}

test('other answers, and values that cannot be parsed, leave the pauses unchanged', async (t) => {
  const { add, publish, waitFor } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const { id } = await add(receiver.url)
  const answers: [number, string][] = [
    [500, String(HOUR)],
    [429, 'later'],
    [301, String(HOUR)],
  ]
  receiver.answer((response) => {
    const [status, retryAfter] = answers.shift() ?? [200, '']
    response.writeHead(status, { 'retry-after': retryAfter }).end()
  })
  const event = makeNewEvent()
  await publish(event)
  assert.equal((await waitFor(id, event, 'delivered')).attempts, 4)
})

test('after three days and twelve attempts the delivery fails, with Retry-After and after a machine slept for days', async (t) => {
  const { db, clock, add, publish, waitFor, deliveries, endpoint } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const { id } = await add(receiver.url)
  receiver.answer((response) => void response.writeHead(503, { 'retry-after': '999999999' }).end())
  const event = makeNewEvent()
  await publish(event)
  const { seconds } = await eventually(async () => {
    const { rows } = await db.pool.query<{ seconds: number }>(UNTIL_DUE)
    return rows.length === 1 && (rows[0]?.seconds ?? 0) > 60 && rows[0]
  })
  assert.ok(seconds <= 5 * HOUR, String(seconds))
  clock.passedMs = 3.1 * 24 * HOUR * 1_000
  await db.pool.query('update webhook_deliveries set due_at = now()')
  await eventually(async () => receiver.requests.length === 2)
  await eventually(async () => (await db.pool.query(UNTIL_DUE)).rows[0]?.seconds > 60)
  assert.deepEqual([(await deliveries(id))[0]?.status, (await endpoint(id)).disabled_at], ['queued', null])
  await db.pool.query('update webhook_deliveries set due_at = now(), attempts = 11')
  await waitFor(id, event, 'failed')
  await eventually(async () => (await endpoint(id)).disabled_at !== null)
})
