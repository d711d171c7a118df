import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeNewEvent, sealing, startWebhooks } from '../../../test/webhook-harness.ts'
import { isAuthentic, startWebhookReceiver } from '../../../test/webhook-receiver.ts'
import { rotateSecret } from './webhook-endpoints.ts'

const HOUR_MS = 3_600_000

test('for 24 hours after a rotation both secrets sign, then the new one only', async (t) => {
  const { db, clock, add, publish, waitFor } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const [{ id, secret: old }, other] = [await add(receiver.url, ['storefront.order.created']), await add(receiver.url, [])]
  const rotate = async () => (await rotateSecret(db.pool, sealing, id, new Date())) ?? assert.fail('no endpoint')
  /** Which of the secrets sign what is sent so many hours from now, and by how many signatures. */
  const signers = async (hours: number, secrets: string[]) => {
    clock.passedMs = hours * HOUR_MS
    const event = makeNewEvent()
    await publish(event)
    await waitFor(id, event, 'delivered')
    const request = receiver.requests.at(-1) ?? assert.fail('no request')
    const signatures = String(request.headers['webhook-signature']).split(' ')
    assert.ok(signatures.every((signature) => /^v1,[A-Za-z0-9+/]{43}=$/.test(signature)))
    return { count: signatures.length, valid: secrets.map((secret) => isAuthentic(secret, request, Date.now() + clock.passedMs)) }
  }
  assert.deepEqual(await signers(0, [old]), { count: 1, valid: [true] })
  const fresh = await rotate()
  assert.match(fresh, /^whsec_/)
  assert.deepEqual(await signers(0, [old, fresh, other.secret]), { count: 2, valid: [true, true, false] })
  assert.deepEqual(await signers(23.9, [old, fresh]), { count: 2, valid: [true, true] })
  assert.deepEqual(await signers(24.1, [old, fresh]), { count: 1, valid: [false, true] })
  const newest = await rotate()
  assert.deepEqual(await signers(1, [old, fresh, newest]), { count: 2, valid: [false, true, true] })
  assert.equal(await rotateSecret(db.pool, sealing, crypto.randomUUID(), new Date()), null)
  const { rows } = await db.pool.query('select * from webhook_endpoints')
  for (const secret of [old, fresh, newest]) assert.ok(!JSON.stringify(rows).includes(secret.slice(6, 20)))
})
