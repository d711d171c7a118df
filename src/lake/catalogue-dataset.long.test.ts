import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { CatalogueHistory, toMessages } from '../../test/catalogue-event-factory.ts'
import { type Cleanup, onCleanup } from '../../test/cleanup.ts'
import { readWithIcebird } from '../../test/iceberg-reader.ts'
import { NEVER, readEvents, startSinkOn, withoutTag, writeFiles } from '../../test/lake-harness.ts'
import { type MakeLake, makeLocalLake, makeS3Lake } from '../../test/lake-stores.ts'
import { silent } from '../../test/stream-harness.ts'
import { compactLake } from './compact-lake.ts'
import { TableStore } from './iceberg/table-store.ts'
import { writeDerivedTables } from './iceberg/write-derived-tables.ts'
import { CATALOGUE_DATASET } from './lake-dataset.ts'
import { queryLake } from './lake-query.ts'
import { LakeSink } from './lake-sink.ts'
import type { LakeStore } from './lake-store.ts'
import { listLake } from './list-files.ts'

const now = () => new Date('2026-03-01T12:00:00.000Z')

async function startCatalogueSink(t: Cleanup, store: LakeStore) {
  const sink = new LakeSink({ store, dataset: CATALOGUE_DATASET, flushSeconds: 3_600, flushRows: 1_000, logger: silent, now })
  await sink.start()
  onCleanup(t, () => sink.stop())
  return sink
}

/** Writes each part of the messages as a file. */
async function writeParts(t: Cleanup, store: LakeStore, ...parts: ReturnType<typeof toMessages>[]): Promise<void> {
  const sink = await startCatalogueSink(t, store)
  for (const part of parts) {
    await sink.handle(part, NEVER)
    await sink.flush()
  }
  await sink.stop()
}

async function select(store: LakeStore, text: string): Promise<unknown[][]> {
  return (await queryLake(store, text)).rows
}

const mug = () =>
  new CatalogueHistory()
    .change('created', '2026-03-01T08:00:00.000Z')
    .reprice('2026-03-01T09:00:00.000Z', 1_000, 1_250)
    .change('updated', '2026-03-01T10:00:00.000Z', { name: 'Big mug', attributes: { material: 'clay' } })
    .reprice('2026-03-01T11:00:00.000Z', 1_250)
    .change('archived', '2026-03-01T11:30:00.000Z', { archived_at: '2026-03-01T11:30:00.000Z' })

for (const [place, makeLake] of [
  ['a folder', makeLocalLake],
  ['a bucket', makeS3Lake],
] as const satisfies [string, MakeLake][])
  describe(`the catalogue in a lake in ${place}`, () => {
    test('orders and catalogue have separate files and positions, and each event is stored once', async (t) => {
      const lake = await makeLake(t)
      const messages = toMessages(mug().events)
      const orders = await startSinkOn(t, lake.store)
      await Promise.all([writeFiles(t, await lake.connect(), [2, 2]), writeParts(t, lake.store, messages.slice(0, 3), messages.slice(3))])
      const again = await startCatalogueSink(t, lake.store)
      assert.deepEqual([await again.lastSequence(), await orders.lastSequence()], [messages.length, 4])
      // Events that a replay has published under new sequences.
      await again.handle(
        toMessages(
          mug()
            .events.slice(0, 1)
            .concat(messages.slice(0, 2).map(({ event }) => event)),
          100,
        ),
        NEVER,
      )
      await again.flush()
      const names = (await listLake(lake.store, 'catalogue')).map(({ name }) => withoutTag(name))
      assert.deepEqual(names.slice(0, 2), [
        'catalogue/ingest_date=2026-03-01/0000000000000001-0000000000000003.parquet',
        'catalogue/ingest_date=2026-03-01/0000000000000004-0000000000000007.parquet',
      ])
      assert.deepEqual(await select(lake.store, 'select count(*), count(distinct event_id) from catalogue_events'), [['8', '8']])
      assert.equal((await readEvents(lake.store)).length, 4)
    })

    test('after a merge each event is there once, for readers of files, of tables and of the previous snapshot', async (t) => {
      const lake = await makeLake(t)
      const cup = new CatalogueHistory({ sku: 'CUP' }).change('created', '2026-03-01T08:30:00.000Z').stock('2026-03-01T09:30:00.000Z', 0, 4)
      const messages = toMessages([...mug().events, ...cup.events])
      await writeParts(t, lake.store, messages.slice(0, 2), messages.slice(2, 5), messages.slice(5))
      await writeFiles(t, lake.store, [2, 1])
      const table = new TableStore(lake.store, 'catalogue_events')
      const unmerged = (await table.read()).newest?.metadata['current-snapshot-id'] ?? assert.fail()
      const idsIn = async (name: string, snapshot?: number) =>
        (await readWithIcebird(lake, name, snapshot)).map(({ event_id }) => String(event_id)).toSorted()
      const ids = messages.map(({ event }) => event.id).toSorted()
      assert.deepEqual(await idsIn('catalogue_events'), ids)
      const report = await compactLake({ store: lake.store, isWanted: () => true })
      assert.deepEqual(report, { merged: 2, failures: [] })
      assert.equal((await listLake(lake.store, 'catalogue')).length, 1)
      assert.equal((await table.read()).newest?.metadata.snapshots.at(-1)?.summary.operation, 'replace')
      assert.deepEqual([await idsIn('catalogue_events'), await idsIn('catalogue_events', unmerged)], [ids, ids])
      assert.deepEqual(
        await select(lake.store, 'select event_id from catalogue_events order by event_id'),
        ids.map((id) => [id]),
      )
      assert.equal((await idsIn('order_events')).length, 3)
    })
  })

