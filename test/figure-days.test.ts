import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inTransaction } from '../src/db/transaction.ts'
import { readSalesOf } from '../src/figures/read-figures.ts'
import { addBuyer, type Buyer } from './buyers.ts'
import { registerOperator } from './register-operator.ts'
import { startStore, type TestStore } from './store.ts'

const HOUR_MS = 3_600_000

async function prepare(t: Parameters<typeof startStore>[0]) {
  const store = await startStore(t)
  const buyer = await addBuyer(store)
  return { store, buyer, lamp: await store.addProduct({ amount: 700, currency: 'EUR', stock: 1_000 }) }
}

async function placeAt(store: TestStore, { token }: Pick<Buyer, 'token'>, product: { id: string }, at: Date): Promise<void> {
  const { status, json, text } = await store.call('POST', '/orders', { token, body: { items: [{ product_id: product.id, quantity: 1 }] } })
  assert.equal(status, 201, text)
  await store.pool.query('update orders set created_at = $1 where id = $2', [at, json.id])
}

test('today is the day of the shop: of 23, 24 and 25 hours, and of half hours', async (t) => {
  const store = await startStore(t)
  for (const [timeZone, from, to] of [
    ['Europe/Vienna', '2026-03-28T23:00:00.000Z', '2026-03-29T22:00:00.000Z'],
    ['Europe/Vienna', '2026-10-24T22:00:00.000Z', '2026-10-25T23:00:00.000Z'],
    ['America/New_York', '2026-03-08T05:00:00.000Z', '2026-03-09T04:00:00.000Z'],
    ['America/New_York', '2026-11-01T04:00:00.000Z', '2026-11-02T05:00:00.000Z'],
    ['Asia/Kathmandu', '2026-03-28T18:15:00.000Z', '2026-03-29T18:15:00.000Z'],
    ['Australia/Lord_Howe', '2026-10-03T13:30:00.000Z', '2026-10-04T13:00:00.000Z'],
    ['America/Santiago', '2026-09-06T04:00:00.000Z', '2026-09-07T03:00:00.000Z'],
    ['UTC', '2026-03-29T00:00:00.000Z', '2026-03-30T00:00:00.000Z'],
  ] as const) {
    const [begin, end] = [Date.parse(from), Date.parse(to)]
    // The day has its first and its last minute; the minutes beside it are of other days.
    await store.pool.query(
      `insert into order_figures (minute, currency, orders, revenue)
      select minute, 'EUR', 1, amount from unnest($1::timestamptz[], $2::bigint[]) as placed (minute, amount)`,
      [[begin - 60_000, begin, end - 60_000, end].map((ms) => new Date(ms)), [1, 10, 100, 1_000]],
    )
    const read = (now: number) =>
      readSalesOf(store.pool, { range: 'today', collectedAt: null, filledFrom: null, now: new Date(now), timeZone })
    const last = await read(end - 1)
    assert.deepEqual([last.from, last.to, last.times.length], [from, to, (end - begin) / 600_000], timeZone)
    assert.deepEqual([last.totals.orders, last.totals.revenue], [2, [{ currency: 'EUR', amount: 110 }]], timeZone)
    assert.deepEqual([last.sales[0]?.revenue[0], last.sales[0]?.revenue.at(-1)], [10, 100])
    const first = await read(begin)
    assert.deepEqual([first.from, first.times.length, first.totals.orders], [from, 1, 1], timeZone)
    assert.equal((await read(begin - 1)).to, from, 'the day before ends there')
    assert.equal((await read(end)).from, to, 'the next one begins there')
    await store.pool.query('truncate order_figures')
  }
})

