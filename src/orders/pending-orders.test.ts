import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addBuyer, addBuyers } from '../../test/buyers.ts'
import { findWaiting } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { expireOrders } from './expire-orders.ts'

const LIMIT = 5
const store = await startStore({ after }, { maxPendingOrdersPerUser: LIMIT })
const operator = await addBuyer(store, 'admin')

type Placer = Pick<typeof store, 'call'>
const place = (product: { id: string }, { token }: { token: string }, headers: Record<string, string> = {}, by: Placer = store) =>
  by.call('POST', '/orders', { token, body: { items: [{ product_id: product.id, quantity: 1 }] }, headers })
const move = (id: string, to: string) => store.call('POST', `/admin/orders/${id}/transitions`, { token: operator.token, body: { to } })
async function countsOf(userId: string) {
  const { rows } = await store.pool.query(
    `select (select pending from pending_order_counts where user_id = $1) as counted,
      (select count(*) from orders where user_id = $1 and status = 'pending')::integer as pending`,
    [userId],
  )
  return rows[0]
}
const statuses = (answers: { status: number }[]) => answers.map(({ status }) => status).sort()

test('refuses an order above the pending limit without taking stock, and places it after another one is confirmed or cancelled', async () => {
  const [lamp, [ada, bob]] = [await store.addProduct({ stock: 20 }), await addBuyers(store, 2)]
  assert.ok(ada !== undefined && bob !== undefined)
  const ids: string[] = []
  for (let i = 0; i < LIMIT; i++) ids.push((await place(lamp, ada)).json.id)
  const refused = assertProblem(await place(lamp, ada), 409, 'too_many_pending_orders')
  assert.deepEqual([refused.pending, refused.limit], [LIMIT, LIMIT])
  assert.deepEqual(await store.readStock(lamp), [20 - LIMIT])
  assert.equal((await place(lamp, bob)).status, 201, 'the limit of one is not that of another')
  assert.equal((await move(ids[0] ?? '', 'confirmed')).status, 200)
  assert.equal((await place(lamp, ada)).status, 201)
  assertProblem(await place(lamp, ada), 409, 'too_many_pending_orders')
  assert.equal((await store.call('POST', `/orders/${ids[1]}/cancel`, { token: ada.token })).status, 200)
  assert.equal((await place(lamp, ada)).status, 201)
  assert.equal((await move(ids[0] ?? '', 'cancelled')).status, 200)
  assertProblem(await place(lamp, ada), 409, 'too_many_pending_orders')
  assert.deepEqual(await countsOf(ada.id), { counted: LIMIT, pending: LIMIT })
})

test('answers the retry of a placed order when the customer has reached the pending limit', async () => {
  const [lamp, ada] = [await store.addProduct(), await addBuyer(store)]
  const key = { 'idempotency-key': 'first' }
  const first = await place(lamp, ada, key)
  for (let i = 1; i < LIMIT; i++) assert.equal((await place(lamp, ada)).status, 201)
  const again = await place(lamp, ada, key)
  assert.deepEqual([again.status, again.headers['idempotency-replayed'], again.text], [201, 'true', first.text])
  assertProblem(await place(lamp, ada, { 'idempotency-key': 'other' }), 409, 'too_many_pending_orders')
})

test('places exactly the allowed number of pending orders when many come at once from two processes', async (t) => {
  const second = await startSecondProcess(t, store)
  const lamp = await store.addProduct({ stock: 1_000 })
  const buyers = await addBuyers(store, 8)
  for (let round = 0; round < 3; round++) {
    const answers = await Promise.all(
      buyers.map((buyer) =>
        Promise.all(Array.from({ length: 12 }, (_, index) => place(lamp, buyer, {}, index % 2 === 0 ? store : second))),
      ),
    )
    for (const [index, mine] of answers.entries()) {
      const expected = round === 0 ? LIMIT : 2
      assert.deepEqual(
        statuses(mine),
        [...Array(expected).fill(201), ...Array(12 - expected).fill(409)],
        JSON.stringify(mine.map(({ text }) => text)),
      )
      assert.ok(mine.every(({ status, json }) => status === 201 || json.code === 'too_many_pending_orders'))
      assert.deepEqual(await countsOf(buyers[index]?.id ?? ''), { counted: LIMIT, pending: LIMIT })
      const { rows } = await store.pool.query(`select id from orders where user_id = $1 and status = 'pending' order by id limit 2`, [
        buyers[index]?.id,
      ])
      for (const { id } of rows) assert.equal((await move(id, 'confirmed')).status, 200)
    }
  }
  assert.deepEqual(await store.readStock(lamp), [1_000 - 8 * (LIMIT + 2 + 2)])
})

