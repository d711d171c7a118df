import assert from 'node:assert/strict'
import { truncate, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import {
  compact,
  dayAfter,
  lakeTableConformance,
  now,
  operations,
  snapshotsOf,
  tableEvents,
} from '../../../test/conformance/lake-table-conformance.ts'
import { readWithIcebird } from '../../../test/iceberg-reader.ts'
import { writeFiles } from '../../../test/lake-harness.ts'
import { makeLocalLake } from '../../../test/lake-stores.ts'
import { writeOldFile } from '../../../test/old-lake-file.ts'
import { makeMessages } from '../../../test/order-event-factory.ts'
import { commitEvents } from './commit-events.ts'

lakeTableConformance('folder', makeLocalLake)

test('a damaged manifest makes the next commit register every file again', async (t) => {
  const lake = await makeLocalLake(t)
  const ids = await writeFiles(t, lake.store, [3, 2])
  await commitEvents(lake.store, { now })
  const [manifest] = (await lake.store.list('iceberg/order_events/metadata/manifest-')).map(({ name }) => name)
  await truncate(lake.pathOf(manifest ?? ''), 3_000)
  await assert.rejects(tableEvents(lake))
  assert.equal((await commitEvents(lake.store, { now })).snapshots, 1)
  assert.deepEqual(await tableEvents(lake), ids)
})

test('a damaged file of the lake is left out and reported, and the files that it supersedes by its name stay in the table', async (t) => {
  const lake = await makeLocalLake(t)
  const ids = await writeFiles(t, lake.store, [3, 2])
  await commitEvents(lake.store, { now })
  const name = 'orders/ingest_date=2026-03-01/0000000000000001-0000000000000009.7.parquet'
  await writeFile(lake.pathOf(name), 'half of a file')
  const { snapshots, damaged } = await commitEvents(lake.store, { now })
  assert.deepEqual([snapshots, [...damaged.keys()]], [0, [name]])
  assert.deepEqual(await tableEvents(lake), ids)
})

test('files of earlier releases are registered as they are, merged or not', async (t) => {
  const lake = await makeLocalLake(t)
  const messages = makeMessages(4, 1)
  await writeOldFile(lake.pathOf(''), messages.slice(0, 2), '2026-02-28')
  await writeOldFile(lake.pathOf(''), messages.slice(2))
  const ids = [...messages.map(({ event }) => event.id), ...(await writeFiles(t, lake.store, [2, 3], { from: 11 }))]
  await commitEvents(lake.store, { now })
  assert.deepEqual(await tableEvents(lake), ids)
  await compact(lake.store)
  await commitEvents(lake.store, { now })
  assert.deepEqual(await tableEvents(lake), ids)
  const [row] = await readWithIcebird(lake, 'order_events')
  assert.deepEqual([row?.order_number, row?.payment_state ?? null], [messages[0]?.event.data.order.number, null])
})

test('a merged file of a day that is over is in the table where it is; when it is merged again, the snapshots that have it end', async (t) => {
  const lake = await makeLocalLake(t)
  const ids = await writeFiles(t, lake.store, [2, 3])
  await compact(lake.store)
  await commitEvents(lake.store, { now: dayAfter })
  assert.deepEqual(await lake.store.list('iceberg/order_events/data/'), [])
  ids.push(...(await writeFiles(t, lake.store, [1], { from: 6 })))
  await commitEvents(lake.store, { now: dayAfter })
  assert.equal((await snapshotsOf(lake.store)).length, 2)
  await compact(lake.store)
  await commitEvents(lake.store, { now: dayAfter })
  assert.deepEqual(operations(await snapshotsOf(lake.store)), ['replace'])
  assert.deepEqual(await tableEvents(lake), ids)
})
