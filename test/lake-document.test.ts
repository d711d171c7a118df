import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { DuckDBInstance } from '@duckdb/node-api'
import { compactLake } from '../src/lake/compact-lake.ts'
import { LocalLakeStore } from '../src/lake/local-store.ts'
import { onCleanup } from './cleanup.ts'
import { writeFiles } from './lake-harness.ts'
import { makeTestFolder } from './test-folder.ts'

const DOCUMENT = new URL('../docs/data/lake.md', import.meta.url)

test("the documented query of another tool's reader counts each row once, beside files that were merged", async (t) => {
  const folder = makeTestFolder(t, 'storefront-lake-')
  const store = new LocalLakeStore(join(folder, 'lake'))
  await writeFiles(t, store, [2, 2, 2])
  await writeFiles(t, store, [3], { from: 7, now: () => new Date('2026-03-02T00:00:00Z') })
  await compactLake({ store, isWanted: () => true })

  const [, sql = ''] = /```sql\n([\s\S]*?)```/.exec(await readFile(DOCUMENT, 'utf8')) ?? []
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  onCleanup(t, () => {
    connection.closeSync()
    instance.closeSync()
  })
  const count = async (query: string) => String((await connection.runAndReadAll(query)).getRows()[0]?.[0])
  const plain = `read_parquet('${folder}/lake/orders/*/*.parquet')`
  assert.equal(await count(`select count(*) from ${plain}`), '15')
  assert.equal(await count(`select count(distinct event_id) from ${plain}`), '9')
  assert.equal(await count(sql.replace("'data/lake/", `'${folder}/lake/`)), '9')
})
