import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { writeFiles } from '../../test/lake-harness.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type Answer, startStore } from '../../test/store.ts'
import { LocalLakeStore } from './local-store.ts'

const store = await startStore({ after })
const operator = await registerOperator(store)
const directory = join(store.config.dataDir, 'lake')
await writeFiles({ after }, new LocalLakeStore(directory), [2, 2])
/** A query starts a process, for which a busy machine may need more than the ten seconds of a query. */
async function send(body: unknown, token = operator.token): Promise<Answer> {
  const answer = await store.call('POST', '/admin/lake/queries', { token, body })
  return answer.json?.code === 'query_timeout' ? send(body, token) : answer
}

test('answers with columns, types, rows and the time it took', async () => {
  const answer = await send({ sql: 'select status, count(*) as orders, null as none, 1.50 as price from orders group by status' })
  assert.equal(answer.status, 200, answer.text)
  assert.deepEqual(answer.json.columns, [
    { name: 'status', type: 'VARCHAR' },
    { name: 'orders', type: 'BIGINT' },
    { name: 'none', type: 'INTEGER' },
    { name: 'price', type: 'DECIMAL(3,2)' },
  ])
  assert.deepEqual(answer.json.rows, [['pending', '4', null, '1.50']])
  assert.equal(answer.json.is_truncated, false)
  assert.ok(answer.json.elapsed_ms > 0 && answer.json.elapsed_ms < 10_000)
  assert.equal(answer.headers['cache-control'], 'no-store')
  assert.match(String(answer.headers['content-type']), /^application\/json/)
})

test('returns at most `limit` rows, by default 1,000', async () => {
  const cut = await send({ sql: 'select * from range(1000000000000::bigint)' })
  assert.deepEqual([cut.json.rows.length, cut.json.is_truncated], [1_000, true])
  const most = await send({ sql: 'select * from range(10000)', limit: 10_000 })
  assert.deepEqual([most.json.rows.length, most.json.is_truncated], [10_000, false])
  const one = await send({ sql: 'select * from orders', limit: 1 })
  assert.deepEqual([one.json.rows.length, one.json.is_truncated], [1, true])
})

test('limits answers to 8 MiB', async () => {
  const { json, text } = await send({ sql: `select repeat('"', 100000) as quotes from range(1000)` })
  assert.equal(json.is_truncated, true, text.slice(0, 500))
  assert.ok(json.rows.length > 30 && text.length < 8.1 * 1_048_576, `${json.rows.length} rows, ${text.length} characters`)
})

test("shows DuckDB's reason on one line, without a path of this machine", async () => {
  for (const [sql, detail] of [
    ['selec 1', /^Parser Error: syntax error at or near "selec"$/],
    ['select nothing from orders', /^Binder Error: Referenced column "nothing" not found/],
    ["select 'x'::integer", /^Conversion Error: /],
    [
      "select * from '/etc/passwd'",
      /^\/etc\/passwd is refused: a query reads order_events, orders, adjustments, payments, refunds, parcels, customers, catalogue_events, products, prices, stock_events$/,
    ],
  ] as const) {
    const refusal = await send({ sql })
    assert.deepEqual([refusal.status, refusal.json.code], [422, 'query_refused'], sql)
    assert.match(refusal.json.detail, detail)
    assert.doesNotMatch(refusal.text, /\\n|LINE|storefront-test-/)
  }
})

