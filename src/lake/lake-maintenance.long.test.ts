import assert from 'node:assert/strict'
import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { assertFresh, tableFiles } from '../../test/derived-tables.ts'
import { NEVER, startSinkOn, writeFiles } from '../../test/lake-harness.ts'
import { makeLocalLake } from '../../test/lake-stores.ts'
import { silent } from '../../test/stream-harness.ts'
import { Trade } from '../../test/trade.ts'
import { commitFiles, readSnapshot } from './iceberg/event-table.ts'
import { TableStore } from './iceberg/table-store.ts'
import { newName } from './lake-names.ts'
import { queryLake } from './lake-query.ts'
import { LakeMaintenance } from './maintain-lake.ts'

const MINUTE_MS = 60_000
const DAYS = 3
const DAY_MS = 1_440 * MINUTE_MS
/** Files of each day, enough for several merges. */
const MINUTES = 75

test('days with a file in each minute of an hour never have more than 60 files of a day, and few other files', async (t) => {
  const { store, pathOf } = await makeLocalLake(t)
  const { url } = await createTestDatabase(t)
  let now = new Date('2026-03-01T00:00:00Z')
  await writeFiles(t, store, [1], { now: () => now })
  const { files, table } = await readSnapshot(store, 'orders')
  const [first = assert.fail()] = files
  const source = join(pathOf(''), '..', 'source')
  await copyFile(pathOf(first.name), source)
  const maintenance = new LakeMaintenance({ store, url, logger: silent, now: () => now })
  let [written, most] = [1, 0]
  const start = now.getTime()
  for (let minute = 1; minute < DAYS * MINUTES; minute++) {
    now = new Date(start + Math.floor(minute / MINUTES) * DAY_MS + (minute % MINUTES) * MINUTE_MS)
    // The same row again and again: what counts here are files.
    const name = newName('orders', now.toISOString().slice(0, 10), 1, 1)
    await store.withWorkspace(async (folder) => {
      await copyFile(source, join(folder, 'file'))
      await store.put(name, join(folder, 'file'))
    })
    const added = [{ ...first.data, file_path: table.locate(name) }]
    assert.ok(await commitFiles(await readSnapshot(store, 'orders', table), { added }, now))
    written += 1
    await maintenance.round()
    const days = Map.groupBy((await readSnapshot(store, 'orders', table)).files, ({ ingestDate }) => ingestDate)
    most = Math.max(most, ...[...days.values()].map((own) => own.length))
  }
  assert.ok(most <= 60, `${most} files of a day`)
  const { base, files: live } = await readSnapshot(store, 'orders')
  assert.ok(live.length <= DAYS - 1 + 60, `${live.length} files`)
  assert.ok((base.metadata?.snapshots.length ?? 0) <= 100 && base.manifests.length <= 50)
  const started = performance.now()
  assert.deepEqual((await queryLake(store, 'select count(*) from order_events')).rows, [[String(written)]])
  t.diagnostic(
    `${written} files written, ${most} of a day at most, ${live.length} left; a query takes ${Math.round(performance.now() - started)} ms`,
  )
})

test('after each refresh in days of changing orders, the tables have every event, and few files and snapshots', async (t) => {
  const { store } = await makeLocalLake(t)
  const { url } = await createTestDatabase(t)
  const trade = new Trade()
  // Files that nothing has are deleted an hour after they were stored.
  let now = new Date('2126-03-01T00:00:00Z')
  const sink = await startSinkOn(t, store, { now: () => now })
  const maintenance = new LakeMaintenance({ store, url, logger: silent, now: () => now })
  let [refreshes, most] = [0, 0]
  for (let day = 0; day < DAYS; day++) {
    for (let hour = 0; hour < 2; hour++) {
      for (let minute = 0; minute < 3; minute++) {
        now = new Date(Date.UTC(2126, 2, 1 + day, 8 + hour, minute))
        await sink.handle(trade.batch(5), NEVER)
        await sink.flush()
        await maintenance.refresh()
        refreshes += 1
      }
      await maintenance.round()
      most = Math.max(most, (await store.list('iceberg/orders/')).length)
    }
    await assertFresh(store)
  }
  const { newest } = await new TableStore(store, 'orders').read()
  const files = await tableFiles(store, 'orders')
  assert.ok(files.length <= 3, `${files.length} live files`)
  assert.ok((newest?.metadata.snapshots.length ?? 0) <= 100)
  // Each refresh writes at most a file of each of three months, a manifest, a list of them, and metadata.
  assert.ok(most <= 100 * 6 + 3, `${most} files`)
  t.diagnostic(`${refreshes} refreshes; ${most} files of orders at most, of which ${files.length} count`)
})
