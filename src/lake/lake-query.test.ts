import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { DuckDBInstance } from '@duckdb/node-api'
import { commitFile, listFiles, makeLakeDirectory, NEVER, queryFolder, startSink } from '../../test/lake-harness.ts'
import { makeMessages, makeOrderEvent } from '../../test/order-event-factory.ts'
import type { TopicMessage } from '../topic/topic.ts'
import { newName } from './lake-names.ts'
import { LakeQueryError } from './lake-query.ts'
import { LocalLakeStore } from './local-store.ts'

/** Each batch becomes a file. */
async function writeLake(t: TestContext, directory: string, batches: TopicMessage[][]): Promise<void> {
  const sink = await startSink(t, directory)
  for (const batch of batches) {
    await sink.handle(batch, NEVER)
    await sink.flush()
  }
}

test('both views have their columns and no rows if there is no lake yet', async (t) => {
  const directory = makeLakeDirectory(t)
  const events = await queryFolder(directory, 'select * from order_events')
  assert.deepEqual(events.rows, [])
  assert.deepEqual(events.columns.slice(0, 3), ['sequence', 'event_id', 'event_type'])
  assert.equal(events.columns.at(-1), 'ingest_date')
  const orders = await queryFolder(directory, 'select * from orders')
  assert.deepEqual([orders.rows, orders.columns[0]], [[], 'order_id'])
})

test('the views have the same columns and types with and without files', async (t) => {
  const directory = makeLakeDirectory(t)
  const describe = () => queryFolder(directory, 'select column_name, column_type from (describe select * from order_events)')
  const before = await describe()
  await writeLake(t, directory, [makeMessages(2), makeMessages(2, 3)])
  assert.deepEqual(await describe(), before)
  assert.deepEqual(before.rows.at(-1), ['ingest_date', 'DATE'])
})

test("order_events has every event, and orders has each order's state with the highest version", async (t) => {
  const directory = makeLakeDirectory(t)
  const [first, second] = [randomUUID(), randomUUID()]
  const event = (id: string, version: number, status: 'pending' | 'confirmed' | 'shipped') =>
    makeOrderEvent({
      order: { id, version, status, number: id === first ? 'SF-1' : 'SF-2' },
      previous_status: version > 1 ? 'pending' : null,
    })
  await writeLake(t, directory, [
    [
      { sequence: 1, event: event(first, 1, 'pending') },
      { sequence: 2, event: event(second, 1, 'pending') },
    ],
    [
      { sequence: 3, event: event(first, 10, 'shipped') },
      { sequence: 4, event: event(first, 9, 'confirmed') },
    ],
  ])
  const orders = await queryFolder(directory, 'select order_number, version, status from orders order by order_number')
  assert.deepEqual(orders.rows, [
    ['SF-1', 10, 'shipped'],
    ['SF-2', 1, 'pending'],
  ])
  const events = await queryFolder(directory, 'select count(*), count(previous_status) from order_events')
  assert.deepEqual(events.rows, [['4', '2']])
})

test('returns times as RFC 3339 UTC, local times without a zone, big integers as exact text, lists and structs as JSON', async (t) => {
  const directory = makeLakeDirectory(t)
  const { columns, rows } = await queryFolder(
    directory,
    `select
       timestamptz '2026-03-01 12:00:00.25+02' as a, timestamptz '1969-12-31 23:59:59.999999+00' as b, (timestamptz '2026-02-28 23:00:00+00' at time zone 'Europe/Vienna') as c,
       'infinity'::timestamptz as d, 9007199254740993 as e, 1.10::decimal(9, 2) as f, date '2026-03-01' as g, null as h, true as i,
       [{ 'n': 9007199254740993, 'at': timestamptz '2026-03-01 00:00:00+00', 't': '"x"', 'z': null }] as j, map { 'k': 1.5::double } as k,
       current_setting('TimeZone') as zone`,
  )
  assert.equal(columns[0], 'a')
  assert.deepEqual(rows, [
    [
      '2026-03-01T10:00:00.250Z',
      '1969-12-31T23:59:59.999999Z',
      '2026-03-01 00:00:00',
      'infinity',
      '9007199254740993',
      '1.10',
      '2026-03-01',
      null,
      true,
      '[{"n":9007199254740993,"at":"2026-03-01T00:00:00.000Z","t":"\\"x\\"","z":null}]',
      '{"k":1.5}',
      'UTC',
    ],
  ])
})

