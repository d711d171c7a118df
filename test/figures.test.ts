import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type pg from 'pg'
import { deleteOldFigures, rollUpOrders } from '../src/figures/roll-up-orders.ts'
import { queryLake } from '../src/lake/lake-query.ts'
import { LocalLakeStore } from '../src/lake/local-store.ts'
import { addBuyer, addBuyers, type Buyer } from './buyers.ts'
import { connectTo } from './database.ts'
import { eventually } from './eventually.ts'
import { registerOperator } from './register-operator.ts'
import { startSecondProcess, startStore, type TestStore } from './store.ts'

const HOUR_MS = 3_600_000

async function place(store: Pick<TestStore, 'call'>, { token }: { token: string }, product: { id: string }, quantity = 1): Promise<string> {
  const { status, json, text } = await store.call('POST', '/orders', { token, body: { items: [{ product_id: product.id, quantity }] } })
  assert.equal(status, 201, text)
  return json.id
}

/** What the figures should be, by statements that have nothing in common with those of the program. */
async function assertTruth({ pool }: TestStore, what: string): Promise<void> {
  const { rows: counted } = await pool.query(
    'select minute::text, currency, orders::integer, revenue::bigint from order_figures order by minute, currency',
  )
  const { rows: orders } = await pool.query<{ created_at: Date; currency: string; total_amount: number; items: Line[] }>(
    'select created_at, currency, total_amount, items from orders',
  )
  const byMinute = Map.groupBy(orders, ({ created_at, currency }) => `${Math.floor(created_at.getTime() / 60_000)} ${currency}`)
  assert.deepEqual(
    counted.map(({ minute, currency, orders, revenue }) => [`${new Date(minute).getTime() / 60_000} ${currency}`, orders, revenue]).sort(),
    [...byMinute].map(([key, list]) => [key, list.length, list.reduce((sum, { total_amount }) => sum + total_amount, 0)]).sort(),
    what,
  )
  const sold = new Map<string, number>()
  for (const { created_at, currency, items } of orders) {
    for (const { product_id, quantity } of items) {
      const key = `${Math.floor(created_at.getTime() / 600_000)} ${product_id} ${currency}`
      sold.set(key, (sold.get(key) ?? 0) + quantity)
    }
  }
  const { rows: products } = await pool.query('select slice::text, product_id, currency, quantity::integer from product_figures')
  assert.deepEqual(
    products
      .map(({ slice, product_id, currency, quantity }) => [`${new Date(slice).getTime() / 600_000} ${product_id} ${currency}`, quantity])
      .sort(),
    [...sold].sort(),
    what,
  )
}

interface Sales {
  currency: string
  orders: number[]
  revenue: number[]
}

const add = (values: number[]): number => values.reduce((sum, value) => sum + value, 0)

interface Line {
  product_id: string
  quantity: number
}

/** An order of another program, in the transaction of `db`. */
async function insertOrder(db: pg.ClientBase | TestStore['pool'], buyer: Buyer, product: { id: string }, placedAt: Date): Promise<void> {
  const price = { amount: 700, currency: 'EUR' }
  const line = { product_id: product.id, sku: 'X', name: 'X', category: 'x', unit_price: price, quantity: 1, total: price }
  await db.query(
    `insert into orders (id, user_id, status, items, product_ids, total_amount, currency, status_history, created_at, updated_at)
    values (gen_random_uuid(), $1, 'pending', $2, array[$3::uuid], 700, 'EUR', $4, $5, $5)`,
    [buyer.id, JSON.stringify([line]), product.id, JSON.stringify([{ status: 'pending', at: placedAt.toISOString() }]), placedAt],
  )
}

/** Makes the checkpoints so far `seconds` older. */
async function age({ pool }: TestStore, seconds: number): Promise<void> {
  await pool.query('update figure_checkpoints set at = at - make_interval(secs => $1)', [seconds])
}

const progressOf = async ({ pool }: TestStore): Promise<number> =>
  (await pool.query('select order_number from figure_progress')).rows[0].order_number

async function prepare(t: Parameters<typeof startStore>[0]) {
  const store = await startStore(t)
  const buyer = await addBuyer(store)
  const lamp = await store.addProduct({ amount: 1_250, currency: 'EUR', stock: 1_000 })
  const tea = await store.addProduct({ amount: 900, currency: 'JPY', stock: 1_000 })
  return { store, buyer, lamp, tea }
}

