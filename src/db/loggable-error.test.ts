import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { collectLog } from '../../test/logs.ts'
import { loggableError } from './loggable-error.ts'

test('logs only codes and names of a database error, and no row values', async (t) => {
  const { pool } = await createTestDatabase(t)
  await pool.query('create table people (email text constraint people_email_unique unique, age integer)')
  await pool.query(`insert into people values ('hunter2@example.com', 1)`)
  const logged = async (sql: string) => {
    const error = await pool.query(sql).catch((refusal: unknown) => refusal)
    const { logger, lines } = collectLog()
    logger.error({ err: loggableError(error) }, 'failed')
    assert.doesNotMatch(lines.join(), /hunter2/)
    return JSON.parse(lines[0] ?? '').err
  }
  const duplicate = await logged(`insert into people values ('hunter2@example.com', 2)`)
  assert.deepEqual([duplicate.code, duplicate.constraint, duplicate.table], ['23505', 'people_email_unique', 'people'])
  assert.match(duplicate.stack, /duplicate key value[^\n]*\n\s+at .*loggable-error\.test/s)
  assert.equal((await logged(`insert into people values ('x', 'hunter2')`)).code, '22P02')
  assert.equal((await logged(`do $$ begin insert into people values ('hunter2@example.com', 3); end $$`)).constraint, 'people_email_unique')
})

test('logs any other error unchanged', () => {
  const error = new Error('no such luck')
  assert.equal(loggableError(error), error)
  assert.equal(loggableError(null), null)
})
