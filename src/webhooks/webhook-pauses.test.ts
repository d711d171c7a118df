import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pauseAsked, readRetryAfter } from './webhook-deliveries.ts'

const NOW = new Date('2026-03-01T12:00:00.500Z')

test('reads seconds and HTTP dates, and nothing else', () => {
  assert.equal(readRetryAfter('120', NOW), 120)
  assert.equal(readRetryAfter('0', NOW), 0)
  assert.equal(readRetryAfter('Sun, 01 Mar 2026 12:10:00 GMT', NOW), 600)
  assert.equal(readRetryAfter('Sunday, 01-Mar-26 12:10:00 GMT', NOW), 600)
  assert.equal(readRetryAfter('Sun, 01 Mar 2026 11:00:00 GMT', NOW), 0)
  for (const value of ['', '-1', '1.5', 'soon', '2026-03-01', '12 monkeys', 'Sun, never'])
    assert.equal(readRetryAfter(value, NOW), null, value)
})

test('waits as long as the receiver asks, within limits, and randomly a little longer', () => {
  assert.equal(
    pauseAsked(1, 600, () => 0),
    600,
  )
  assert.equal(
    pauseAsked(1, 600, () => 1),
    750,
  )
  const steady = (attempt: number, wanted: number) => pauseAsked(attempt, wanted, () => 0)
  assert.deepEqual([steady(1, 0), steady(4, 1), steady(40, 1)], [5, 40, 14_400], 'not less than without asking')
  assert.deepEqual([steady(1, 1e9), steady(1, Number('9'.repeat(400)))], [14_400, 14_400])
})
