import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { uuidArray } from './list-parameters.ts'

const { pool } = await createTestDatabase({ after })

test('encodes UUIDs as the array that PostgreSQL reads', async () => {
  for (const count of [0, 1, 1_000]) {
    const ids = Array.from({ length: count }, () => randomUUID())
    const { rows } = await pool.query<{ ids: string[] }>('select $1::uuid[]::text[] as ids', [uuidArray(ids)])
    assert.deepEqual(rows[0]?.ids, ids)
  }
})

test('refuses text that is not a UUID', () => {
  for (const text of ['', 'a', `${randomUUID()}0`, randomUUID().replace(/.$/, 'x'), `urn:uuid:${randomUUID()}`])
    assert.throws(() => uuidArray([randomUUID(), text, randomUUID()]), RangeError, text)
})
