import assert from 'node:assert/strict'
import { cp, truncate } from 'node:fs/promises'
import { test } from 'node:test'
import { compact, lakeTableConformance, now, snapshotsOf, tableEvents } from '../../../test/conformance/lake-table-conformance.ts'
import { readEvents, writeFiles } from '../../../test/lake-harness.ts'
import { makeLocalLake } from '../../../test/lake-stores.ts'
import { findLakeEnd } from '../list-files.ts'
import { LakeDamaged, readSnapshot, settleMoved } from './event-table.ts'
import { examineTable } from './examine-table.ts'
import { expireSnapshots } from './expire-snapshots.ts'
import { ORDER_EVENTS } from './lake-table.ts'

lakeTableConformance('folder', makeLocalLake)

test('a damaged manifest is detected, and nothing is read or written until it is repaired', async (t) => {
  const lake = await makeLocalLake(t)
  await writeFiles(t, lake.store, [3, 2])
  const [manifest] = (await lake.store.list('iceberg/order_events/metadata/manifest-')).map(({ name }) => name)
  await truncate(lake.pathOf(manifest ?? ''), 3_000)
  await assert.rejects(tableEvents(lake))
  await assert.rejects(readSnapshot(lake.store, 'orders'), LakeDamaged)
  await assert.rejects(writeFiles(t, lake.store, [2], { from: 6 }), LakeDamaged)
})

test('a moved lake can be read at its new place, and its next snapshot names that place', async (t) => {
  const lake = await makeLocalLake(t)
  const ids = await writeFiles(t, lake.store, [3, 2])
  await compact(lake.store)
  ids.push(...(await writeFiles(t, lake.store, [2], { from: 6 })))
  for (const isWritten of [true, false]) {
    const moved = await makeLocalLake(t)
    await cp(lake.pathOf(''), moved.pathOf(''), { recursive: true, preserveTimestamps: true })
    const { movedFrom, faults } = await examineTable(moved.store, ORDER_EVENTS)
    assert.deepEqual([movedFrom, faults], [`file://${lake.pathOf('iceberg/order_events')}`, []])
    assert.deepEqual([await readEvents(moved.store), await findLakeEnd(moved.store)], [ids, 7])
    const more = isWritten ? await writeFiles(t, moved.store, [1], { from: 8 }) : []
    await settleMoved(moved.store, now())
    assert.deepEqual(await tableEvents(moved), [...ids, ...more])
    const after = await examineTable(moved.store, ORDER_EVENTS)
    assert.deepEqual([after.movedFrom, after.faults, (await snapshotsOf(moved.store)).length], [null, [], 1])
    await expireSnapshots(moved.store, ORDER_EVENTS, now(), new Date(Date.now() + 7_200_000))
    assert.deepEqual(await readEvents(moved.store), [...ids, ...more])
  }
})
