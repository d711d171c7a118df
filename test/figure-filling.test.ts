import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import pino from 'pino'
import { runDemo } from '../src/demo/run-demo.ts'
import { rollUpOrders } from '../src/figures/roll-up-orders.ts'
import { addBuyer } from './buyers.ts'
import { eventually } from './eventually.ts'
import { registerOperator } from './register-operator.ts'
import { startStore, type TestStore } from './store.ts'

const DAY_MS = 86_400_000
const DAYS = [0, 1, 5, 7, 9, 20, 40, 60]

/** An order of each of these days ago, the newest first. */
async function prepare(t: Parameters<typeof startStore>[0], days = DAYS) {
  const store = await startStore(t)
  const buyer = await addBuyer(store)
  const product = await store.addProduct({ amount: 700, currency: 'EUR', stock: null })
  for (const ago of days.toReversed()) await placeAgo(store, buyer, product, ago * DAY_MS)
  return { store, buyer, product }
}

async function placeAgo(store: TestStore, { token }: { token: string }, product: { id: string }, ms: number): Promise<void> {
  const { status, json, text } = await store.call('POST', '/orders', { token, body: { items: [{ product_id: product.id, quantity: 1 }] } })
  assert.equal(status, 201, text)
  await store.pool.query('update orders set created_at = $1 where id = $2', [new Date(Date.now() - ms - 60_000), json.id])
}

/** The days ago of which the figures have an order. */
async function daysIn({ pool }: TestStore): Promise<number[]> {
  const { rows } = await pool.query<{ days: number }>(
    `select floor(extract(epoch from now() - minute) / 86400)::integer as days from order_figures order by minute desc`,
  )
  return rows.map(({ days }) => days)
}

async function letCheckpointsAge({ pool }: TestStore): Promise<void> {
  await pool.query(`update figure_checkpoints set at = at - interval '26 hours'`)
}

/** The figures as the previous release leaves them: of eight days, with a settled number. */
async function asBefore(store: TestStore): Promise<void> {
  await rollUpOrders(store.pool)
  await letCheckpointsAge(store)
  await rollUpOrders(store.pool)
  await store.pool.query(`truncate order_figures, product_figures; update figure_progress set filled_from = null, changed_at = null`)
}

test('after an upgrade the newest days come first, and orders that are placed meanwhile at once', async (t) => {
  const { store, buyer, product } = await prepare(t)
  await asBefore(store)
  // Each run computes one chunk.
  const run = () => rollUpOrders(store.pool, { chunkOrders: 2, budgetMs: 0 })
  await run()
  assert.deepEqual(await daysIn(store), DAYS.slice(0, 2))
  await placeAgo(store, buyer, product, 0)
  await run()
  const { rows } = await store.pool.query(
    `select sum(orders)::integer as orders from order_figures where minute > now() - interval '1 hour'`,
  )
  assert.equal(rows[0].orders, 2)
  await letCheckpointsAge(store)
  // The chunk of this run is the order that has settled.
  await run()
  for (let filled = 2; filled < DAYS.length; ) {
    await run()
    const days = [...new Set(await daysIn(store))]
    assert.deepEqual(days, DAYS.slice(0, days.length), 'no day is before a newer one')
    assert.ok(days.length > filled || days.length === DAYS.length)
    filled = days.length
  }
})

test('says which part is not filled yet, until all is', async (t) => {
  const { store } = await prepare(t)
  await asBefore(store)
  const { token } = await registerOperator(store)
  const read = async (range: string) => (await store.call('GET', `/admin/figures?range=${range}`, { token })).json
  await store.pool.query(`update figure_progress set filled_from = now() - interval '10 days'`)
  assert.equal((await read('today')).filled_from, null)
  const week = await read('7_days')
  assert.ok(week.filled_from > week.before.from && week.filled_from < week.from, 'a part of the period before')
  const month = await read('30_days')
  assert.ok(month.filled_from > month.from)
  await store.pool.query('update figure_progress set filled_from = null')
  const none = await read('30_days')
  assert.equal(none.filled_from, none.to)
  await rollUpOrders(store.pool)
  await eventually(async () => (await read('30_days')).filled_from === null)
  assert.deepEqual(await daysIn(store), DAYS)
})

test('without a settled number the newest orders are computed first too', async (t) => {
  const { store } = await prepare(t)
  await store.pool.query(`delete from figure_checkpoints; update figure_progress set order_number = 0, filled_from = null`)
  for (let run = 0; run < 3; run++) {
    await rollUpOrders(store.pool, { chunkOrders: 1, budgetMs: 0 })
    assert.equal((await daysIn(store))[0], 0)
  }
})

