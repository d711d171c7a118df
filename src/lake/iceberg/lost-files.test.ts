import assert from 'node:assert/strict'
import { test } from 'node:test'
import { snapshotsOf, tableEvents } from '../../../test/conformance/lake-table-conformance.ts'
import { writeFiles } from '../../../test/lake-harness.ts'
import { makeLocalLake, type TestLake } from '../../../test/lake-stores.ts'
import { commitEvents } from './commit-events.ts'
import { examineTable } from './examine-table.ts'
import { CATALOGUE_TABLES } from './lake-table.ts'
import { writeDerivedTables } from './write-derived-tables.ts'

const faultsOf = async ({ store }: TestLake) =>
  (await Promise.all(CATALOGUE_TABLES.map((table) => examineTable(store, table)))).flatMap(({ faults }) => faults)

test('files of the tables that are gone are written again, and the snapshots that cannot be read end', async (t) => {
  const lake = await makeLocalLake(t)
  const { store } = lake
  const ids = await writeFiles(t, store, [3, 2])
  await commitEvents(store)
  ids.push(...(await writeFiles(t, store, [2], { from: 6 })))
  await commitEvents(store)
  await writeDerivedTables(store)
  const [, , third] = await store.list('iceberg/order_events/data/')
  const [orders] = await store.list('iceberg/orders/data/')
  for (const file of [third, orders]) await store.delete(file?.name ?? assert.fail())
  assert.equal((await faultsOf(lake)).length, 2)

  assert.equal((await commitEvents(store, { checksFiles: true })).snapshots, 1)
  assert.equal(await writeDerivedTables(store, { checksFiles: true }), 1)
  assert.deepEqual([await tableEvents(lake), await faultsOf(lake)], [ids, []])
  assert.deepEqual(
    (await snapshotsOf(store)).map(({ summary }) => summary['total-data-files']),
    ['2', '3'],
  )
  assert.equal((await commitEvents(store, { checksFiles: true })).snapshots, 0)
  assert.equal(await writeDerivedTables(store, { checksFiles: true }), 0)
})