test('the product table has each state with its time of validity, and the price table has each price', async (t) => {
  const lake = await makeLocalLake(t)
  const history = mug()
  const other = new CatalogueHistory({ sku: 'CUP', price: { amount: 700, currency: 'JPY' } }).change('created', '2026-03-01T08:30:00.000Z')
  await writeParts(t, lake.store, toMessages([...history.events, ...other.events]))
  await compactLake({ store: lake.store, isWanted: () => false })
  await writeDerivedTables(lake.store)
  const times = `strftime(valid_from, '%H:%M'), strftime(valid_to, '%H:%M'), is_current`
  const products = await select(
    lake.store,
    `select sku, version, name, price_amount, attributes, ${times} from products order by sku, version`,
  )
  assert.deepEqual(products, [
    ['CUP', '1', 'Mug', '700', '{}', '08:30', null, true],
    ['MUG-1', '1', 'Mug', '1250', '{}', '08:00', '09:00', false],
    ['MUG-1', '3', 'Mug', '1000', '{}', '09:00', '10:00', false],
    ['MUG-1', '4', 'Big mug', '1000', '{"material":"clay"}', '10:00', '11:00', false],
    ['MUG-1', '6', 'Big mug', '1250', '{"material":"clay"}', '11:00', '11:30', false],
    ['MUG-1', '7', 'Big mug', '1250', '{"material":"clay"}', '11:30', null, true],
  ])
  const prices = await select(
    lake.store,
    `select sku, price_amount, compare_at_amount, currency, currency_exponent, ${times} from prices order by sku, version`,
  )
  assert.deepEqual(prices, [
    ['CUP', '700', null, 'JPY', 0, '08:30', null, true],
    ['MUG-1', '1250', null, 'EUR', 2, '08:00', '09:00', false],
    ['MUG-1', '1000', '1250', 'EUR', 2, '09:00', '11:00', false],
    ['MUG-1', '1250', null, 'EUR', 2, '11:00', null, true],
  ])
  const at = `select name from products where sku = 'MUG-1' and valid_from <= '2026-03-01 10:30:00Z' and coalesce(valid_to > '2026-03-01 10:30:00Z', true)`
  assert.deepEqual(await select(lake.store, at), [['Big mug']], 'who was what, when')
  const inTable = await readWithIcebird(lake, 'products')
  assert.deepEqual(
    inTable.map(({ sku, version, name, is_current }) => [sku, String(version), name, is_current]).toSorted(),
    products.map(([sku, version, name, , , , , isCurrent]) => [sku, version, name, isCurrent]),
  )
  assert.deepEqual(
    JSON.parse(String(inTable.find(({ name }) => name === 'Big mug')?.product)).attributes,
    { material: 'clay' },
    'the whole product',
  )
  assert.equal((await readWithIcebird(lake, 'prices')).length, prices.length)
})

