import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { AppError } from '../../errors.ts'
import type { Outcome } from './batch-decision.ts'
import { OrderBatcher, type OrderBatcherOptions, type PlacingObserver } from './order-batcher.ts'
import type { OrderRequest } from './order-request.ts'

const WAIT_MS = 60_000

function basketOf(count: number): OrderRequest['basket'] {
  const lines = Array.from({ length: count }, () => ({ product_id: randomUUID(), quantity: 1 }))
  return { sent: [], lines, orderLines: lines }
}

function request(): OrderRequest {
  return {
    userId: randomUUID(),
    basket: basketOf(1),
    currency: null,
    expectedTotal: null,
    clientReference: null,
    shippingAddress: null,
    billingAddress: null,
    vatNumber: null,
    note: null,
    attributes: null,
    idempotencyKey: null,
    repeats: [],
    traceparent: '',
  }
}

async function placeAll(requests: readonly OrderRequest[]): Promise<Outcome[]> {
  return requests.map(({ userId }) => ({ kind: 'placed', order: { orderId: userId, json: '{}', isReplay: false } }))
}

const SILENT: PlacingObserver = { ordersTried() {}, batchUndone() {}, orderPlaced() {}, orderRefused() {} }

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
  await assert.rejects(late, { code: 'overloaded' })
  const next = request()
  assert.equal((await batcher.place(next)).orderId, next.userId)
})

for (const [what, fault] of [
  ['the wait for its rows', { untilFree: () => Promise.reject(new TypeError('a fault of ours')) }],
  ['what watches the batches', { observer: { ...SILENT, ordersTried: () => assert.fail('a fault of ours') } }],
] as const) {
  test(`answers an order with the error of ${what}, and leaves no promise without a handler`, async () => {
    let isFaulty = true
    const batcher = createBatcher({
      placeOrders: async (requests) => (isFaulty ? [{ kind: 'blocked' }] : placeAll(requests)),
      ...fault,
    })
    await assert.rejects(batcher.place(request()), /a fault of ours/)
    isFaulty = false
    if (!('observer' in fault)) await batcher.place(request())
  })
}

/** Makes a server error in the form that `pg` reports. */
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
    // Work that follows the last answer without waiting is done after this turn of the event loop.
    await setImmediate()
    assert.deepEqual(
      failed.map(([, orders]) => orders),
      isReported ? [2] : [],
    )
  })
}