test('a batch that reads before it places waits for another transaction with an order of the same customer', async (t) => {
  // A purchase limit makes every batch read first.
  const looking = await startSecondProcess(t, store, { maxQuantityPerProductAndUser: 1_000 })
  const [lamp, ada] = [await store.addProduct(), await addBuyer(store)]
  for (let i = 1; i < LIMIT; i++) assert.equal((await place(lamp, ada)).status, 201)
  const other = await store.pool.connect()
  t.after(() => other.release(true))
  await other.query('begin')
  await other.query(
    `insert into orders (id, user_id, status, items, total_amount, currency, version, status_history, created_at, updated_at)
    select gen_random_uuid(), user_id, status, items, total_amount, currency, version, status_history, created_at, updated_at
    from orders where user_id = $1 limit 1`,
    [ada.id],
  )
  const answer = place(lamp, ada, {}, looking)
  const isWaitedFor = async () => (await findWaiting(store.pool, other)).length === 1
  await eventually(isWaitedFor, { what: 'the order waits for the other transaction' })
  await other.query('commit')
  assertProblem(await answer, 409, 'too_many_pending_orders')
  assert.deepEqual(await countsOf(ada.id), { counted: LIMIT, pending: LIMIT })
})

test('counts orders that other programs write, and orders that expire', async () => {
  const [lamp, ada] = [await store.addProduct({ stock: 10 }), await addBuyer(store)]
  for (let i = 0; i < LIMIT; i++) await place(lamp, ada)
  await store.pool.query(`update orders set created_at = created_at - interval '2 hours' where user_id = $1`, [ada.id])
  assert.deepEqual(await countsOf(ada.id), { counted: LIMIT, pending: LIMIT })
  assert.equal(await expireOrders(store.pool, 3_600, new Date()), LIMIT)
  assert.deepEqual(await countsOf(ada.id), { counted: 0, pending: 0 })
  const { json } = await place(lamp, ada)
  await store.pool.query(
    `insert into orders (id, user_id, status, items, total_amount, currency, version, status_history, created_at, updated_at)
    select gen_random_uuid(), user_id, status, items, total_amount, currency, version, status_history, created_at, updated_at
    from orders, generate_series(1, 3) where id = $1`,
    [json.id],
  )
  assert.deepEqual(await countsOf(ada.id), { counted: 4, pending: 4 })
  await store.pool.query(
    `update orders
    set status = moved.status, version = moved.version, status_history = moved.status_history
    from (
      select id, 'confirmed' as status, version + 1 as version,
        status_history || '[{"status": "confirmed", "at": "2026-03-01T10:00:00Z"}]'::jsonb as status_history
      from orders where id = $2
      union all
      select id, status, version, status_history from orders where id <> $2
    ) as moved
    where orders.id = moved.id and user_id = $1`,
    [ada.id, json.id],
  )
  assert.deepEqual(await countsOf(ada.id), { counted: 3, pending: 3 })
  await store.pool.query(`delete from orders where user_id = $1 and status = 'pending'`, [ada.id])
  assert.deepEqual(await countsOf(ada.id), { counted: 0, pending: 0 })
})

test('allows any number of pending orders when the limit is off', async (t) => {
  const free = await startSecondProcess(t, store, { maxPendingOrdersPerUser: null })
  const [lamp, ada] = [await store.addProduct(), await addBuyer(store)]
  const answers = await Promise.all(Array.from({ length: 2 * LIMIT }, () => place(lamp, ada, {}, free)))
  assert.deepEqual(statuses(answers), Array(2 * LIMIT).fill(201))
  assertProblem(await place(lamp, ada), 409, 'too_many_pending_orders')
})

test("an order that waits for its customer's count holds no stock, even without a pending limit", async (t) => {
  // A purchase limit makes a batch read first. The optimistic way takes stock last in any case.
  const unlimited = await startStore(t, { maxPendingOrdersPerUser: null, maxQuantityPerProductAndUser: 1_000 })
  const [lamp, ada] = [await unlimited.addProduct({ stock: 20 }), await unlimited.register()]
  assert.equal((await place(lamp, ada, {}, unlimited)).status, 201)
  const holder = await unlimited.pool.connect()
  try {
    await holder.query('begin')
    await holder.query('select from pending_order_counts where user_id = $1 for update', [ada.id])
    const placing = place(lamp, ada, {}, unlimited)
    await eventually(async () => (await findWaiting(unlimited.pool, holder)).length > 0)
    await unlimited.pool.query('select from inventory where product_id = $1 for update nowait', [lamp.id])
    await holder.query('rollback')
    assert.equal((await placing).status, 201)
  } finally {
    holder.release()
  }
})