const DOLLARS = { amount: 1_999, currency: 'USD', compare_at: null }
const YEN = { amount: 300, currency: 'JPY', compare_at: 400 }
/** A mug in three currencies, one of which it loses and gets back, and one of which becomes that of its own price. */
const tourist = () =>
  new CatalogueHistory({ prices: [DOLLARS, YEN] })
    .change('created', '2026-03-01T08:00:00.000Z')
    .reprice('2026-03-01T09:00:00.000Z', 1_899, 1_999, 'USD')
    .change('updated', '2026-03-01T10:00:00.000Z', { prices: [{ amount: 1_899, currency: 'USD', compare_at: 1_999 }] })
    .change('updated', '2026-03-01T11:00:00.000Z', { name: 'Big mug' })
    .change('updated', '2026-03-01T12:00:00.000Z', {
      price: { amount: 1_899, currency: 'USD' },
      compare_at_price: { amount: 1_999, currency: 'USD' },
      prices: [{ amount: 1_250, currency: 'EUR', compare_at: null }, YEN],
    })
    .reprice('2026-03-01T13:00:00.000Z', 1_999)
    .change('archived', '2026-03-01T14:00:00.000Z', { archived_at: '2026-03-01T14:00:00.000Z' })

test('the price table has a row for each price in each currency, valid from one product state to another', async (t) => {
  const lake = await makeLocalLake(t)
  const other = new CatalogueHistory({ sku: 'CUP', prices: [{ ...DOLLARS, amount: 5 }] }).change('created', '2026-03-01T08:30:00.000Z')
  await writeParts(t, lake.store, toMessages([...tourist().events, ...other.events]))
  await compactLake({ store: lake.store, isWanted: () => false })
  await writeDerivedTables(lake.store)
  const columns = ['sku', 'currency', 'version', 'price_amount', 'compare_at_amount', 'currency_exponent']
  const times = `strftime(valid_from, '%H:%M:%S.%g'), strftime(valid_to, '%H:%M:%S.%g'), is_current`
  const rows = await select(lake.store, `select ${columns}, ${times} from prices order by sku, currency, version`)
  assert.deepEqual(rows, [
    ['CUP', 'EUR', '1', '1250', null, 2, '08:30:00.000', null, true],
    ['CUP', 'USD', '1', '5', null, 2, '08:30:00.000', null, true],
    ['MUG-1', 'EUR', '1', '1250', null, 2, '08:00:00.000', null, true],
    ['MUG-1', 'JPY', '1', '300', '400', 0, '08:00:00.000', '10:00:00.000', false],
    ['MUG-1', 'JPY', '6', '300', '400', 0, '12:00:00.000', null, true],
    ['MUG-1', 'USD', '1', '1999', null, 2, '08:00:00.000', '09:00:00.000', false],
    ['MUG-1', 'USD', '3', '1899', '1999', 2, '09:00:00.000', '13:00:00.000', false],
    ['MUG-1', 'USD', '8', '1999', null, 2, '13:00:00.000', null, true],
  ])
  const inTable = (await readWithIcebird(lake, 'prices')).map((row) => columns.map((name) => row[name] ?? null))
  const text = (row: unknown[]) => row.map(String).join()
  assert.deepEqual(inTable.map(text).toSorted(), rows.map((row) => text(row.slice(0, 6))).toSorted())
})

test('a product that is renamed back and forth a thousand times has one state at each moment', async (t) => {
  const lake = await makeLocalLake(t)
  const history = new CatalogueHistory().change('created', '2026-03-01T08:00:00.000Z')
  for (let turn = 1; turn <= 1_000; turn++)
    history.change('updated', new Date(Date.parse('2026-03-01T08:00:00.000Z') + turn * 1_000).toISOString(), { name: `Mug ${turn % 2}` })
  await writeParts(t, lake.store, toMessages(history.events))
  const overlaps = `select count(*) from products as a join products as b on b.valid_from < a.valid_to and b.valid_from >= a.valid_from and a.version <> b.version`
  assert.deepEqual(await select(lake.store, overlaps), [['0']])
  assert.deepEqual(await select(lake.store, `select count(*), count_if(is_current), count_if(valid_to is null) from products`), [
    ['1001', '1', '1'],
  ])
  assert.deepEqual(await select(lake.store, 'select count(*) from prices'), [['1']])
})