test('equals the orders in two currencies, however often it runs', async (t) => {
  const { store, buyer, lamp, tea } = await prepare(t)
  await place(store, buyer, lamp, 2)
  await place(store, buyer, tea, 3)
  await rollUpOrders(store.pool)
  await assertTruth(store, 'once')
  await place(store, buyer, lamp)
  for (let run = 0; run < 3; run++) await rollUpOrders(store.pool)
  await assertTruth(store, 'again')
})

test('two processes that compute while orders are placed count each order once', async (t) => {
  const { store, lamp, tea } = await prepare(t)
  const second = await startSecondProcess(t, store)
  const buyers = await addBuyers(store, 6)
  let isPlacing = true
  const placing = Promise.all(
    buyers.map(async (buyer, index) => {
      for (let turn = 0; turn < 10; turn++) await place(index % 2 === 0 ? store : second, buyer, turn % 2 === 0 ? lamp : tea)
    }),
  ).finally(() => {
    isPlacing = false
  })
  const runs = [0, 1].map(async () => {
    while (isPlacing) await rollUpOrders(store.pool, { chunkOrders: 7 })
  })
  await Promise.all([placing, ...runs])
  await Promise.all([rollUpOrders(store.pool), rollUpOrders(store.pool, { chunkOrders: 5 })])
  await assertTruth(store, 'after')
  const { rows } = await store.pool.query('select sum(orders)::integer as orders from order_figures')
  assert.equal(rows[0].orders, 60)
})

test('counts an order with a lower number that commits late, after hours as well', async (t) => {
  const { store, buyer, lamp } = await prepare(t)
  const late = await connectTo(t, store.url)
  await late.query('begin')
  await insertOrder(late, buyer, lamp, new Date(Date.now() - 10 * 60_000))
  const other = await addBuyer(store)
  await place(store, other, lamp)
  for (let minute = 0; minute < 5; minute++) {
    await rollUpOrders(store.pool)
    await age(store, 300)
  }
  assert.equal(await progressOf(store), 0, 'nothing counts as settled while the transaction is open')
  await late.query('commit')
  await rollUpOrders(store.pool)
  await assertTruth(store, 'late')
  await age(store, 300)
  const { rows } = await store.pool.query('select max(number) as newest from orders')
  // A transaction of another database of the server, such as that of another test, also delays it.
  const isSettled = async () => {
    await rollUpOrders(store.pool)
    return (await progressOf(store)) === rows[0].newest
  }
  await eventually(isSettled, { what: 'settled after its end' })
  await assertTruth(store, 'settled')
})

test('counts past-dated orders in their own minutes, and nothing is lost when it did not run for an hour', async (t) => {
  const { store, buyer, lamp } = await prepare(t)
  await rollUpOrders(store.pool)
  await age(store, 7_200)
  const now = Date.now()
  for (const hours of [0, 1, 26, 100]) await insertOrder(store.pool, buyer, lamp, new Date(now - hours * HOUR_MS))
  await rollUpOrders(store.pool)
  await assertTruth(store, 'a month at once')
  await age(store, 7_200)
  for (let run = 0; run < 2; run++) await rollUpOrders(store.pool)
  await insertOrder(store.pool, buyer, lamp, new Date(now - 26 * HOUR_MS))
  await rollUpOrders(store.pool, { chunkOrders: 1 })
  await assertTruth(store, 'one more in an old minute')
})

test('a run that fails between its chunks leaves whole minutes, and the next one finishes', async (t) => {
  const { store, buyer, lamp } = await prepare(t)
  for (const minutes of [1, 30, 60, 90]) await insertOrder(store.pool, buyer, lamp, new Date(Date.now() - minutes * 60_000))
  await store.pool.query(`
    create function refuse_third() returns trigger language plpgsql as $$
    begin
      if (select count(*) from product_figures) >= 2 then raise exception 'the server is gone'; end if;
      return new;
    end $$;
    create trigger refuse_third before insert on product_figures for each row execute function refuse_third()`)
  await assert.rejects(rollUpOrders(store.pool, { chunkOrders: 1 }), /the server is gone/)
  const { rows } = await store.pool.query(
    'select (select count(*) from order_figures) = (select count(*) from product_figures) as are_equal',
  )
  assert.deepEqual(rows, [{ are_equal: true }])
  await store.pool.query('drop trigger refuse_third on product_figures')
  await rollUpOrders(store.pool)
  await assertTruth(store, 'repaired')
})

