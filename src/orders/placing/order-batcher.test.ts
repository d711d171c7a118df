import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { AppError } from '../../errors.ts'
import type { Outcome } from './batch-decision.ts'
import { OrderBatcher, type OrderBatcherOptions } from './order-batcher.ts'
import type { OrderRequest } from './order-request.ts'

const WAIT_MS = 60_000

function request(): OrderRequest {
  return {
    userId: randomUUID(),
    basket: { sent: [], lines: [{ product_id: randomUUID(), quantity: 1 }] },
    expectedTotal: null,
    clientReference: null,
    shippingAddress: null,
    note: null,
    attributes: null,
    idempotencyKey: null,
    traceparent: '',
  }
}

async function placeAll(requests: readonly OrderRequest[]): Promise<Outcome[]> {
  return requests.map(({ userId }) => ({ kind: 'placed', order: { orderId: userId, json: '{}', isReplay: false } }))
}

function createBatcher(options: Pick<OrderBatcherOptions, 'placeOrders'> & Partial<OrderBatcherOptions>): OrderBatcher {
  return new OrderBatcher({ lockKeysOf: () => [], untilFree: () => assert.fail('no row is locked'), ...options })
}

test('continues after the process was paused for longer than an order may wait', { timeout: 60_000 }, async (t) => {
  const now = performance.now.bind(performance)
  let ahead = 0
  t.mock.method(performance, 'now', () => now() + ahead)
  const batcher = createBatcher({ placeOrders: placeAll, limits: { waitMs: WAIT_MS } })
  const late = batcher.place(request())
  ahead = 2 * WAIT_MS
  await assert.rejects(late, { code: 'unavailable' })
  const next = request()
  assert.equal((await batcher.place(next)).orderId, next.userId)
})

/** As `pg` reports an error of the server. */
const databaseError = (code: string) => Object.assign(new Error('refused'), { severity: 'ERROR', routine: 'exec', code })

for (const [what, error] of [
  ['is no error of the database', new TypeError('a fault of ours')],
  ['of the database is no order’s fault', databaseError('42501')],
  ['reports that the database is unavailable', Object.assign(new Error('gone'), { code: 'ECONNRESET' })],
] as const) {
  test(`places no order of a batch a second time when the error ${what}`, async () => {
    const failed: unknown[] = []
    let attempts = 0
    const batcher = createBatcher({
      async placeOrders() {
        attempts += 1
        throw error
      },
      onBatchFailed: (...batch) => failed.push(batch),
    })
    const answers = await Promise.allSettled([batcher.place(request()), batcher.place(request())])
    assert.equal(attempts, 1, 'the batch may have been committed')
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
    const batcher = createBatcher({
      async placeOrders(requests) {
        const error = requests.length > 1 ? databaseError('P0001') : alone()
        if (error instanceof AppError) return [{ kind: 'refused', error }]
        if (error !== null) throw error
        return placeAll(requests)
      },
      onBatchFailed: (...batch) => failed.push(batch),
    })
    const answers = await Promise.allSettled([batcher.place(request()), batcher.place(request())])
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

test('never has two orders with one key in flight at once, and places those without it meanwhile', async () => {
  const finish = Promise.withResolvers<void>()
  const batches: (string | null)[][] = []
  const batcher = createBatcher({
    lockKeysOf: ({ note }) => (note === null ? [] : [note]),
    async placeOrders(requests) {
      batches.push(requests.map(({ note }) => note))
      if (batches.length === 1) await finish.promise
      return placeAll(requests)
    },
  })
  const first = batcher.place({ ...request(), note: 'key' })
  await setImmediate()
  await setImmediate()
  const retry = batcher.place({ ...request(), note: 'key' })
  await batcher.place(request())
  assert.deepEqual(batches, [['key'], [null]])
  finish.resolve()
  await Promise.all([first, retry])
  assert.deepEqual(batches, [['key'], [null], ['key']])
})