test('returns the result of the last of several statements', async (t) => {
  const directory = makeLakeDirectory(t)
  const sql = 'create table known as select 41 as n; update known set n = n + 1; select n from known;'
  assert.deepEqual(await queryFolder(directory, sql), { columns: ['n'], rows: [[42]] })
})

test('reads only complete files, whatever else is in the folders', async (t) => {
  const directory = makeLakeDirectory(t)
  await writeLake(t, directory, [makeMessages(2)])
  await mkdir(join(directory, '.tmp'), { recursive: true })
  await writeFile(join(directory, '.tmp', '0000000000000003-0000000000000004.parquet'), 'not Parquet')
  await writeFile(join(directory, 'orders', 'ingest_date=2026-03-01', 'notes.parquet'), 'not Parquet')
  await mkdir(join(directory, 'orders', 'other'))
  assert.deepEqual((await queryFolder(directory, 'select count(*) from order_events')).rows, [['2']])
})

test('reads files with and without a column that was added later', async (t) => {
  const directory = makeLakeDirectory(t)
  await writeLake(t, directory, [makeMessages(2)])
  const name = newName('orders', '2026-03-02', 3, 3)
  await mkdir(dirname(join(directory, name)))
  const path = join(directory, name).replaceAll("'", "''")
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  await connection.run(`copy (select 3::bigint as sequence, 'web' as channel) to '${path}' (format parquet)`)
  connection.closeSync()
  instance.closeSync()
  await commitFile(new LocalLakeStore(directory), name)
  const { rows } = await queryFolder(directory, 'select sequence, channel, currency, ingest_date from order_events order by sequence')
  assert.deepEqual(rows, [
    ['1', null, 'EUR', '2026-03-01'],
    ['2', null, 'EUR', '2026-03-01'],
    ['3', 'web', null, '2026-03-02'],
  ])
})

test('answers while files are added, and reads only complete files', async (t) => {
  const directory = makeLakeDirectory(t)
  const batches = Array.from({ length: 15 }, (_, index) => makeMessages(10, index * 10 + 1))
  let written = false
  const writing = writeLake(t, directory, batches).finally(() => {
    written = true
  })
  while (!written) {
    const { rows } = await queryFolder(directory, 'select count(*), max(sequence) from order_events')
    const [count, newest] = rows[0] ?? []
    assert.equal(Number(count) % 10, 0)
    assert.equal(Number(newest ?? 0), Number(count))
  }
  await writing
})

test('reports what is wrong with a query in one line', async (t) => {
  const directory = makeLakeDirectory(t)
  for (const [sql, message] of [
    ['selec 1', /^Parser Error: syntax error at or near "selec"$/],
    ['select nothing from orders', /^Binder Error: Referenced column "nothing" not found/],
    ['select * from\n missing', /^Catalog Error: Table with name missing does not exist!/],
    ["select 'x'::integer", /^Conversion Error: /],
    ['', /no statement/],
    ['-- nothing', /no statement/],
    ['select 1; selec 2', /^Parser Error/],
  ] as const) {
    await assert.rejects(queryFolder(directory, sql), (error) => {
      assert.ok(error instanceof LakeQueryError, `${sql}: ${error}`)
      assert.match(error.message, message)
      assert.doesNotMatch(error.message, /\n/)
      return true
    })
  }
})

test('names a broken file instead of leaving it out', async (t) => {
  const directory = makeLakeDirectory(t)
  await writeLake(t, directory, [makeMessages(2)])
  const [file = ''] = await listFiles(directory)
  await writeFile(join(directory, 'orders', file), 'not Parquet at all')
  await assert.rejects(queryFolder(directory, 'select count(*) from order_events'), (error) => {
    assert.ok(error instanceof LakeQueryError)
    assert.match(
      error.message,
      /0000000000000001-0000000000000002-\w+\.parquet.*; `storefront verify` checks .* run storefront lake repair$/,
    )
    return true
  })
  const others = await queryFolder(directory, 'select count(*) from products')
  assert.deepEqual(others.rows, [['0']], 'views of other files answer')
})

test('refuses a lake that is not a folder', async (t) => {
  const directory = makeLakeDirectory(t)
  await writeFile(directory, '')
  await assert.rejects(queryFolder(directory, 'select 1'), LakeQueryError)
})