test('a run ends at its budget or its stop, and later ones continue', async (t) => {
  const { store, buyer, lamp } = await prepare(t)
  for (let order = 0; order < 4; order++) await insertOrder(store.pool, buyer, lamp, new Date(Date.now() - order * 60_000))
  await rollUpOrders(store.pool, { signal: AbortSignal.abort() })
  await age(store, 300)
  for (let run = 0; run < 4; run++) await rollUpOrders(store.pool, { chunkOrders: 1, budgetMs: 0.001 + run })
  for (let run = 0; run < 4; run++) await rollUpOrders(store.pool, { chunkOrders: 1 })
  await assertTruth(store, 'in parts')
})

test('of two processes at the beginning of a minute one computes', async (t) => {
  const { store } = await prepare(t)
  const runs = await Promise.all([1, 2].map(() => rollUpOrders(store.pool, { notWithinSeconds: 10 })))
  assert.equal(runs.filter((minutes) => minutes === null).length, 1)
})

test('who reads the figures while they are computed gets the new ones right after', async (t) => {
  const { store, buyer, lamp } = await prepare(t)
  const admin = await registerOperator(store)
  await place(store, buyer, lamp)
  const readOrders = async () => (await store.call('GET', '/admin/figures', { token: admin.token })).json.totals.orders
  const other = await connectTo(t, store.url)
  // Others can read it, and not write.
  await other.query('begin; lock table order_figures in share mode')
  const run = rollUpOrders(store.pool)
  await eventually(async () => {
    const { rows } = await store.pool.query(`select from pg_locks where relation = 'order_figures'::regclass and not granted
      and database = (select oid from pg_database where datname = current_database())`)
    return rows.length > 0
  })
  assert.equal(await readOrders(), 0)
  await other.query('commit')
  await run
  assert.equal(await readOrders(), 1)
})

test('says the same as the lake of orders in two currencies, one of them without decimals', async (t) => {
  const store = await startStore(t, { roles: ['api', 'stream', 'lake'], lakeFlushSeconds: 1 })
  const admin = await registerOperator(store)
  const buyers = await addBuyers(store, 3)
  const lamp = await store.addProduct({ amount: 1_999, currency: 'EUR' })
  const tea = await store.addProduct({ amount: 901, currency: 'JPY' })
  for (const [index, buyer] of buyers.entries()) {
    await place(store, buyer, lamp, index + 1)
    const id = await place(store, buyer, tea, 2 * index + 1)
    // A later state of an order adds an event, and no revenue.
    if (index === 0) assert.equal((await store.call('POST', `/orders/${id}/cancel`, { token: buyer.token })).status, 200)
  }
  await rollUpOrders(store.pool)
  const { json } = await store.call('GET', '/admin/figures?range=day', { token: admin.token })
  const figures = json.sales.map(({ currency, orders, revenue }: Sales) => [currency, add(orders), add(revenue)])
  assert.deepEqual(figures, [
    ['EUR', 3, 6 * 1_999],
    ['JPY', 3, 9 * 901],
  ])
  const sums = 'currency, count(*)::integer, sum(total_amount)::integer'
  const lake = await eventually(async () => {
    const files = new LocalLakeStore(join(store.config.dataDir, 'lake'))
    if ((await files.list('orders/')).length === 0) return false
    const events = await queryLake(files, 'select count(*)::integer from order_events')
    return events.rows[0]?.[0] === 7 && files
  })
  assert.deepEqual((await queryLake(lake, `select ${sums} from order_events where version = 1 group by 1 order by 1`)).rows, figures)
  assert.deepEqual((await queryLake(lake, `select ${sums} from orders group by 1 order by 1`)).rows, figures)
})

test('sums end where JSON numbers lose units, and the figures stay readable', async (t) => {
  const { store, lamp } = await prepare(t)
  const most = Number.MAX_SAFE_INTEGER
  await store.pool.query(
    `with placed as (select generate_series(1, 3) as turn)
    insert into order_figures (minute, currency, orders, revenue)
    select date_trunc('minute', now()) - make_interval(mins => turn), 'EUR', 1, 2000 * $1::numeric from placed`,
    [most],
  )
  await store.pool.query(
    `insert into product_figures (slice, product_id, currency, quantity, revenue) values (date_bin('10 minutes', now(), 'epoch'), $1, 'EUR', $2::bigint, 2000 * $2::bigint::numeric)`,
    [lamp.id, most],
  )
  const admin = await registerOperator(store)
  const { status, json } = await store.call('GET', '/admin/figures?range=day', { token: admin.token })
  assert.equal(status, 200)
  assert.deepEqual(json.totals.revenue, [{ currency: 'EUR', amount: most }])
  assert.equal(Math.max(...json.sales[0].revenue), most)
  assert.deepEqual(json.best_sellers[0].revenue, [{ currency: 'EUR', amount: most }])
})