test('the previous release deletes no figures that it does not know, and its figures are completed', async (t) => {
  const { store } = await prepare(t)
  await rollUpOrders(store.pool)
  assert.deepEqual(await daysIn(store), DAYS)
  const deleted = await store.pool.query(`delete from order_figures where minute < now() - interval '8 days'`)
  const slices = await store.pool.query(`delete from product_figures where slice < now() - interval '8 days'`)
  assert.deepEqual([deleted.rowCount, slices.rowCount], [0, 0])
  // What it computes of a minute has no net revenue.
  await store.pool.query(
    `with minute as (delete from order_figures where minute > now() - interval '1 hour' returning minute, currency, orders, revenue)
    insert into order_figures (minute, currency, orders, revenue) select minute, currency, orders, revenue from minute`,
  )
  await rollUpOrders(store.pool)
  const { rows } = await store.pool.query('select count(*)::integer as count from order_figures where net_revenue is null')
  assert.equal(rows[0].count, 0)
})

test('orders that moved in from another shop do not count', async (t) => {
  const { store, buyer } = await prepare(t, [0])
  const price = { amount: 900, currency: 'EUR' }
  const line = { product_id: randomUUID(), sku: 'X', name: 'X', unit_price: price, quantity: 1, total: price }
  const at = new Date(Date.now() - 60_000)
  const history = ['pending', 'cancelled'].map((status) => ({ status, at: at.toISOString(), imported: true }))
  await store.pool.query(
    `insert into orders (id, user_id, status, version, items, product_ids, total_amount, currency, status_history, created_at, updated_at)
    values (gen_random_uuid(), $1, 'cancelled', 2, $2, array[$3::uuid], 900, 'EUR', $4, $5, $5)`,
    [buyer.id, JSON.stringify([line]), line.product_id, JSON.stringify(history), at],
  )
  await rollUpOrders(store.pool)
  const { rows } = await store.pool.query(
    `select sum(orders)::integer as orders, sum(revenue)::integer as revenue, sum(cancelled)::integer as cancelled,
      (select count(*)::integer from product_figures) as products
    from order_figures`,
  )
  assert.deepEqual(rows, [{ orders: 1, revenue: 700, cancelled: 0, products: 1 }])
})

test('runs that end early reach the last of many orders that changed together, and then what comes after them', async (t) => {
  const { store } = await prepare(t, [0, 0, 0, 0, 0, 0, 30])
  await asBefore(store)
  await rollUpOrders(store.pool)
  await letCheckpointsAge(store)
  await rollUpOrders(store.pool)
  const { token } = await registerOperator(store)
  const { rows: listed } = await store.pool.query<{ id: string }>('select id from orders order by number desc limit 6')
  for (const [place, { id }] of listed.entries()) {
    const { status } = await store.call('POST', `/admin/orders/${id}/transitions`, { token, body: { to: 'cancelled' } })
    assert.equal(status, 200)
    await store.pool.query(
      `update orders
      set created_at = now() - make_interval(mins => 40 + $2), updated_at = now() - interval '30 minutes' + make_interval(secs => $2 * 5)
      where id = $1`,
      [id, place],
    )
  }
  await store.pool.query(`update figure_progress set changed_at = now() - interval '30 minutes', filled_from = now() - interval '20 days'`)
  for (let run = 0; run < 3; run++) await rollUpOrders(store.pool, { chunkOrders: 2, budgetMs: 0 })
  const { rows } = await store.pool.query(`select sum(cancelled)::integer as cancelled from order_figures`)
  assert.equal(rows[0].cancelled, 6)
  await rollUpOrders(store.pool, { chunkOrders: 2, budgetMs: 0 })
  assert.ok((await daysIn(store)).includes(30), 'older orders are computed next')
})

test('the minutes of the previous release are computed in parts, newest first', async (t) => {
  const { store } = await prepare(t, [])
  await rollUpOrders(store.pool)
  await store.pool.query(`update figure_progress set filled_from = now() - interval '20 days'`)
  await store.pool.query(
    `insert into order_figures (minute, currency, orders, revenue)
    select date_trunc('minute', now()) - make_interval(mins => ago), 'EUR', 1, 700 from generate_series(1, 1100) as ago`,
  )
  const left = async () => (await store.pool.query('select count(*)::integer as count, max(minute) as newest from order_figures')).rows[0]
  const before = await left()
  await rollUpOrders(store.pool, { budgetMs: 0 })
  const { count, newest } = await left()
  assert.ok(count > 0 && count < before.count && newest < before.newest, `${count} of ${before.count} are left`)
  await rollUpOrders(store.pool)
  assert.equal((await left()).count, 0)
})

