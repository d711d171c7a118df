import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { listFiles, makeLakeDirectory, NEVER, queryFolder, startSink, withoutTag } from '../../test/lake-harness.ts'
import { makeMessages, makeOrderEvent, makeOrderItem } from '../../test/order-event-factory.ts'
import { literal } from '../db/sql.ts'
import { readablePath } from './lake-database.ts'

test('starts a new file when the UTC date changes between events', async (t) => {
  const directory = makeLakeDirectory(t)
  let now = new Date('2026-03-01T23:59:59.999Z')
  const sink = await startSink(t, directory, { now: () => now })
  await sink.handle(makeMessages(2), NEVER)
  now = new Date('2026-03-02T00:00:00.000Z')
  await sink.handle(makeMessages(2, 3), NEVER)
  await sink.flush()
  assert.deepEqual((await listFiles(directory)).map(withoutTag), [
    'ingest_date=2026-03-01/0000000000000001-0000000000000002.parquet',
    'ingest_date=2026-03-02/0000000000000003-0000000000000004.parquet',
  ])
  const { rows } = await queryFolder(directory, 'select distinct ingest_date, ingested_at from order_events order by all')
  assert.deepEqual(rows, [
    ['2026-03-01', '2026-03-01T23:59:59.999Z'],
    ['2026-03-02', '2026-03-02T00:00:00.000Z'],
  ])
})

test('keeps every character and every integer up to 2^53 − 1 exactly', async (t) => {
  const directory = makeLakeDirectory(t)
  const names = [
    `'; drop table orders; --`,
    `"quoted" \\ back\\slash \\u0041 \\n`,
    'line\nbreak\r\n\ttab',
    '  spaces  ',
    '',
    'null',
    'NaN',
    '{"json": [1, 2]}',
    '日本語 🫖 e\u0301 \u200f\u202e \u2028 \ufeff',
    'control \u0001\u001b[31m\u007f',
    'zero \u0000 byte',
    'long '.repeat(10_000),
  ]
  const items = names.map((name) =>
    makeOrderItem({ name, sku: name, quantity: 10_000, total: { amount: Number.MAX_SAFE_INTEGER, currency: 'EUR' } }),
  )
  const sink = await startSink(t, directory)
  const order = { items, number: names.join('|'), total: { amount: Number.MAX_SAFE_INTEGER, currency: 'EUR' } }
  await sink.handle([{ sequence: Number.MAX_SAFE_INTEGER - 1, event: makeOrderEvent({ order }) }], NEVER)
  await sink.handle([{ sequence: Number.MAX_SAFE_INTEGER, event: makeOrderEvent() }], NEVER)
  await sink.flush()
  assert.equal(await sink.lastSequence(), Number.MAX_SAFE_INTEGER)
  const { rows } = await queryFolder(
    directory,
    'select sequence, order_number, total_amount, items from order_events order by sequence limit 1',
  )
  const [sequence, number, total, stored] = rows[0] ?? []
  assert.equal(sequence, String(Number.MAX_SAFE_INTEGER - 1))
  assert.equal(number, order.number)
  assert.equal(total, String(Number.MAX_SAFE_INTEGER))
  assert.deepEqual(
    JSON.parse(String(stored)),
    items.map(({ product_id, sku, name, unit_price, quantity, total }) => ({
      product_id,
      sku,
      name,
      unit_price_amount: unit_price.amount,
      quantity,
      total_amount: total.amount,
      category: null,
      shipped: 0,
      cancelled: 0,
      returned: 0,
    })),
  )
})

test('a text without a UTF-8 form does not stop the lake', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory)
  await sink.handle([{ sequence: 1, event: makeOrderEvent({ order: { items: [makeOrderItem({ name: 'half \ud83e' })] } }) }], NEVER)
  await sink.flush()
  const { rows } = await queryFolder(directory, 'select items[1].name from order_events')
  assert.deepEqual(rows, [['half \ufffd']])
})

test('no name, address or note of a customer is in the files', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory)
  const event = makeOrderEvent()
  await sink.handle([{ sequence: 1, event }], NEVER)
  await sink.flush()
  const { columns, rows } = await queryFolder(directory, 'select * from order_events')
  const text = JSON.stringify([columns, rows])
  assert.ok(text.includes(event.data.order.user_id))
  for (const secret of ['Ada', 'St James', 'London', 'SW1Y', 'blue door', 'address', 'note']) {
    assert.ok(!text.includes(secret), secret)
  }
  const [file = ''] = await listFiles(directory)
  const bytes = await readFile(join(directory, 'orders', file), 'latin1')
  assert.ok(!/shipping_address|status_history/.test(bytes))
})

test('writes typed columns in order of sequence, with zstd, and the schema version in the metadata', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory, { flushRows: 20_000 })
  await sink.handle(makeMessages(20_000), NEVER)
  const [name = ''] = await listFiles(directory)
  const path = literal(readablePath(join(directory, 'orders', name))).text
  const metadata = await queryFolder(directory, `select decode(key), decode(value) from parquet_kv_metadata(${path}) order by 1`)
  assert.ok(metadata.rows.some(([key, value]) => key === 'schema_version' && value === '1'))
  const codecs = await queryFolder(directory, `select distinct compression from parquet_metadata(${path})`)
  assert.deepEqual(codecs.rows, [['ZSTD']])
  const types = await queryFolder(directory, `select column_name, column_type from (describe select * exclude items from ${path})`)
  assert.deepEqual(types.rows.slice(0, 4), [
    ['sequence', 'BIGINT'],
    ['event_id', 'VARCHAR'],
    ['event_type', 'VARCHAR'],
    ['event_time', 'TIMESTAMP WITH TIME ZONE'],
  ])
  const unsorted = await queryFolder(
    directory,
    `select count(*) from (select sequence, lag(sequence) over (order by file_row_number) as before
     from read_parquet(${path}, file_row_number = true)) where before >= sequence`,
  )
  assert.deepEqual(unsorted.rows, [['0']])
})

test('accepts orders of 674 lines, and more of them than fit into memory as one file', async (t) => {
  const directory = makeLakeDirectory(t)
  const items = Array.from({ length: 674 }, (_, line) =>
    makeOrderItem({ sku: `SKU-${line}`, name: `Line ${line} ${'of a long name '.repeat(10)}` }),
  )
  const order = { items }
  const sink = await startSink(t, directory, { flushRows: 50_000 })
  const messages = Array.from({ length: 400 }, (_, index) => ({ sequence: index + 1, event: makeOrderEvent({ order }) }))
  await sink.handle(messages, NEVER)
  await sink.flush()
  assert.ok((await listFiles(directory)).length > 1)
  const { rows } = await queryFolder(directory, 'select count(*), sum(len(items)), min(item_count), max(items[674].sku) from order_events')
  assert.deepEqual(rows, [['400', String(400 * 674), 674, 'SKU-673']])
})

test('writes 50,000 events as one file', async (t) => {
  const directory = makeLakeDirectory(t)
  const sink = await startSink(t, directory, { flushRows: 50_000 })
  const messages = makeMessages(50_000)
  await sink.handle(messages, NEVER)
  assert.equal((await listFiles(directory)).length, 1)
  const { rows } = await queryFolder(directory, 'select count(distinct event_id), min(sequence), max(sequence) from order_events')
  assert.deepEqual(rows, [['50000', '1', '50000']])
})
