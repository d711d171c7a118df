import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from './database.ts'

test('gives every caller a migrated database of its own', async (t) => {
  const [first, second] = await Promise.all([createTestDatabase(t), createTestDatabase(t)])
  await first.pool.query(`insert into topic_subscribers (name, sequence) values ('a', 1)`)
  const { rows } = await second.pool.query('select count(*) from topic_subscribers')
  assert.deepEqual(rows, [{ count: 0 }])
})
