import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { TEST_SECRET } from '../../test/store.ts'
import { encryption, makeNewEvent, startWebhooks } from '../../test/webhook-harness.ts'
import { isAuthentic, startWebhookReceiver } from '../../test/webhook-receiver.ts'
import { createEncryption } from '../auth/store-secret.ts'
import { inTransaction } from '../db/transaction.ts'
import { rotateSecret } from './webhook-endpoints.ts'

const HOUR_MS = 3_600_000

test('for 24 hours after a rotation both secrets sign, then only the new one', async (t) => {
  const { db, clock, add, publish, waitFor } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const [{ id, secret: old }, other] = [await add(receiver.url, ['storefront.order.created']), await add(receiver.url, [])]
  const rotate = async () => (await rotateSecret(db.pool, encryption, id, new Date())) ?? assert.fail('no endpoint')
  /** The secrets that sign a request after this number of hours, and the number of its signatures. */
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
  assert.equal(await rotateSecret(db.pool, encryption, crypto.randomUUID(), new Date()), null)
  const { rows } = await db.pool.query('select * from webhook_endpoints')
  for (const secret of [old, fresh, newest]) assert.ok(!JSON.stringify(rows).includes(secret.slice(6, 20)))
})

test('a secret that cannot be decrypted delays webhooks until a rotation, and the receiver does not count as failing', async (t) => {
  const { db, add, publish, waitFor, deliveries, endpoint, logged } = await startWebhooks(t)
  const receiver = await startWebhookReceiver(t)
  const { id } = await add(receiver.url)
  const other = createEncryption(TEST_SECRET, 'account mail')
  const foreign = await inTransaction(db.pool, (tx) => other.encrypt(tx, 'whsec_of another secret'))
  await db.pool.query('update webhook_endpoints set sealed_secret = $1', [foreign])
  const [first, second] = [makeNewEvent(), makeNewEvent()]
  await publish(first, second)
  const isNoted = async () => (await deliveries(id)).filter(({ last_error }) => last_error !== null).length === 2
  await eventually(isNoted, { what: 'the reason of both' })
  for (const { status, attempts, last_error } of await deliveries(id)) {
    assert.deepEqual([status, attempts], ['queued', 0])
    assert.match(last_error ?? '', /^the endpoint's secret cannot be decrypted with this STOREFRONT_SECRET: nothing was sent/)
  }
  assert.deepEqual([receiver.requests.length, (await endpoint(id)).failing_since, logged().length], [0, null, 1])

  const fresh = (await rotateSecret(db.pool, encryption, id, new Date())) ?? assert.fail('no endpoint')
  await db.pool.query('update webhook_deliveries set due_at = now()')
  for (const event of [first, second]) await waitFor(id, event, 'delivered')
  assert.ok(receiver.requests.every((request) => isAuthentic(fresh, request)))
  assert.ok(
    receiver.requests.every(({ headers }) => !String(headers['webhook-signature']).includes(' ')),
    'by one signature each',
  )
})
