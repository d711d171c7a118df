import assert from 'node:assert/strict'
import { readdir, readFile, rm, truncate, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { farFromMidnight } from '../../../test/midnight.ts'
import { startAuditedStore, startStoreWithFiles, summarise } from '../../../test/pipeline-audit.ts'
import { silent } from '../../../test/stream-harness.ts'
import { compactLake } from '../../lake/compact-lake.ts'
import { commitEvents } from '../../lake/iceberg/commit-events.ts'
import { commitSnapshot, readBase } from '../../lake/iceberg/commit-snapshot.ts'
import { endLostSnapshots } from '../../lake/iceberg/expire-snapshots.ts'
import { CATALOGUE_TABLES, ORDER_EVENTS } from '../../lake/iceberg/lake-table.ts'
import { TableStore } from '../../lake/iceberg/table-store.ts'
import { writeDerivedTables } from '../../lake/iceberg/write-derived-tables.ts'
import { withLakeLock } from '../../lake/lake-lock.ts'
import { CATALOGUE } from '../../topic/partitions.ts'
import { createPostgresTopic } from '../../topic/postgres/postgres-topic.ts'
import { repairLake } from '../replay/repair-lake.ts'
import { formatReport } from './format-report.ts'
import type { VerifyReport } from './verify.ts'

await farFromMidnight()

test('verify compares the Iceberg table with the lake, and names what of the tables cannot be read', async (t) => {
  const store = await startStoreWithFiles(t, [4, 3])
  const { lakeStore: lake } = store
  assert.deepEqual((await store.verify()).tables, { tables: 0, events: 0, waiting: 9 })
  await commitEvents(lake)
  await writeDerivedTables(lake)
  const verified = await store.verify()
  assert.deepEqual([summarise(verified), verified.tables], [[], { tables: 7, events: verified.lake.events, waiting: 0 }])
  await withLakeLock(store.url, (assertAlone) => compactLake({ store: lake, isWanted: () => true, assertAlone }))
  assert.deepEqual(summarise(await store.verify()), [], 'the table has the files from before the merge')
  await commitEvents(lake)
  assert.deepEqual(summarise(await store.verify()), [])

  const table = new TableStore(lake, ORDER_EVENTS.name)
  const base = await readBase(table)
  const [file] = base.manifests.flatMap(({ entries }) => entries)
  assert.ok(file)
  const change = { operation: 'append', added: [file.data_file], removed: new Set<string>() } as const
  assert.ok(await commitSnapshot(table, ORDER_EVENTS, base, change, new Date()))
  assert.deepEqual(summarise(await store.verify()), [`tables doubled ${verified.lake.events}`])
  await commitEvents(lake)
  assert.deepEqual(summarise(await store.verify()), [], 'the next commit has taken out the second one')

  await writeFile(lake.locate('iceberg/orders/metadata/v9.metadata.json'), '{"format-version": 2,')
  const name = table.nameAt(file.data_file.file_path) ?? ''
  await truncate(lake.locate(name), 100)
  const { findings } = await store.verify()
  const [corrupt] = findings.filter(({ place }) => place === 'tables')
  assert.equal(corrupt?.kind, 'corrupt')
  assert.match(corrupt?.examples.join('\n') ?? '', /parquet: it is gone or has another size\n[\s\S]*v9\.metadata\.json: it is no metadata/)
  assert.ok(
    findings.some(({ place, kind }) => place === 'lake' && kind === 'corrupt'),
    'the name in the table is a link to the same file',
  )

  // Repairs the file, and the table with it; what is left is metadata.
  await repairLake({ url: store.url, pool: store.pool, store: lake, topic: store.topic, now: () => new Date() })
  assert.deepEqual(
    summarise(await store.verify()).filter((finding) => !finding.startsWith('tables corrupt')),
    [],
  )
  for (const definition of CATALOGUE_TABLES) await endLostSnapshots(lake, definition)
  assert.deepEqual(summarise(await store.verify()), [])
})

test('tables that were made while a file was gone are reported, and a repair of the file writes them again', async (t) => {
  const store = await startStoreWithFiles(t, [4, 3])
  const { lakeStore: lake } = store
  await commitEvents(lake)
  await writeDerivedTables(lake)
  const [first] = (await lake.list('orders/')).toSorted((a, b) => a.name.localeCompare(b.name))
  assert.ok(first)
  const bytes = await readFile(lake.locate(first.name))
  await rm(lake.locate(first.name))
  const lost: string[] = []
  await commitEvents(lake, { checksFiles: true, onLost: (name) => lost.push(name) })
  assert.deepEqual(lost, [first.name])
  await writeDerivedTables(lake)
  // Everything but the tables is as it was.
  await writeFile(lake.locate(first.name), bytes)
  await commitEvents(lake)
  const { findings } = await store.verify()
  assert.deepEqual(summarise({ findings } as VerifyReport), ['tables missing 2'])
  assert.match(
    findings[0]?.examples.join() ?? '',
    /^orders: it was made of \d of the 9 events up to sequence 9,order_lines: it was made of \d of/,
  )

  await rm(lake.locate(first.name))
  const options = { url: store.url, pool: store.pool, store: lake, topic: store.topic, now: () => new Date() }
  const [ofCatalogue] = await lake.list('catalogue/')
  assert.ok(ofCatalogue)
  const catalogueBytes = await readFile(lake.locate(ofCatalogue.name))
  // Another file, as a table is not made again of the same one.
  await rm(lake.locate(ofCatalogue.name))
  await writeFile(lake.locate(ofCatalogue.name), catalogueBytes.subarray(0, 100))
  assert.equal((await repairLake(options)).written, 5, 'as after a restore, which must not wait for files of the catalogue')
  await writeFile(lake.locate(ofCatalogue.name), catalogueBytes)
  const catalogueTopic = createPostgresTopic(CATALOGUE, { pool: store.pool, url: store.url, logger: silent })
  const put = lake.put.bind(lake)
  lake.put = async (name, path) => {
    if (name.startsWith('iceberg/orders/')) throw new Error('the disk is full')
    return put(name, path)
  }
  assert.equal((await repairLake({ ...options, catalogueTopic })).tablesFailure, 'the disk is full')
  lake.put = put
  assert.equal((await repairLake({ ...options, catalogueTopic })).tablesFailure, null)
  for (const definition of CATALOGUE_TABLES) await endLostSnapshots(lake, definition)
  assert.deepEqual(summarise(await store.verify()), [])
})

test('verify reports events that the Iceberg table should have by now, and tables of another place', async (t) => {
  const store = await startAuditedStore(t)
  const { lakeStore: lake } = store
  const stop = await store.startPipeline()
  await store.trade(2)
  await store.untilDelivered()
  await commitEvents(lake)
  await store.trade(1)
  await store.untilDelivered()
  await stop()
  const young = await store.verify()
  assert.deepEqual([summarise(young), young.tables], [[], { tables: 2, events: 2, waiting: 1 }])
  assert.match(formatReport(young), /\ntables {2}2 tables, 2 events in order_events.*; 1 on the way\n/)
  const longAgo = new Date(Date.now() - 400_000)
  for (const { name } of await lake.list('orders/')) await utimes(lake.locate(name), longAgo, longAgo)
  const late = await store.verify()
  assert.deepEqual([summarise(late), late.tables.waiting], [['tables missing 1'], 0])
  assert.match(formatReport(late), /\ntables: 1 missing \(storefront lake tables adds them, after /)

  await commitEvents(lake)
  assert.deepEqual(summarise(await store.verify()), [])
  const elsewhere = lake.locate('iceberg/order_events/metadata')
  for (const name of await readdir(elsewhere)) {
    if (!name.endsWith('.metadata.json')) continue
    const path = join(elsewhere, name)
    // The digest goes, because a lake that was written there has another one.
    await writeFile(
      path,
      (await readFile(path, 'utf8')).replaceAll(lake.locate(''), '/somewhere/else/').replace('storefront.sha256', 'none'),
    )
  }
  const moved = await store.verify()
  assert.deepEqual(summarise(moved), ['tables moved 1'])
  assert.match(formatReport(moved), /\ntables: 1 moved \(.*storefront lake tables .*\)\n {2}order_events: file:\/\/\/somewhere\/else\//)
  await commitEvents(lake)
  assert.deepEqual(summarise(await store.verify()), [])
})