test('runs one query at a time for each operator, and three in all', async () => {
  const others = await Promise.all([registerOperator(store), registerOperator(store), registerOperator(store)])
  const slow = 'select count(*) from range(700000000)'
  const ask = (token: string) => store.call('POST', '/admin/lake/queries', { token, body: { sql: slow } })
  let before = 0
  const countRunning = async () => {
    const { rowCount } = await store.pool.query(
      `select from activities where action = 'queryLake' and after ->> 'sql' like '%from range(%'`,
    )
    return (rowCount ?? 0) - before
  }
  before = await countRunning()
  const running = [operator, ...others.slice(0, 2)].map(({ token }) => ask(token))
  await eventually(async () => (await countRunning()) === 3, { what: 'three recorded queries, which run' })
  const mine = await send({ sql: 'select 1' })
  assertProblem(mine, 429, 'rate_limited')
  assert.ok(Number(mine.headers['retry-after']) > 0)
  const fourth = await send({ sql: 'select 1' }, others[2]?.token)
  assertProblem(fourth, 503, 'unavailable')
  assert.ok(Number(fourth.headers['retry-after']) > 0)
  for (const answer of await Promise.all(running)) assert.ok([200, 422].includes(answer.status), answer.text)
  assert.equal((await send({ sql: 'select 1' }, others[2]?.token)).status, 200)
})

test('records a query before it runs, without its values, and records why it had no answer', async () => {
  const { id, token } = await registerOperator(store)
  const { port } = store
  const ask = (sql: string, signal?: AbortSignal) =>
    fetch(`http://127.0.0.1:${port}/admin/lake/queries`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ sql }),
      ...(signal === undefined ? {} : { signal }),
    })
  const recorded = async () => {
    const { rows } = await store.pool.query<{ after: { sql?: string; outcome?: string }; request_id: string }>(
      `select after, request_id from activities where actor_id = $1 and action = 'queryLake' order by id`,
      [id],
    )
    return rows
  }
  const endless = `select count(*) from range(100000000000000) where range::text <> 'Ada'`

  assert.equal((await ask(`select * from nothing where name = 'Ada'`)).status, 422)
  const refused = await recorded()
  assert.deepEqual(
    refused.map(({ after }) => after),
    [{ sql: `select * from nothing where name = '…'`, limit: 1_000 }, { outcome: 'query_refused' }],
  )
  assert.equal(refused[0]?.request_id, refused[1]?.request_id)

  const gone = new AbortController()
  const cancelled = ask(endless, gone.signal)
  await eventually(async () => (await recorded()).length === 3, { what: 'the query is recorded while it runs' })
  assertProblem(await store.call('POST', '/admin/lake/queries', { token, body: { sql: 'select 1' } }), 429, 'rate_limited')
  gone.abort()
  await assert.rejects(cancelled, { name: 'AbortError' })
  await eventually(async () => (await recorded()).length === 4, { what: 'its outcome' })
  assert.deepEqual(
    (await recorded()).slice(2).map(({ after }) => after.outcome ?? 'asked'),
    ['asked', 'cancelled'],
    'what has not run is not recorded',
  )

  assert.equal((await ask(endless)).status, 422)
  assert.deepEqual(
    (await recorded()).slice(4).map(({ after }) => after.outcome ?? 'asked'),
    ['asked', 'query_timeout'],
  )
})

test('lists the tables and columns that a query can read', async () => {
  const json = await operator.ok('GET', '/admin/lake/tables')
  assert.deepEqual(
    json.data.map(({ name, columns }: { name: string; columns: { name: string }[] }) => [name, columns[0]?.name]),
    [
      ['order_events', 'sequence'],
      ['orders', 'order_id'],
      ...['adjustments', 'payments', 'refunds', 'parcels'].map((name) => [name, 'order_id']),
      ['customers', 'user_id'],
      ['catalogue_events', 'sequence'],
      ['products', 'product_id'],
      ['prices', 'product_id'],
      ['stock_events', 'sequence'],
    ],
  )
})

test('a process without the lake refuses queries, and a lake without events answers with no rows', async (t) => {
  rmSync(directory, { recursive: true })
  const away = await send({ sql: 'select count(*) from orders' })
  assertProblem(away, 503, 'unavailable')
  assert.match(away.json.detail, /LAKE_URL/)
  const own = await startStore(t, { roles: ['api', 'lake'] })
  const { token } = await registerOperator(own)
  const empty = await own.call('POST', '/admin/lake/queries', { token, body: { sql: 'select count(*) from orders' } })
  assert.deepEqual(empty.json.rows, [['0']])
})