test('figures older than 61 days are deleted', async (t) => {
  const { store, buyer, lamp } = await prepare(t)
  await insertOrder(store.pool, buyer, lamp, new Date())
  await rollUpOrders(store.pool)
  await store.pool.query(`
    insert into order_figures values (now() - interval '62 days', 'EUR', 1, 1);
    insert into product_figures values (now() - interval '62 days', gen_random_uuid(), 'EUR', 1, 1)`)
  assert.equal(await deleteOldFigures(store.pool, new Date()), 2)
  assert.equal(await deleteOldFigures(store.pool, new Date()), 0)
  await assertTruth(store, 'the others stay')
})

const shared = await startStore({ after })
const operator = await registerOperator(shared)

test('shows sales, best sellers and stock of the range, with totals that are the sums of the series', async () => {
  const buyer = await addBuyer(shared)
  const lamp = await shared.addProduct({ name: '<img src=x onerror=alert(1)>', amount: 1_250, currency: 'EUR', stock: 9 })
  const tea = await shared.addProduct({ name: 'Tea', amount: 900, currency: 'JPY', stock: 5 })
  await shared.addProduct({ name: 'A download', stock: null })
  await place(shared, buyer, lamp, 4)
  await place(shared, buyer, tea, 3)
  await insertOrder(shared.pool, buyer, lamp, new Date(Date.now() - 5 * HOUR_MS))
  await rollUpOrders(shared.pool)
  for (const [range, orders, revenue, sold] of [
    ['hour', 2, 5_000, 4],
    ['day', 3, 5_700, 5],
    ['week', 3, 5_700, 5],
  ] as const) {
    const { status, json } = await shared.call('GET', `/admin/figures?range=${range}`, { token: operator.token })
    assert.equal(status, 200)
    assert.deepEqual(
      { orders: json.totals.orders, revenue: json.totals.revenue },
      {
        orders,
        revenue: [
          { currency: 'EUR', amount: revenue },
          { currency: 'JPY', amount: 2_700 },
        ],
      },
      range,
    )
    assert.equal(json.times.length, json.sales[0].orders.length)
    assert.equal(new Date(json.times[1]).getTime() - new Date(json.times[0]).getTime(), json.step_seconds * 1_000)
    assert.deepEqual(json.best_sellers[0], {
      product_id: lamp.id,
      sku: lamp.sku,
      name: lamp.name,
      image_url: null,
      quantity: sold,
      revenue: [{ amount: revenue, currency: 'EUR' }],
    })
    assert.deepEqual(
      json.low_stock.map((product: { available: number }) => product.available),
      [2, 5],
    )
  }
})

test('the same figures have the same entity tag, and a client that has them gets 304', async () => {
  await rollUpOrders(shared.pool)
  const path = '/admin/figures?range=day'
  const answers = await Promise.all([1, 2, 3].map(() => shared.call('GET', path, { token: operator.token })))
  const [etag, ...others] = answers.map(({ headers }) => headers.etag ?? '')
  assert.match(etag ?? '', /^"[\w-]{22}"$/)
  assert.deepEqual(others, [etag, etag])
  for (const known of [etag, `"other", W/${etag}`, '*']) {
    const { status, text, headers } = await shared.call('GET', path, { token: operator.token, headers: { 'if-none-match': known ?? '' } })
    assert.deepEqual({ status, text, etag: headers.etag }, { status: 304, text: '', etag })
  }
  await rollUpOrders(shared.pool)
  const { status, headers } = await shared.call('GET', path, { token: operator.token, headers: { 'if-none-match': etag ?? '' } })
  assert.equal(status, 200)
  assert.notEqual(headers.etag, etag)
})

test('a store collects its figures without being asked', async (t) => {
  const store = await startStore(t)
  const admin = await registerOperator(store)
  const buyer = await addBuyer(store)
  await place(store, buyer, await store.addProduct())
  await eventually(async () => {
    const { json } = await store.call('GET', '/admin/figures', { token: admin.token })
    return json.generated_at !== null && json.totals.orders === 1
  })
})
