import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { tableEvents } from '../../../test/conformance/lake-table-conformance.ts'
import { writeFiles } from '../../../test/lake-harness.ts'
import { makeLocalLake, type TestLake } from '../../../test/lake-stores.ts'
import { compactWithTables } from './compact-with-tables.ts'
import { examineTable } from './examine-table.ts'
import { ORDER_EVENTS } from './lake-table.ts'

const options = { isWanted: () => true, assertAlone: async () => {} }
const faultsOf = async ({ store }: TestLake) => (await examineTable(store, ORDER_EVENTS)).faults

test('a merge deletes no file of the table while the table cannot be written, and the next one does', async (t) => {
  const lake = await makeLocalLake(t)
  const { store } = lake
  const ids = await writeFiles(t, store, [3, 2])
  // A merged file of a day that is over is in the table where it is.
  await compactWithTables({ ...options, store })
  ids.push(...(await writeFiles(t, store, [2], { from: 6 })))
  const put = store.put.bind(store)
  let isFull = false
  store.put = async (name, path) => {
    if (!isFull || !name.startsWith('iceberg/order_events/')) return put(name, path)
    await setImmediate()
    throw new Error('the disk is full')
  }
  const onMerged = () => {
    isFull = true
  }
  const { merged, deleted, failures } = await compactWithTables({ ...options, store, onMerged })
  assert.deepEqual([merged, deleted, failures], [1, 0, ['2026-03-01: the disk is full']])
  assert.deepEqual([await tableEvents(lake), await faultsOf(lake)], [ids, []])

  isFull = false
  assert.deepEqual(await compactWithTables({ ...options, store }), { merged: 0, deleted: 2, failures: [] })
  assert.deepEqual([await tableEvents(lake), await faultsOf(lake)], [ids, []])
  assert.equal((await store.list('orders/')).length, 1)
})

test('a file that is gone is a failure of the merge that takes its events out of the tables', async (t) => {
  const lake = await makeLocalLake(t)
  const { store } = lake
  await writeFiles(t, store, [3, 2])
  const isWanted = () => false
  assert.deepEqual((await compactWithTables({ ...options, store, isWanted })).failures, [])
  const [gone = assert.fail()] = await store.list('orders/')
  await rm(lake.pathOf(gone.name))
  assert.deepEqual((await compactWithTables({ ...options, store, isWanted })).failures, [
    `${store.locate(gone.name)} is gone; run storefront lake repair`,
  ])
  assert.deepEqual((await compactWithTables({ ...options, store, isWanted })).failures, [])
})

test('without the writer of tables, a merge keeps those that are there up to date and writes no others', async (t) => {
  const lake = await makeLocalLake(t)
  const { store } = lake
  const ids = await writeFiles(t, store, [3, 2])
  await compactWithTables({ ...options, store, isForExisting: true })
  assert.deepEqual(await store.list('iceberg/'), [])
  await compactWithTables({ ...options, store })
  ids.push(...(await writeFiles(t, store, [2], { from: 6 })))
  assert.equal((await compactWithTables({ ...options, store, isForExisting: true })).deleted, 2)
  assert.deepEqual([await tableEvents(lake), await faultsOf(lake)], [ids, []])
})
