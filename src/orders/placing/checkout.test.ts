import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { AppError } from '../../errors.ts'
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

/** As `pg` reports an error of the server. */
const databaseError = (code: string) => Object.assign(new Error('refused'), { severity: 'ERROR', routine: 'exec', code })

for (const [what, error] of [
  ['is no error of the database', new TypeError('a fault of ours')],
  ['of the database is no order’s fault', databaseError('42501')],
  ['says that the database is away', Object.assign(new Error('gone'), { code: 'ECONNRESET' })],
] as const) {
  test(`places no order of a batch a second time when the error ${what}`, async () => {
    const failed: unknown[] = []
    const checkout = new Checkout({
      placeTogether: () => Promise.reject(error),
      placeAlone: () => assert.fail('the batch may have been committed'),
      namesOf: () => [],
      onBatchFailed: (...of) => failed.push(of),
    })
    const answers = await Promise.allSettled([checkout.place(request()), checkout.place(request())])
    for (const answer of answers) assert.equal((answer as PromiseRejectedResult).reason, error)
    assert.deepEqual(failed, [], 'each answer has the error, and is logged with its request id')
  })
}

for (const [what, alone, isReported] of [
  ['reports an unknown error of a batch whose orders could all be placed alone', () => null, true],
  ['leaves an unknown error of a batch to the order that fails with it alone', () => databaseError('P0001'), false],
  ['reports an unknown error of a batch whose orders were refused alone', () => new AppError('purchase_limit', 'too many'), true],
] as const) {
  test(what, async () => {
    const failed: unknown[][] = []
    const checkout = new Checkout({
      placeTogether: () => Promise.reject(databaseError('P0001')),
      async placeAlone({ userId }) {
        const error = alone()
        if (error !== null) throw error
        return { orderId: userId, json: '{}', isReplay: false }
      },
      namesOf: () => [],
      onBatchFailed: (...of) => failed.push(of),
    })
    const answers = await Promise.allSettled([checkout.place(request()), checkout.place(request())])
    assert.deepEqual(
      answers.map(({ status }) => status),
      Array(2).fill(alone() === null ? 'fulfilled' : 'rejected'),
    )
    // What follows the last answer without waiting for anything has been done then.
    await setImmediate()
    assert.deepEqual(
      failed.map(([, orders]) => orders),
      isReported ? [2] : [],
    )
  })
}
