import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OptimisticBackoff } from './place-orders.ts'

test('skips twice as many turns after each failure in a row, up to 32, and one turn again after a success', () => {
  const backoff = new OptimisticBackoff()
  const turnsUntilTry = () => {
    let turns = 1
    for (; !backoff.shouldTry; turns++) backoff.skipped()
    return turns
  }
  const pauses = Array.from({ length: 8 }, () => {
    backoff.failed()
    return turnsUntilTry() - 1
  })
  assert.deepEqual(pauses, [1, 2, 4, 8, 16, 32, 32, 32])
  backoff.succeeded()
  assert.equal(turnsUntilTry(), 1)
  backoff.failed()
  assert.equal(turnsUntilTry(), 2)
})
