import assert from 'node:assert/strict'
import { copyFile, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { DuckDBConnection } from '@duckdb/node-api'
import { makeTestFolder } from '../../test/test-folder.ts'
import { sql } from '../db/sql.ts'
import { makeSpillPath, parquetRows, withDuckDB } from './lake-database.ts'
import { queryDuckDB } from './query-duckdb.ts'

async function writeNumber(path: string, number: number): Promise<void> {
  await withDuckDB(
    makeSpillPath(),
    async (connection) => void (await connection.run(`copy (select ${number} as n) to '${path}' (format parquet)`)),
  )
}

test('a file that was replaced by one with the same size and time is read again', async (t) => {
  const folder = makeTestFolder(t, 'storefront-query-')
  const [path, other] = [join(folder, 'file.parquet'), join(folder, 'other.parquet')]
  await writeNumber(path, 1)
  await writeNumber(other, 2)
  assert.equal((await stat(other)).size, (await stat(path)).size)
  const writtenAt = new Date('2026-03-01T10:00:00Z')
  await utimes(path, writtenAt, writtenAt)
  const read = () => queryDuckDB(sql`select n from ${parquetRows([path])}`)
  assert.deepEqual(await read(), [[1]])
  await copyFile(other, path)
  await utimes(path, writtenAt, writtenAt)
  assert.deepEqual(await read(), [[2]])
})

test('queries that run beside a failing query still get their rows', async (t) => {
  const folder = makeTestFolder(t, 'storefront-query-')
  const damaged = join(folder, 'damaged.parquet')
  await writeFile(damaged, 'PAR1 is not enough PAR1')
  const answers = await Promise.allSettled(
    Array.from({ length: 20 }, (_, n) => queryDuckDB(n % 2 === 0 ? sql`select ${n}` : sql`select n from ${parquetRows([damaged])}`)),
  )
  for (const [n, answer] of answers.entries()) {
    if (n % 2 === 0) assert.deepEqual(answer, { status: 'fulfilled', value: [[n]] })
    else assert.match(String(answer.status === 'rejected' && answer.reason), /too small|Invalid|Parquet/i)
  }
})

test('if a query breaks its DuckDB instance, another instance answers it and the following queries', async (t) => {
  assert.deepEqual(await queryDuckDB(sql`select 1`), [[1]])
  const { mock } = t.mock.method(DuckDBConnection.prototype, 'runAndReadAll', async () => {
    mock.restore()
    throw new Error('FATAL Error: database has been invalidated because of a previous fatal error')
  })
  assert.deepEqual(await queryDuckDB(sql`select 2`), [[2]])
  assert.deepEqual(await queryDuckDB(sql`select 3`), [[3]])
})
