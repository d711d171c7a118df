import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeLocalLake } from '../../../test/lake-stores.ts'
import { commitSnapshot, locationsOf, readBase } from './commit-snapshot.ts'
import { DERIVED_TABLES } from './lake-table.ts'
import type { DataFile } from './manifest.ts'
import { TableStore } from './table-store.ts'

test('a commit rewrites manifests of removed files, and manifests of other months stay', async (t) => {
  const { store } = await makeLocalLake(t)
  const orders = DERIVED_TABLES.find(({ name }) => name === 'orders') ?? assert.fail()
  const table = new TableStore(store, orders.name)
  let files = 0
  const makeFile = (month: number): DataFile => ({
    ...{ content: 0, file_format: 'PARQUET', file_path: table.locate(`${table.folder}data/${files++}`), partition: { month } },
    ...{ record_count: 1, file_size_in_bytes: 1, value_counts: [], null_value_counts: [], lower_bounds: [], upper_bounds: [] },
  })
  const commit = async (added: DataFile[], removed: string[] = []) => {
    const change = { operation: 'overwrite' as const, added, removed: new Set(removed) }
    assert.ok(await commitSnapshot(table, orders, await readBase(table), change, new Date()))
    const base = await readBase(table)
    return { base, paths: new Set(base.manifests.map(({ manifest }) => manifest.manifest_path)) }
  }
  const all = Array.from({ length: 600 }, (_, index) => makeFile(671 + (index % 3)))
  let { paths } = await commit(all)
  assert.ok(paths.size >= 4, `${paths.size} manifests`)
  const live = new Set(all.map(({ file_path }) => file_path))
  for (let round = 0; round < 60; round++) {
    const old = all.findLast(({ file_path, partition }) => partition.month === 673 && live.has(file_path)) ?? assert.fail()
    const added = makeFile(673)
    const after = await commit([added], [old.file_path])
    live.delete(old.file_path)
    live.add(added.file_path)
    all.push(added)
    assert.ok(after.paths.intersection(paths).size >= 4, 'the manifests of other months stay')
    assert.ok(after.paths.size <= 60)
    assert.deepEqual(new Set(locationsOf(after.base)), live)
    paths = after.paths
  }
})
