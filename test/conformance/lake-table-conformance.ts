import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { describe, test } from 'node:test'
import { compactLake } from '../../src/lake/compact-lake.ts'
import { commitEvents } from '../../src/lake/iceberg/commit-events.ts'
import { expireSnapshots } from '../../src/lake/iceberg/expire-snapshots.ts'
import type { Snapshot } from '../../src/lake/iceberg/table-metadata.ts'
import { TableStore } from '../../src/lake/iceberg/table-store.ts'
import type { LakeStore } from '../../src/lake/lake-store.ts'
import { readWithIcebird } from '../iceberg-reader.ts'
import { readEvents, writeFiles } from '../lake-harness.ts'
import type { MakeLake, TestLake } from '../lake-stores.ts'

export const now = () => new Date('2026-03-01T13:00:00.000Z')
export const dayAfter = () => new Date('2026-03-02T13:00:00.000Z')

/** The ids of all events that icebird sees, in order of sequence. */
export async function tableEvents(lake: TestLake, snapshot?: Snapshot): Promise<unknown[]> {
  const rows = await readWithIcebird(lake, 'order_events', snapshot?.['snapshot-id'])
  return rows.sort((a, b) => Number(a.sequence) - Number(b.sequence)).map(({ event_id }) => event_id)
}

export async function snapshotsOf(store: LakeStore): Promise<Snapshot[]> {
  return (await new TableStore(store, 'order_events').read()).newest?.metadata.snapshots ?? []
}

export function compact(store: LakeStore) {
  return compactLake({ store, isWanted: () => true, assertAlone: async () => {} })
}

export const operations = (snapshots: Snapshot[]) => snapshots.map(({ summary }) => summary.operation)

/** What the Iceberg table of events promises on every adapter of LakeStore. */
export function lakeTableConformance(kind: string, makeLake: MakeLake): void {
  describe(`the table order_events in a ${kind}`, () => {
    test('has each event of the lake once, and gets a snapshot only when files were added', async (t) => {
      const lake = await makeLake(t)
      assert.equal((await commitEvents(lake.store, { now })).snapshots, 0)
      const ids = await writeFiles(t, lake.store, [3, 2])
      assert.equal((await commitEvents(lake.store, { now })).snapshots, 1)
      assert.deepEqual(await tableEvents(lake), ids)
      assert.equal((await commitEvents(lake.store, { now })).snapshots, 0)
      ids.push(...(await writeFiles(t, lake.store, [4], { from: 6 })))
      assert.equal((await commitEvents(lake.store, { now })).snapshots, 1)
      assert.deepEqual(await tableEvents(lake), ids)
      assert.deepEqual(operations(await snapshotsOf(lake.store)), ['append', 'append'])
    })

    test('a merge is a replace snapshot: the same rows, also in the snapshot before it, and in the files', async (t) => {
      const lake = await makeLake(t)
      const ids = await writeFiles(t, lake.store, [3, 2, 4])
      await commitEvents(lake.store, { now })
      assert.equal((await compact(lake.store)).merged, 1)
      await commitEvents(lake.store, { now })
      const snapshots = await snapshotsOf(lake.store)
      assert.deepEqual(operations(snapshots), ['append', 'replace'])
      for (const snapshot of snapshots) assert.deepEqual(await tableEvents(lake, snapshot), ids)
      assert.deepEqual(await readEvents(lake.store), ids)
      assert.equal((await lake.store.list('orders/')).length, 1)
    })

    test('expired snapshots take with them the files that only they have, and what a killed commit has left', async (t) => {
      const lake = await makeLake(t)
      const ids = await writeFiles(t, lake.store, [3, 2])
      await commitEvents(lake.store, { now })
      await compact(lake.store)
      await commitEvents(lake.store, { now })
      const table = new TableStore(lake.store, 'order_events')
      await table.putFile(`${table.folder}data/left-over.parquet`, Buffer.from('half'))
      const kept = await expireSnapshots(table, now(), now())
      assert.deepEqual(kept, { snapshots: 0, files: 1 })
      // One manifest and its list, and two data files.
      assert.deepEqual(await expireSnapshots(table, dayAfter(), dayAfter()), { snapshots: 1, files: 4 })
      assert.equal((await snapshotsOf(lake.store)).length, 1)
      assert.deepEqual(await tableEvents(lake), ids)
      assert.deepEqual(await readEvents(lake.store), ids)
    })

    test('an expiry does not delete the files of a commit that began before it', async (t) => {
      const lake = await makeLake(t)
      const ids = await writeFiles(t, lake.store, [3])
      await commitEvents(lake.store, { now })
      ids.push(...(await writeFiles(t, lake.store, [2], { from: 4 })))
      const other = await lake.connect()
      const put = other.put.bind(other)
      let hasExpired = false
      other.put = async (name, path) => {
        if (name.endsWith('.metadata.json') && !hasExpired) {
          hasExpired = true
          const { files } = await expireSnapshots(new TableStore(lake.store, 'order_events'), now(), now())
          assert.ok(files > 0, 'it deleted nothing of the commit in flight')
        }
        return put(name, path)
      }
      await commitEvents(other, { now })
      assert.ok(hasExpired)
      assert.deepEqual(await tableEvents(lake), ids)
    })

    test('two processes that commit at once add each file once', async (t) => {
      const lake = await makeLake(t)
      const ids = await writeFiles(t, lake.store, [1, 1, 1])
      const other = await lake.connect()
      await Promise.all([commitEvents(lake.store, { now }), commitEvents(other, { now }), commitEvents(other, { now })])
      assert.deepEqual(await tableEvents(lake), ids)
    })

    test('a metadata file of which only a half was copied is passed over, by readers and by the next commit', async (t) => {
      const lake = await makeLake(t)
      const ids = await writeFiles(t, lake.store, [3])
      await commitEvents(lake.store, { now })
      const table = new TableStore(lake.store, 'order_events')
      const whole = await readFile(lake.pathOf('iceberg/order_events/metadata/v1.metadata.json'))
      for (const [version, bytes] of [whole.subarray(0, whole.length / 2), Buffer.from('{}'), Buffer.from('')].entries())
        await table.putFile(`${table.folder}metadata/v${version + 2}.metadata.json`, bytes)
      assert.deepEqual([(await table.read()).newest?.version, (await table.read()).damaged.length], [1, 3])
      assert.deepEqual(await tableEvents(lake), ids)
      ids.push(...(await writeFiles(t, lake.store, [2], { from: 4 })))
      await commitEvents(lake.store, { now })
      assert.equal((await table.read()).newest?.version, 5)
      assert.deepEqual(await tableEvents(lake), ids)
    })
  })
}
