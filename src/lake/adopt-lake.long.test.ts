import assert from 'node:assert/strict'
import { copyFile, mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { describe, test } from 'node:test'
import { later, tableEvents } from '../../test/conformance/lake-table-conformance.ts'
import { readEvents, writeFiles } from '../../test/lake-harness.ts'
import { watchSteps } from '../../test/lake-steps.ts'
import { type MakeLake, makeLocalLake, makeS3Lake, type TestLake } from '../../test/lake-stores.ts'
import { writeOldFile } from '../../test/old-lake-file.ts'
import { makeMessages } from '../../test/order-event-factory.ts'
import { commitSnapshot, locationsOf, readBase } from './iceberg/commit-snapshot.ts'
import { describeFile } from './iceberg/describe-file.ts'
import { LakeDamaged, LakeNotAdopted, readSnapshot } from './iceberg/event-table.ts'
import { expireSnapshots } from './iceberg/expire-snapshots.ts'
import { ORDER_EVENTS } from './iceberg/lake-table.ts'
import { TableStore } from './iceberg/table-store.ts'
import { makeSpillPath, withDuckDB } from './lake-database.ts'
import { LakeFiles } from './lake-files.ts'

const MESSAGES = makeMessages(9)
const IDS = MESSAGES.map(({ event }) => event.id)
const DAY = 'orders/ingest_date=2026-03-01'
const now = () => new Date('2026-03-01T13:00:00.000Z')

const oldFile = ({ pathOf }: TestLake, first: number, last: number, level = 0) =>
  writeOldFile(pathOf(''), MESSAGES.slice(first - 1, last), '2026-03-01', level)
const adopt = ({ store }: TestLake) => new LakeFiles(store, 'orders', now).newestSequence()

for (const [kind, makeLake] of [
  ['a lake in a folder', makeLocalLake],
  ['a lake in a bucket', makeS3Lake],
] as const) {
  describe(kind, () => adopting(makeLake))
}

function adopting(makeLake: MakeLake): void {
  test('a lake of an earlier release is adopted by its writer, and cannot be read before', async (t) => {
    const lake = await makeLake(t)
    // A merge that was killed before it deleted its sources, and files after it.
    await oldFile(lake, 1, 2)
    await oldFile(lake, 3, 4)
    await oldFile(lake, 1, 4, 1)
    await oldFile(lake, 5, 6)
    await assert.rejects(readSnapshot(lake.store, 'orders'), LakeNotAdopted)
    assert.deepEqual(await Promise.all([adopt(lake), adopt(lake)]), [6, 6])
    assert.equal(await adopt(lake), 6)
    const ids = [...IDS.slice(0, 6), ...(await writeFiles(t, lake.store, [2], { from: 11 }))]
    assert.deepEqual([await readEvents(lake.store), await tableEvents(lake)], [ids, ids])
  })

  test('a lake is adopted without files whose names do not match their rows', async (t) => {
    const lake = await makeLake(t)
    const whole = await oldFile(lake, 1, 3)
    await oldFile(lake, 4, 6)
    const far = `${DAY}/0000009000000000-0000009000000005.parquet`
    await copyFile(whole, lake.pathOf(far))
    await writeFile(lake.pathOf(`${DAY}/0000000000000000-0000009000000009.7.parquet`), 'cut off')
    // What a writer was about to publish comes again from the topic.
    const claim = '.pending/after-0000000000000006.parquet'
    await mkdir(dirname(lake.pathOf(claim)), { recursive: true })
    await copyFile(whole, lake.pathOf(claim))
    assert.equal(await adopt(lake), 6)
    assert.deepEqual(await readEvents(lake.store), IDS.slice(0, 6))
    assert.deepEqual(await lake.store.list('.pending/'), [])
    assert.equal(await lake.readObject(`${DAY}/0000000000000000-0000009000000009.7.parquet.corrupt`), 'cut off')
  })

  test('a lake of an earlier release that has tables loses the rows that only the tables have', async (t) => {
    const lake = await makeLake(t)
    const path = await oldFile(lake, 1, 3)
    const table = new TableStore(lake.store, ORDER_EVENTS.name)
    const link = 'iceberg/order_events/data/a.parquet'
    await mkdir(dirname(lake.pathOf(link)), { recursive: true })
    await copyFile(path, lake.pathOf(link))
    const file = { location: table.locate(link), sizeBytes: 1 }
    const data = await withDuckDB(makeSpillPath(), (connection) => describeFile(connection, ORDER_EVENTS, path, file))
    await commitSnapshot(table, ORDER_EVENTS, await readBase(table), { operation: 'append', added: [data], removed: new Set() }, now())
    await oldFile(lake, 4, 9)
    await assert.rejects(readSnapshot(lake.store, 'orders'), LakeNotAdopted)
    await assert.rejects(expireSnapshots(lake.store, ORDER_EVENTS, later(), later()), LakeNotAdopted)
    assert.equal(await adopt(lake), 9)
    assert.deepEqual([await readEvents(lake.store), await tableEvents(lake)], [IDS, IDS])
  })

  test('a lake that an earlier release wrote to again after its adoption counts as damaged, and loses nothing', async (t) => {
    const lake = await makeLake(t)
    await writeFiles(t, lake.store, [2])
    const listed = await lake.store.list('orders/')
    const table = new TableStore(lake.store, ORDER_EVENTS.name)
    const base = await readBase(table)
    const change = { operation: 'overwrite', added: [], removed: new Set(locationsOf(base)) } as const
    await commitSnapshot(table, ORDER_EVENTS, base, change, now())
    await assert.rejects(readSnapshot(lake.store, 'orders'), LakeDamaged)
    await assert.rejects(adopt(lake), LakeDamaged)
    assert.deepEqual(await lake.store.list('orders/'), listed)
  })

  test('if another process adopts a lake and writes to it meanwhile, its events stay', async (t) => {
    // The lists are those of the metadata and of the files, to find out that it is to be adopted, and to adopt it.
    for (const list of [1, 2, 3, 4]) {
      const lake = await makeLake(t)
      await oldFile(lake, 1, 3)
      let lists = 0
      const late = watchSteps(await lake.connect(), async (step) => {
        if (step !== 'after list' || ++lists !== list) return
        await adopt(lake)
        await writeFiles(t, lake.store, [2], { from: 4 })
      })
      assert.equal(await new LakeFiles(late, 'orders', now).newestSequence(), 5, `list ${list}`)
      assert.equal((await readEvents(lake.store)).length, 5, `list ${list}`)
    }
  })
}
