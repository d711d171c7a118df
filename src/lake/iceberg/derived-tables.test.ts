import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { writeCatalogue } from '../../../test/catalogue-lake.ts'
import { readWithIcebird } from '../../../test/iceberg-reader.ts'
import { queryFolder, writeFiles } from '../../../test/lake-harness.ts'
import { makeLocalLake } from '../../../test/lake-stores.ts'
import { listLake } from '../list-files.ts'
import { examineTable } from './examine-table.ts'
import { DERIVED_TABLES } from './lake-table.ts'
import { currentSnapshot } from './table-metadata.ts'
import { TableStore } from './table-store.ts'
import { UP_TO, writeDerivedTables } from './write-derived-tables.ts'

test('orders and order_lines have the newest state of each order, and name their last event', async (t) => {
  const lake = await makeLocalLake(t)
  assert.equal(await writeDerivedTables(lake.store), 0, 'without events there is no table')
  await writeFiles(t, lake.store, [3, 2])
  assert.equal(await writeDerivedTables(lake.store), DERIVED_TABLES.filter(({ dataset }) => dataset === 'orders').length)
  assert.equal(await writeDerivedTables(lake.store), 0, 'nothing has changed')
  await writeFiles(t, lake.store, [4], { from: 6 })
  assert.equal(await writeDerivedTables(lake.store), DERIVED_TABLES.filter(({ dataset }) => dataset === 'orders').length)

  const text = (values: unknown[]) => values.map(String)
  const orders = await readWithIcebird(lake, 'orders')
  const expected = await queryFolder(lake.pathOf(''), 'select order_number, status, total_amount from orders order by order_number')
  assert.deepEqual(
    orders.map((row) => text([row.order_number, row.status, row.total_amount])),
    expected.rows.map(text),
  )
  assert.ok(expected.rows.length > 1)

  const lines = await readWithIcebird(lake, 'order_lines')
  const expectedLines = await queryFolder(
    lake.pathOf(''),
    `select order_number, item.sku, item.quantity, item.total_amount from orders, unnest(items) as line (item) order by 1, 2`,
  )
  assert.deepEqual(
    lines.map((row) => text([row.order_number, row.sku, row.quantity, row.line_total_amount])),
    expectedLines.rows.map(text),
  )

  const { newest } = await new TableStore(lake.store, 'orders').read()
  assert.ok(newest)
  assert.equal(currentSnapshot(newest.metadata).summary[UP_TO], '9')
  assert.equal(newest.metadata.snapshots.length, 2)
})

test('no table is written from a damaged file', async (t) => {
  const lake = await makeLocalLake(t)
  await writeFiles(t, lake.store, [3, 2])
  await writeDerivedTables(lake.store)
  const before = await readWithIcebird(lake, 'orders')
  await writeFiles(t, lake.store, [4], { from: 6 })
  const file = (await listLake(lake.store)).at(-1)
  assert.ok(file)
  const path = lake.pathOf(file.name)
  const bytes = await readFile(path)
  bytes.writeUInt8(bytes.readUInt8(40) ^ 1, 40)
  await writeFile(path, bytes)
  await assert.rejects(writeDerivedTables(lake.store), {
    name: 'OperatorError',
    message: /parquet: its checksum is not that of its bytes; run storefront lake repair$/,
  })
  assert.deepEqual(await readWithIcebird(lake, 'orders'), before)
})

test('a damaged order file does not stop the catalogue tables', async (t) => {
  const lake = await makeLocalLake(t)
  await writeFiles(t, lake.store, [3])
  await writeCatalogue(t, lake.store)
  const [file = assert.fail()] = await listLake(lake.store)
  await writeFile(lake.pathOf(file.name), 'half of a file')
  await assert.rejects(writeDerivedTables(lake.store), /run storefront lake repair$/)
  assert.ok((await readWithIcebird(lake, 'products')).length > 0)
})

test('a table with a missing file is written again, and snapshots that cannot be read end', async (t) => {
  const lake = await makeLocalLake(t)
  await writeFiles(t, lake.store, [3, 2])
  await writeDerivedTables(lake.store)
  const before = await readWithIcebird(lake, 'orders')
  const [orders = assert.fail()] = await lake.store.list('iceberg/orders/data/')
  await lake.store.delete(orders.name)
  assert.equal(await writeDerivedTables(lake.store, { checksFiles: true }), 1)
  assert.equal(await writeDerivedTables(lake.store, { checksFiles: true }), 0)
  assert.deepEqual(await readWithIcebird(lake, 'orders'), before)
  for (const definition of DERIVED_TABLES) assert.deepEqual((await examineTable(lake.store, definition)).faults, [])
})