test('never has two orders with one key in flight at once, and meanwhile places orders without that key', async () => {
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

/** Creates a batcher that holds its batches until `nextBatch` or `finish`. Two batches are in flight. */
async function createHeldBatcher(limits: OrderBatcherOptions['limits'] = {}) {
  const batches: OrderRequest[][] = []
  const gates: (() => void)[] = []
  const batcher = createBatcher({
    limits,
    async placeOrders(requests) {
      batches.push([...requests])
      const gate = Promise.withResolvers<void>()
      gates.push(gate.resolve)
      await gate.promise
      return placeAll(requests)
    },
  })
  const answers: Promise<unknown>[] = []
  const place = (userId: string, lines = 1, network: string[] = []) => {
    const answer = batcher.place({ ...request(), userId, basket: basketOf(lines) }, [userId, ...network])
    answers.push(answer.catch(() => {}))
    return answer
  }
  for (const batch of [1, 2]) {
    place(`in flight ${batch}`)
    while (batches.length < batch) await setImmediate()
  }
  const nextBatch = async (): Promise<string[]> => {
    const next = batches.length
    gates.shift()?.()
    while (batches.length === next) await setImmediate()
    return batches[next]?.map(({ userId }) => userId) ?? []
  }
  const finish = async () => {
    let isDone = false
    const done = Promise.all(answers).then(() => {
      isDone = true
    })
    while (!isDone) {
      gates.shift()?.()
      await setImmediate()
    }
    await done
  }
  return { batcher, place, nextBatch, finish }
}

for (const [greedy, orders, lines] of [
  [1, 400, 20],
  [10, 100, 100],
  [10, 10, 1_000],
  [100, 20, 1],
] as const) {
  test(`an order is in the next batch after ${greedy} customers have queued ${orders} orders of ${lines} lines each`, {
    timeout: 60_000,
  }, async () => {
    const { place, nextBatch, finish } = await createHeldBatcher()
    for (let order = 0; order < orders; order++) {
      // The queue refuses orders above its limit.
      for (let customer = 0; customer < greedy; customer++) place(`greedy ${customer}`, lines).catch(() => {})
    }
    const answer = place('polite', 5)
    assert.ok((await nextBatch()).includes('polite'))
    await finish()
    await answer
  })
}

test('puts an order of many lines into one of the next batches while small orders keep coming', { timeout: 60_000 }, async () => {
  const { place, nextBatch, finish } = await createHeldBatcher()
  const customers = Array.from({ length: 300 }, (_, customer) => `customer ${customer}`)
  for (const customer of customers) place(customer, 8)
  place('large', 1_000)
  const taken: string[] = []
  for (let batch = 0; batch < 4; batch++) {
    taken.push(...(await nextBatch()))
    for (const customer of customers.slice(0, 128)) place(customer, 8)
  }
  assert.ok(taken.includes('large'))
  await finish()
})

test('a full queue refuses the newest orders of the heaviest account in the heaviest network', { timeout: 60_000 }, async () => {
  const { batcher, place, finish } = await createHeldBatcher({ waitingOrders: 20, waitingLines: 1_000 })
  const office = ['office']
  const greedy = Array.from({ length: 20 }, () => place('greedy'))
  await assert.rejects(place('greedy'), { code: 'overloaded' })
  // An order weighs as much as its lines, and at least as much as 50 lines.
  const others = [place('large', 400), ...Array.from({ length: 4 }, (_, account) => place(`account ${account}`, 1, office))]
  await Promise.all(greedy.slice(8).map((answer) => assert.rejects(answer, { code: 'overloaded' })))
  await assert.rejects(place('huge', 500), { code: 'overloaded' })
  assert.equal(batcher.fullness, 3 / 20)
  await finish()
  await Promise.all([...greedy.slice(0, 8), ...others])
})

test('sixty accounts of one network have as many turns as one account of another network', { timeout: 60_000 }, async () => {
  const { place, nextBatch, finish } = await createHeldBatcher({ batchOrders: 20 })
  for (let account = 0; account < 60; account++) place(`farm ${account}`, 1, ['farm'])
  for (let order = 0; order < 10; order++) place('shopper')
  const batch = await nextBatch()
  assert.equal(batch.filter((customer) => customer === 'shopper').length, 10, batch.join())
  await finish()
})

test('orders that are placed alone take turns, so a shopper waits for one order of a network that has many', {
  timeout: 60_000,
}, async () => {
  const placed: string[] = []
  const batcher = createBatcher({
    limits: { aloneAtOnce: 1 },
    async placeOrders(requests, { maxLockMs }) {
      if (maxLockMs === undefined) return requests.map(() => ({ kind: 'in_progress' }))
      placed.push(...requests.map(({ userId }) => userId))
      await setImmediate()
      return placeAll(requests)
    },
  })
  const place = (userId: string, network: string) => batcher.place({ ...request(), userId }, [userId, network])
  const farm = Array.from({ length: 60 }, (_, account) => place(`farm ${account}`, 'farm'))
  const shopper = place('shopper', 'home')
  await Promise.all([...farm, shopper])
  assert.equal(placed.length, 61)
  assert.ok(placed.indexOf('shopper') <= 2, placed.join())
})

test('when too many orders are deferred, the newest of the heaviest network are refused', { timeout: 60_000 }, async () => {
  const free = Promise.withResolvers<boolean>()
  let hasBlocked = false
  const batcher = createBatcher({
    limits: { deferredOrders: 10, deferredLines: 500 },
    untilFree: () => free.promise,
    placeOrders: async (requests) => (hasBlocked ? placeAll(requests) : requests.map(() => ({ kind: 'blocked' }))),
  })
  const place = (userId: string, network: string) => batcher.place({ ...request(), userId }, [userId, network])
  const farm = Array.from({ length: 12 }, (_, account) => place(`farm ${account}`, 'farm'))
  const shopper = place('shopper', 'home')
  const outcomes = Promise.allSettled([...farm, shopper])
  await Promise.all(farm.slice(9).map((answer) => assert.rejects(answer, { code: 'unavailable' })))
  hasBlocked = true
  free.resolve(true)
  assert.deepEqual(
    (await outcomes).map(({ status }) => status),
    [...Array(9).fill('fulfilled'), ...Array(3).fill('rejected'), 'fulfilled'],
  )
})
