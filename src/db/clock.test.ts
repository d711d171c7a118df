import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { clockDifference, readClockDifference } from './clock.ts'

test('the difference of two clocks is the part that the time of the query cannot explain', async (t) => {
  assert.equal(clockDifference(1_000, 1_500, 2_000), 0)
  assert.equal(clockDifference(3_000, 1_000, 4_000), 2)
  assert.equal(clockDifference(1_000, 5_500, 2_000), -3.5)
  const { pool } = await createTestDatabase(t)
  for (const hours of [-5, 0, 5]) {
    const seconds = await readClockDifference(pool, () => Date.now() + hours * 3_600_000)
    assert.ok(Math.abs(seconds - hours * 3_600) < 60, String(seconds))
  }
})
