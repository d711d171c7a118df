import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { queryWithin } from '../src/lake/bounded-query.ts'
import { writeFiles } from './lake-harness.ts'
import { type MakeLake, makeLocalLake } from './lake-stores.ts'
import { makeTestFolder } from './test-folder.ts'

/** The content of a file that is none of the lake's business. */
export const SECRET = 'xyzzy-secret'
const BOUNDS = { maxRows: 1_000, maxBytes: 100_000, memory: '256MB', spill: '16MB' }

/**
 * A lake with files of these numbers of events, a query of an operator over it, and beside it a file with the secret.
 */
export async function makeQueriedLake(t: TestContext, make: MakeLake = makeLocalLake, counts: number[] = [2, 2]) {
  const lake = await make(t)
  if (counts.length > 0) await writeFiles(t, lake.store, counts)
  const outside = makeTestFolder(t, 'storefront-outside-')
  const secret = join(outside, 'secret.csv')
  writeFileSync(secret, `word\n${SECRET}\n`)
  const query = async (sql: string, bounds: Partial<typeof BOUNDS> = {}) => {
    const { columns, rows, isTruncated } = await queryWithin(lake.store, sql, {
      ...{ ...BOUNDS, ...bounds },
      spillDirectory: join(outside, 'spill'),
    })
    return { columns, rows: rows.map((row) => JSON.parse(row)), isTruncated }
  }
  return { ...lake, secret, query }
}