test('an order whose history cannot be read counts as placed, and the others as what they are worth', async (t) => {
  const { store, buyer } = await prepare(t, [0])
  const at = new Date(Date.now() - 60_000).toISOString()
  const price = { amount: 900, currency: 'EUR' }
  const line = { product_id: randomUUID(), sku: 'X', name: 'X', unit_price: price, quantity: 1, total: price }
  const insert = (change: object) =>
    store.pool.query(
      `insert into orders (id, user_id, status, version, items, product_ids, total_amount, currency, status_history, created_at, updated_at)
      values (gen_random_uuid(), $1, 'pending', 2, $2, array[$3::uuid], 900, 'EUR', $4, $5, $5) returning id`,
      [
        buyer.id,
        JSON.stringify([line]),
        line.product_id,
        JSON.stringify([
          { status: 'pending', at },
          { status: 'pending', at, change },
        ]),
        at,
      ],
    )
  const { rows: malformed } = await insert({ type: 'returned', lines: null })
  await insert({ type: 'adjusted', kind: 'discount', label: 'Sorry', amount: -100 })
  const unreadable: string[] = []
  await rollUpOrders(store.pool, { onUnreadable: (id) => unreadable.push(id) })
  assert.deepEqual([...new Set(unreadable)], [malformed[0].id])
  const { rows } = await store.pool.query('select sum(net_revenue)::integer as net from order_figures')
  assert.equal(rows[0].net, 700 + 900 + 800)
})

test('the figures have a new time only when a run has reached every new and changed order', async (t) => {
  const { store } = await prepare(t, [0, 0, 0, 1])
  const collectedAt = async () => (await store.pool.query('select collected_at from figure_progress')).rows[0].collected_at as Date | null
  await rollUpOrders(store.pool, { chunkOrders: 1, budgetMs: 0 })
  assert.equal(await collectedAt(), null)
  const began = new Date()
  await rollUpOrders(store.pool, { chunkOrders: 1 })
  const collected = await collectedAt()
  assert.ok(collected !== null && Math.abs(collected.getTime() - began.getTime()) < 2_000)
  await rollUpOrders(store.pool, { chunkOrders: 1, budgetMs: 0 })
  assert.deepEqual(await collectedAt(), collected)
})

test('the figures have no new time while orders are missing that were settled before a run reached them', async (t) => {
  const { store, buyer, product } = await prepare(t, [0])
  await rollUpOrders(store.pool)
  const read = async () => {
    const { rows } = await store.pool.query<{ at: string; orders: number }>(
      'select collected_at::text as at, (select sum(orders)::integer from order_figures) as orders from figure_progress',
    )
    return rows[0] ?? assert.fail()
  }
  const before = await read()
  for (const minutes of [1, 2]) await placeAgo(store, buyer, product, minutes * 60_000)
  await rollUpOrders(store.pool, { signal: AbortSignal.abort() })
  await letCheckpointsAge(store)
  await rollUpOrders(store.pool, { chunkOrders: 1, budgetMs: 0 })
  const early = await read()
  assert.ok(early.orders < 3)
  assert.equal(early.at, before.at)
  await rollUpOrders(store.pool)
  const after = await read()
  assert.equal(after.orders, 3)
  assert.notEqual(after.at, before.at)
})

test('runs without a new order keep one checkpoint, which settles', async (t) => {
  const { store, buyer, product } = await prepare(t, [0])
  const checkpoints = async () => (await store.pool.query('select order_number from figure_checkpoints')).rows.length
  for (let run = 0; run < 3; run++) await rollUpOrders(store.pool)
  assert.equal(await checkpoints(), 1)
  await placeAgo(store, buyer, product, 0)
  for (let run = 0; run < 3; run++) await rollUpOrders(store.pool)
  assert.equal(await checkpoints(), 2)
  await letCheckpointsAge(store)
  await rollUpOrders(store.pool)
  assert.equal(await checkpoints(), 1)
})

test('a fast demo beside the store, whose changes have times of the past, is in the figures', async (t) => {
  const { store } = await prepare(t, [])
  await rollUpOrders(store.pool)
  let isOver = false
  const demo = runDemo({
    ...{ pool: store.pool, baseUrl: 'http://localhost', logger: pino({ level: 'silent' }), signal: new AbortController().signal },
    ...{ isFast: true, orders: 24, isForced: true, onOperatorCreated() {}, onProgress() {} },
  }).finally(() => {
    isOver = true
  })
  while (!isOver) {
    await rollUpOrders(store.pool)
    await letCheckpointsAge(store)
  }
  assert.equal((await demo).orders, 24)
  await rollUpOrders(store.pool)
  const { rows: truth } = await store.pool.query(
    `select count(*) filter (where status = 'cancelled')::integer as cancelled, count(*) filter (where status = 'returned')::integer as returned
    from orders`,
  )
  const { rows } = await store.pool.query(
    'select sum(cancelled)::integer as cancelled, sum(returned)::integer as returned from order_figures',
  )
  assert.ok(truth[0].cancelled > 0 && truth[0].returned > 0)
  assert.deepEqual(rows, truth)
})
