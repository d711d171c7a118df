import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { describe, test } from 'node:test'
import { compactLake } from '../../src/lake/compact-lake.ts'
import { LakeDamaged, readSnapshot, SEQUENCE } from '../../src/lake/iceberg/event-table.ts'
import { expireSnapshots } from '../../src/lake/iceberg/expire-snapshots.ts'
import { ORDER_EVENTS } from '../../src/lake/iceberg/lake-table.ts'
import type { Snapshot } from '../../src/lake/iceberg/table-metadata.ts'
import { TableStore } from '../../src/lake/iceberg/table-store.ts'
import { newName } from '../../src/lake/lake-names.ts'
import type { LakeStore } from '../../src/lake/lake-store.ts'
import { findLakeEnd, listLake } from '../../src/lake/list-files.ts'
import { readWithIcebird } from '../iceberg-reader.ts'
import { readEvents, writeFiles } from '../lake-harness.ts'
import type { MakeLake, TestLake } from '../lake-stores.ts'

export const now = () => new Date('2026-03-01T13:00:00.000Z')
export const dayAfter = () => new Date('2126-03-02T13:00:00.000Z')
export const later = () => new Date(Date.now() + 7_200_000)

/** The ids of all events that icebird sees, in order of sequence. */
export async function tableEvents(lake: TestLake, snapshot?: Snapshot): Promise<unknown[]> {
  const rows = await readWithIcebird(lake, 'order_events', snapshot?.['snapshot-id'])
  return rows.sort((a, b) => Number(a.sequence) - Number(b.sequence)).map(({ event_id }) => event_id)
}

export async function snapshotsOf(store: LakeStore): Promise<Snapshot[]> {
  return (await new TableStore(store, 'order_events').read()).newest?.metadata.snapshots ?? []
}

export function compact(store: LakeStore) {
  return compactLake({ store, isWanted: () => true })
}

export const operations = (snapshots: Snapshot[]) => snapshots.map(({ summary }) => summary.operation)

/** What the Iceberg table of events promises on every adapter of LakeStore. */
export function lakeTableConformance(kind: string, makeLake: MakeLake): void {
  describe(`the table order_events in a ${kind}`, () => {
    test('has each event of the lake once, and gets a snapshot with each file', async (t) => {
      const lake = await makeLake(t)
      const ids = await writeFiles(t, lake.store, [3, 2])
      assert.deepEqual(await tableEvents(lake), ids)
      ids.push(...(await writeFiles(t, lake.store, [4], { from: 6 })))
      assert.deepEqual(await tableEvents(lake), ids)
      const snapshots = await snapshotsOf(lake.store)
      assert.deepEqual(operations(snapshots), ['append', 'append', 'append', 'append'])
      assert.deepEqual(
        snapshots.map(({ summary }) => summary[SEQUENCE]),
        ['0', '3', '5', '9'],
      )
    })

    test('a merge is a replace snapshot: the same rows, also in the snapshot before it', async (t) => {
      const lake = await makeLake(t)
      const ids = await writeFiles(t, lake.store, [3, 2, 4])
      assert.equal((await compact(lake.store)).merged, 1)
      const snapshots = await snapshotsOf(lake.store)
      assert.deepEqual(operations(snapshots.slice(-2)), ['append', 'replace'])
      for (const snapshot of snapshots.slice(-2)) assert.deepEqual(await tableEvents(lake, snapshot), ids)
      assert.deepEqual(await readEvents(lake.store), ids)
      assert.equal(await findLakeEnd(lake.store), 9)
      assert.equal((await listLake(lake.store)).length, 1)
    })

    test('expired snapshots take with them the files that only they have, and what a killed commit has left, after a grace', async (t) => {
      const lake = await makeLake(t)
      const ids = await writeFiles(t, lake.store, [3, 2])
      await compact(lake.store)
      const table = new TableStore(lake.store, 'order_events')
      await table.putFile(newName('orders', '2026-03-01', 6, 7), Buffer.from('half'))
      assert.deepEqual(await expireSnapshots(lake.store, ORDER_EVENTS, dayAfter(), new Date()), { snapshots: 3, files: 0 })
      // Two data files and a half, two manifests, and three of their lists.
      assert.equal((await expireSnapshots(lake.store, ORDER_EVENTS, dayAfter(), later())).files, 8)
      assert.equal((await snapshotsOf(lake.store)).length, 1)
      assert.equal((await lake.store.list('orders/')).length, 1)
      assert.deepEqual(await tableEvents(lake), ids)
      assert.deepEqual(await readEvents(lake.store), ids)
    })

    test('metadata that are cut off are found, and nothing is written or read beside them', async (t) => {
      const lake = await makeLake(t)
      await writeFiles(t, lake.store, [3])
      const table = new TableStore(lake.store, 'order_events')
      const whole = await readFile(lake.pathOf('iceberg/order_events/metadata/v2.metadata.json'))
      for (const [version, bytes] of [whole.subarray(0, whole.length / 2), Buffer.from('{}'), Buffer.from('')].entries())
        await table.putFile(`${table.folder}metadata/v${version + 3}.metadata.json`, bytes)
      assert.deepEqual([(await table.read()).newest?.version, (await table.read()).damaged.length], [2, 3])
      await assert.rejects(readSnapshot(lake.store, 'orders'), LakeDamaged)
      await assert.rejects(writeFiles(t, lake.store, [2], { from: 4 }), LakeDamaged)
    })

    test('a lake whose metadata are gone does not begin again', async (t) => {
      const lake = await makeLake(t)
      await writeFiles(t, lake.store, [3])
      for (const { name } of await lake.store.list('iceberg/order_events/')) await lake.store.delete(name)
      await assert.rejects(writeFiles(t, lake.store, [2], { from: 4 }), /the metadata of the lake are gone; run storefront lake repair/)
    })
  })
}
