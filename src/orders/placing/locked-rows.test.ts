import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, type TestContext, test } from 'node:test'
import { addBuyer, addBuyers } from '../../../test/buyers.ts'
import { onCleanup } from '../../../test/cleanup.ts'
import { findWaiting } from '../../../test/database.ts'
import { eventually, untilTaken } from '../../../test/eventually.ts'
import { assertProblem } from '../../../test/problem.ts'
import { type Answer, startStore } from '../../../test/store.ts'

const POOL_SIZE = 6
const store = await startStore({ after }, { databasePoolSize: POOL_SIZE })
const [[ada, bob], operator] = [await addBuyers(store, 2), await addBuyer(store, 'admin')]
type Buyer = NonNullable<typeof ada>

const order = (by: Buyer | undefined, product: { id: string }, headers: Record<string, string> = {}) =>
  store.call('POST', '/orders', { token: by?.token ?? '', body: { items: [{ product_id: product.id, quantity: 1 }] }, headers })
const cancel = (by: Buyer | undefined, id: string) => store.call('POST', `/orders/${id}/cancel`, { token: by?.token ?? '' })

/** Locks the rows of `statement` in a foreign session until it is released or the test ends. */
async function hold(t: TestContext, statement: string) {
  const holder = await store.pool.connect()
  await holder.query(`begin; ${statement}`)
  let isHeld = true
  const letGo = async () => {
    if (!isHeld) return
    isHeld = false
    await holder.query('rollback')
    holder.release()
  }
  onCleanup(t, letGo)
  return {
    letGo,
    untilWaitedFor: () => eventually(async () => (await findWaiting(store.pool, holder)).length > 0),
    async cancelWaiting() {
      const pids = await findWaiting(store.pool, holder)
      await store.pool.query('select pg_cancel_backend(pid) from unnest($1::int[]) as pid', [pids])
    },
  }
}
const holdStock = (t: TestContext, { id }: { id: string }) => hold(t, `select from inventory where product_id = '${id}' for update`)

function assertUnavailable(answer: Answer): void {
  assertProblem(answer, 503, 'unavailable')
  assert.match(answer.headers['retry-after'] ?? '', /^\d+$/)
}

test('places orders of other products while the stock of one is locked, and refuses orders of that one in time', async (t) => {
  const [locked, free] = [await store.addProduct({ stock: 1_000 }), await store.addProduct({ stock: 1_000 })]
  const { letGo } = await holdStock(t, locked)
  const refused: Promise<Answer>[] = []
  // Each round puts orders of both products into one batch while orders of the locked one wait.
  for (let round = 0; round < 10; round++) {
    for (let i = 0; i < 5; i++) refused.push(order(ada, locked))
    const placed = await Promise.all([order(bob, free), order(bob, free)])
    assert.deepEqual(
      placed.map(({ status }) => status),
      [201, 201],
      placed.map(({ text }) => text).join(),
    )
  }
  for (const answer of await Promise.all(refused)) assertUnavailable(answer)
  await letGo()
  // The store may still remember the lock for a moment.
  assert.equal((await order(ada, locked)).status, 201)
  assert.deepEqual(await store.readStock(locked, free), [999, 980])
})

test('places waiting orders as soon as the row is free, one for each key', async (t) => {
  const lamp = await store.addProduct({ stock: 100 })
  const { letGo, untilWaitedFor } = await holdStock(t, lamp)
  const headers = { 'idempotency-key': randomUUID() }
  const hers = [1, 2].map(() => untilTaken(() => order(ada, lamp, headers)))
  const waiting = [...hers, untilTaken(() => order(bob, lamp))]
  await untilWaitedFor()
  await letGo()
  const answers = await Promise.all(waiting)
  assert.deepEqual(
    answers.map(({ status }) => status),
    [201, 201, 201],
  )
  assert.equal(answers[0]?.json.id, answers[1]?.json.id)
  assert.deepEqual(await store.readStock(lamp), [98])
})

