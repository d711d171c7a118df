import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { makeNewEvent, startWebhooks } from '../../test/webhook-harness.ts'
import { isAuthentic, startWebhookReceiver } from '../../test/webhook-receiver.ts'
import { ORDER_EVENT_TYPES } from '../orders/events.ts'

/** What this test uses of the SDK, https://github.com/cloudevents/sdk-javascript. */
interface CloudEventsSdk {
  HTTP: {
    /** Throws if the message is not a CloudEvent. */
    toEvent(message: { headers: object; body: string }): { validate(): boolean; data: unknown }
  }
}
const require = createRequire(import.meta.url)
const { HTTP } = require('cloudevents') as CloudEventsSdk

test('the CloudEvents SDK reads a webhook of every type as the event, and the signature is valid', async (t) => {
  const receiver = await startWebhookReceiver(t)
  const webhooks = await startWebhooks(t)
  const { id, secret } = await webhooks.add(receiver.url)
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const events = ORDER_EVENT_TYPES.map((type) => ({ ...makeNewEvent({ type, order: { note: 'Täßchen – 🛒' } }), traceparent }))
  await webhooks.publish(...events)
  for (const event of events) await webhooks.waitFor(id, event, 'delivered')
  assert.equal(receiver.requests.length, events.length)
  for (const request of receiver.requests) {
    const event = events.find((sent) => sent.id === request.headers['webhook-id'])
    const read = HTTP.toEvent(request)
    assert.ok(read.validate())
    assert.deepEqual(JSON.parse(JSON.stringify(read)), event)
    assert.deepEqual(read.data, event?.data)
    assert.ok(isAuthentic(secret, request))
    assert.equal(request.headers.traceparent, traceparent)
  }
})
