import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { Checkout } from './checkout.ts'
import type { OrderRequest, Outcome } from './desk.ts'

const WAIT_MS = 60_000

function request(): OrderRequest {
  return {
    userId: randomUUID(),
    basket: { sent: [], lines: [{ product_id: randomUUID(), quantity: 1 }] },
    expectedTotal: null,
    clientReference: null,
    shippingAddress: null,
    note: null,
    idempotencyKey: null,
    traceparent: '',
  }
}

async function placeTogether(requests: readonly OrderRequest[]): Promise<Outcome[]> {
  return requests.map(({ userId }) => ({ kind: 'placed', order: { orderId: userId, json: '{}', isReplay: false } }))
}

test('goes on after the process was held up for longer than an order may wait', { timeout: 60_000 }, async (t) => {
  const now = performance.now.bind(performance)
  let ahead = 0
  t.mock.method(performance, 'now', () => now() + ahead)
  const placeAlone = () => assert.fail('nobody else has an order in hand')
  const checkout = new Checkout({ placeTogether, placeAlone, namesOf: () => [], limits: { waitMs: WAIT_MS } })
  const late = checkout.place(request())
  ahead = 2 * WAIT_MS
  await assert.rejects(late, { code: 'unavailable' })
  const next = request()
  assert.equal((await checkout.place(next)).orderId, next.userId)
})
