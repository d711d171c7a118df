import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { debianPostgresMissing } from './debian-postgres.ts'
import { dumpSchema, SCHEMA_FILE } from './dump-schema.ts'

test('docs/schema.sql is the schema that the migrations result in', { skip: debianPostgresMissing }, async (t) => {
  const { sql, version } = await dumpSchema(t)
  const written = await readFile(SCHEMA_FILE, 'utf8')
  if (version !== '15' && process.env.CI !== 'true') return t.skip(`docs/schema.sql is of PostgreSQL 15, and this machine has ${version}`)
  assert.equal(sql, written, 'run npm run schema')
})
