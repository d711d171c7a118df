import assert from 'node:assert/strict'
import { readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { farFromMidnight } from '../../../test/midnight.ts'
import { startStoreWithFiles, summarise } from '../../../test/pipeline-audit.ts'
import { silent } from '../../../test/stream-harness.ts'
import { compactLake } from '../../lake/compact-lake.ts'
import { commitFiles, readSnapshot } from '../../lake/iceberg/event-table.ts'
import { endLostSnapshots } from '../../lake/iceberg/expire-snapshots.ts'
import { CATALOGUE_TABLES } from '../../lake/iceberg/lake-table.ts'
import { writeDerivedTables } from '../../lake/iceberg/write-derived-tables.ts'
import { listLake } from '../../lake/list-files.ts'
import { CATALOGUE } from '../../topic/partitions.ts'
import { createPostgresTopic } from '../../topic/postgres/postgres-topic.ts'
import { repairLake } from '../replay/repair-lake.ts'
import { formatReport } from './format-report.ts'
import type { VerifyReport } from './verify.ts'

await farFromMidnight()

test('verify names what cannot be read of the tables', async (t) => {
  const store = await startStoreWithFiles(t, [4, 3])
  const { lakeStore: lake } = store
  assert.deepEqual((await store.verify()).tables, { tables: 2 })
  await writeDerivedTables(lake)
  const verified = await store.verify()
  assert.deepEqual([verified.findings, verified.tables], [[], { tables: 12 }])
  assert.match(formatReport(verified), /\ntables {2}12 tables\n/)
  await compactLake({ store: lake, isWanted: () => true })
  assert.deepEqual((await store.verify()).findings, [])
  await writeFile(lake.locate('iceberg/orders/metadata/v9.metadata.json'), '{"format-version": 2,')
  const { findings } = await store.verify()
  assert.deepEqual(summarise({ findings } as VerifyReport), ['tables corrupt 1'])
  assert.match(findings[0]?.examples.join() ?? '', /v9\.metadata\.json: it is no metadata/)
  for (const definition of CATALOGUE_TABLES) await endLostSnapshots(lake, definition)
  assert.deepEqual((await store.verify()).findings, [])
})

test('tables that were written while a file was missing are reported, and repairing the file writes them again', async (t) => {
  const store = await startStoreWithFiles(t, [4, 3])
  const { lakeStore: lake } = store
  const before = await readSnapshot(lake, 'orders')
  const [first = assert.fail()] = before.files
  assert.ok(await commitFiles(before, { added: [], removed: [first] }, new Date()))
  await writeDerivedTables(lake)
  // Everything but the tables is as it was.
  assert.ok(await commitFiles(await readSnapshot(lake, 'orders'), { added: [first.data] }, new Date()))
  const { findings } = await store.verify()
  assert.deepEqual(summarise({ findings } as VerifyReport), ['tables missing 7'])
  assert.match(
    findings[0]?.examples.join() ?? '',
    /^order_lines: it was made of \d of the 9 events up to sequence 9,.*,orders: it was made of \d of/,
  )

  await rm(lake.locate(first.name))
  const options = { url: store.url, pool: store.pool, store: lake, topic: store.topic, now: () => new Date() }
  const [ofCatalogue = assert.fail()] = await listLake(lake, 'catalogue')
  const catalogueBytes = await readFile(lake.locate(ofCatalogue.name))
  await truncate(lake.locate(ofCatalogue.name), 100)
  assert.ok((await repairLake(options)).written > 0, 'as after a restore, which must not wait for files of the catalogue')
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
  assert.deepEqual((await store.verify()).findings, [])
})