test("answers the retry of an order that waits for a customer's row at once, and places orders of other customers", async (t) => {
  const lamp = await store.addProduct({ stock: 100 })
  const headers = { 'idempotency-key': randomUUID() }
  const first = await order(ada, lamp, headers)
  await hold(t, `select from pending_order_counts where user_id = '${ada?.id}' for update`)
  const late = order(ada, lamp)
  for (let round = 0; round < 5; round++) assert.equal((await order(bob, lamp)).status, 201)
  assert.equal((await order(ada, lamp, headers)).text, first.text)
  assertUnavailable(await late)
})

test('refuses cancellations of locked orders in time, makes the others, and keeps connections for other requests', async (t) => {
  const [lamp, vase] = [await store.addProduct({ stock: 100 }), await store.addProduct({ stock: 100 })]
  const place = async (product: { id: string }, by = ada) => (await order(by, product)).json.id as string
  const [blocked, alone, free] = [
    await Promise.all(Array.from({ length: 4 * POOL_SIZE }, () => place(lamp))),
    await place(vase),
    await place(vase, bob),
  ]
  await holdStock(t, lamp)
  await hold(t, `select from orders where id = '${alone}' for update`)
  const late = [...blocked, alone].map((id) => cancel(ada, id))
  const [ready, cancelled, listed] = await Promise.all([
    store.call('GET', '/readyz'),
    // Another customer cancels, because cancellations of one account wait for each other.
    cancel(bob, free),
    store.call('GET', '/orders', { token: ada?.token ?? '' }),
  ])
  assert.deepEqual([ready.status, cancelled.status, listed.status], [200, 200, 200], cancelled.text)
  const confirm = async (ids: string[]): Promise<{ order_id: string; ok: boolean; code?: string }[]> => {
    const { text } = await store.call('POST', '/admin/orders/transitions', {
      token: operator.token,
      raw: ids.map((order_id) => JSON.stringify({ order_id, to: 'confirmed' })).join('\n'),
      headers: { 'content-type': 'application/x-ndjson' },
    })
    return text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
  }
  const others = await Promise.all([place(vase), place(vase)])
  const lines = await confirm([alone, ...others])
  assert.deepEqual([lines[0]?.ok, lines[0]?.code], [false, 'unavailable'])
  // On a busy machine a cancellation can hold the customer's row for longer than a line waits. The test then sends the
  // line again.
  for (const { order_id, ok, code } of lines.slice(1)) {
    assert.ok(ok || code === 'unavailable', String(code))
    if (!ok) await eventually(async () => (await confirm([order_id]))[0]?.ok)
  }
  for (const answer of await Promise.all(late)) assertProblem(answer, 503, answer.json.code === 'overloaded' ? 'overloaded' : 'unavailable')
})

test('refuses orders in time while their whole table is locked, and places orders afterwards', async (t) => {
  const lamp = await store.addProduct({ stock: 100 })
  const { letGo } = await hold(t, 'lock table orders in share row exclusive mode')
  for (const answer of await Promise.all(Array.from({ length: 20 }, () => order(ada, lamp)))) assertUnavailable(answer)
  await letGo()
  assert.equal((await order(ada, lamp)).status, 201)
  assert.deepEqual(await store.readStock(lamp), [99])
})

test('answers 503 and never 500 when PostgreSQL ends a statement that waits', async (t) => {
  const lamp = await store.addProduct({ stock: 100 })
  const { json } = await order(ada, lamp)
  const { cancelWaiting } = await hold(
    t,
    `select from orders where id = '${json.id}' for update; select from inventory where product_id = '${lamp.id}' for update`,
  )
  let isAnswered = false
  const answers = Promise.all([
    order(ada, lamp),
    cancel(ada, json.id),
    store.call('POST', `/admin/products/${lamp.id}/stock/adjustments`, {
      token: operator.token,
      body: { delta: 1, reference: 'found', reason: null },
    }),
  ]).finally(() => {
    isAnswered = true
  })
  // A cancelled statement fails like one that exceeds statement_timeout. The loop also cancels the retries.
  await eventually(async () => {
    await cancelWaiting()
    return isAnswered
  })
  for (const answer of await answers) assertUnavailable(answer)
})
