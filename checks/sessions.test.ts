import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/**
 * The only files that open sessions of PostgreSQL. They set up each session, so no role, database or server setting
 * changes what the store reads or decides.
 */
const OPENERS = ['src/change-stream/replication-connection.ts', 'src/db/pool.ts']

/** Packages besides `pg`, and programs, that connect to PostgreSQL. */
const OTHER_WAYS =
  /from '(?:pg-native|pg-pool|pg-cursor|postgres|pg-promise|knex|slonik)(?:\/[^']*)?'|['"`/](?:psql|pg_dump|pg_restore)\b['"` ]/
const OPENS = /\bnew\s+(?:\w+\.)?(?:Client|Pool)\b|\bextends\s+(?:pg\.)?(?:Client|Pool)\b|\brequire\(['"]pg/

function findOpeners(files: readonly (readonly [file: string, source: string])[]): { opens: string[]; unset: string[] } {
  const opens = files.filter(([, source]) => OPENS.test(source) || OTHER_WAYS.test(source))
  return {
    opens: opens.map(([file]) => file),
    unset: opens.filter(([, source]) => !source.includes('setUpSession(')).map(([file]) => file),
  }
}

test('every session of PostgreSQL is opened in one of two files, which set it up', () => {
  const files = globSync(['src/**/*.ts', 'bin/**/*'], { cwd: ROOT }).filter((file) => /\.m?[jt]s$/.test(file) && !/\.test\.ts$/.test(file))
  assert.ok(files.length > 500)
  const found = findOpeners(files.toSorted().map((file) => [file, readFileSync(`${ROOT}/${file}`, 'utf8')] as const))
  assert.deepEqual(found, { opens: OPENERS, unset: [] }, 'open it with createPool or connectClient of src/db/pool.ts')
})

test('finds each way around these files', () => {
  const ways = [
    'new pg.Client({ connectionString: url })',
    'new Pool({ max: 1 })',
    'class Own extends pg.Client {}',
    "import postgres from 'postgres'",
    "execFile('psql', [url])",
  ]
  for (const way of ways) assert.deepEqual(findOpeners([['src/x.ts', way]]).unset, ['src/x.ts'], way)
  assert.deepEqual(findOpeners([['src/x.ts', 'const pool = createPool(options)']]).opens, [])
})