test('days of the shop are compared with as many before, up to the same time of day; cancelled and returned orders are no revenue', async (t) => {
  const { store, buyer, lamp } = await prepare(t)
  const timeZone = 'Europe/Vienna'
  // The clocks went forward on 29 March.
  const now = new Date('2026-03-31T13:00:00Z')
  const at = async (instant: string, status = 'confirmed') => {
    await placeAt(store, buyer, lamp, new Date(instant))
    // Past the rules of an order's history.
    await inTransaction(store.pool, async (tx) => {
      await tx.query('set local session_replication_role = replica')
      await tx.query('update orders set status = $1 where created_at = $2', [status, new Date(instant)])
    })
  }
  await at('2026-03-31T09:00:00Z')
  await at('2026-03-31T10:00:00Z', 'cancelled')
  await at('2026-03-30T12:00:00Z', 'returned')
  await at('2026-03-30T14:00:00Z')
  await at('2026-03-24T22:30:00Z')
  await at('2026-03-24T13:30:00Z')
  await at('2026-03-01T23:30:00Z')
  await store.pool.query(
    `insert into order_figures (minute, currency, orders, revenue, net_revenue, cancelled, returned)
    select date_trunc('minute', created_at), currency, count(*), sum(total_amount),
      sum(case when status = 'confirmed' then total_amount else 0 end),
      count(*) filter (where status = 'cancelled'), count(*) filter (where status = 'returned')
    from orders group by 1, 2`,
  )
  const read = async (range: Parameters<typeof readSalesOf>[1]['range']) => {
    const options = { range, collectedAt: now, filledFrom: null, now, timeZone }
    const { totals, before, from, to, times, sales } = await readSalesOf(store.pool, options)
    const of = ({ orders, cancelled, returned, net_revenue }: typeof totals) => [orders, cancelled, returned, net_revenue[0]?.amount ?? 0]
    return {
      now: of(totals),
      before: of(before.totals),
      from,
      to,
      beforeFrom: before.from,
      beforeTo: before.to,
      steps: times.length,
      net: sales[0]?.net_revenue,
    }
  }
  assert.deepEqual(await read('today'), {
    ...{ now: [2, 1, 0, 700], before: [1, 0, 1, 0], from: '2026-03-30T22:00:00.000Z', to: '2026-03-31T13:10:00.000Z', steps: 91 },
    ...{ beforeFrom: '2026-03-29T22:00:00.000Z', beforeTo: '2026-03-30T13:00:00.000Z', net: (await read('today')).net },
  })
  const yesterday = await read('yesterday')
  assert.deepEqual([yesterday.now, yesterday.before, yesterday.steps], [[2, 0, 1, 700], [0, 0, 0, 0], 24])
  assert.deepEqual([yesterday.beforeFrom, yesterday.beforeTo], ['2026-03-28T23:00:00.000Z', '2026-03-29T22:00:00.000Z'])
  const week = await read('7_days')
  // It is 15:00 in Vienna: 14:30 of 24 March counts, 23:30 does not.
  assert.deepEqual([week.now, week.before, week.steps], [[4, 1, 1, 1_400], [1, 0, 0, 700], 7])
  assert.deepEqual(
    [week.from, week.beforeFrom, week.beforeTo],
    ['2026-03-24T23:00:00.000Z', '2026-03-17T23:00:00.000Z', '2026-03-24T14:00:00.000Z'],
  )
  assert.deepEqual(week.net, [0, 0, 0, 0, 0, 700, 700])
  const month = await read('30_days')
  assert.deepEqual([month.now, month.before, month.steps, month.from], [[7, 1, 1, 3_500], [0, 0, 0, 0], 30, '2026-03-01T23:00:00.000Z'])
})

test('what waits for a person is counted with the age of the oldest', async (t) => {
  const { store, buyer, lamp } = await prepare(t)
  const operator = await registerOperator(store)
  const oldest = new Date(Date.now() - 50 * HOUR_MS)
  await placeAt(store, buyer, lamp, oldest)
  await placeAt(store, buyer, lamp, new Date())
  await store.addProduct({ stock: 0 })
  const read = async (part: string) => (await store.call('GET', `/admin/to-do/${part}`, { token: operator.token })).json
  assert.deepEqual(await read('orders'), {
    to_confirm: { count: 2, oldest_at: oldest.toISOString() },
    to_ship: { count: 0, oldest_at: null },
    unpaid: { count: 2, oldest_at: oldest.toISOString() },
  })
  assert.deepEqual([await read('mails'), await read('stock')], [{ failed: 0 }, { sold_out: 1 }])
})