test('stock events say when a product was out of stock', async (t) => {
  const lake = await makeLocalLake(t)
  const history = mug()
    .stock('2026-03-01T09:00:00.000Z', 0, 3)
    .stock('2026-03-01T10:00:00.000Z', 5, 0)
    .stock('2026-03-01T11:00:00.000Z', null, 5)
  await writeParts(t, lake.store, toMessages(history.events))
  await compactLake({ store: lake.store, isWanted: () => false })
  await writeDerivedTables(lake.store)
  const expected = [
    ['storefront.stock.depleted', 'MUG-1', '0', '3'],
    ['storefront.stock.replenished', 'MUG-1', '5', '0'],
    ['storefront.stock.level_changed', 'MUG-1', null, '5'],
  ]
  assert.deepEqual(
    await select(lake.store, 'select event_type, sku, available, previous_available from stock_events order by version'),
    expected,
  )
  const text = (value: unknown) => (value === null || value === undefined ? null : String(value))
  assert.deepEqual(
    (await readWithIcebird(lake, 'stock_events')).map((row) => [
      row.event_type,
      row.sku,
      text(row.available),
      text(row.previous_available),
    ]),
    expected,
  )
})

test('the event of a price in another currency has that currency, also when the price ends, and is no own price', async (t) => {
  const lake = await makeLocalLake(t)
  const history = new CatalogueHistory().change('created', '2026-03-01T08:00:00.000Z')
  const { events } = history.repriceIn('2026-03-02T08:00:00.000Z', 'JPY', 900, null).repriceIn('2026-03-03T08:00:00.000Z', 'JPY', null, 900)
  await writeParts(t, lake.store, toMessages(events))
  const changes = `select currency, price_amount, previous_price_amount from catalogue_events where event_type = 'storefront.price.changed' order by sequence`
  assert.deepEqual(await select(lake.store, changes), [
    ['JPY', '900', null],
    ['JPY', null, '900'],
  ])
  assert.deepEqual(await select(lake.store, 'select currency, price_amount, is_current from prices'), [['EUR', '1250', true]])
})

test('neither a text without a UTF-8 form nor an invalid currency stops the lake', async (t) => {
  const lake = await makeLocalLake(t)
  const odd = new CatalogueHistory({
    name: 'a \ud800',
    attributes: { a: '\udfff' },
    price: { amount: 1, currency: 'QQQ' },
    created_at: '2026-03-01T08:00:00.000Z',
  })
  await writeParts(t, lake.store, toMessages(odd.change('created', '2026-03-01T08:00:00.000Z').events))
  assert.deepEqual(
    await select(lake.store, `select price_amount, product ->> '$.name' from prices join products using (product_id, price_amount)`),
    [['1', 'a \ufffd']],
  )
  assert.deepEqual(await select(lake.store, 'select name, currency, currency_exponent, price_amount from products'), [
    ['a \ufffd', 'QQQ', null, '1'],
  ])
})

test('a lake without catalogue events has no catalogue tables, and queries see no rows', async (t) => {
  const lake = await makeLocalLake(t)
  await writeFiles(t, lake.store, [2])
  await writeDerivedTables(lake.store)
  assert.deepEqual((await readdir(join(lake.pathOf(''), 'iceberg'))).toSorted(), [
    ...['adjustments', 'customers', 'order_events', 'order_lines', 'orders', 'parcels', 'payments', 'refunds'],
  ])
  for (const view of ['catalogue_events', 'products', 'prices', 'stock_events'])
    assert.deepEqual(await select(lake.store, `select count(*) from ${view}`), [['0']])
  assert.deepEqual(await compactLake({ store: lake.store, isWanted: () => true }), {
    merged: 0,
    failures: [],
  })
})
