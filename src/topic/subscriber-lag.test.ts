import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lagBehind } from './subscriber-lag.ts'
import { EPOCH_SEQUENCES } from './topic.ts'

test('the lag counts sequences after the position, but none of an earlier epoch', () => {
  assert.deepEqual(lagBehind(7, 10), { position: 7, lag: 3 })
  assert.deepEqual(lagBehind(10, 10), { position: 10, lag: 0 })
  assert.equal(lagBehind(7, 2 * EPOCH_SEQUENCES + 5).lag, 5)
  assert.equal(lagBehind(2 * EPOCH_SEQUENCES + 3, 2 * EPOCH_SEQUENCES + 5).lag, 2)
  assert.equal(lagBehind(EPOCH_SEQUENCES + 9, EPOCH_SEQUENCES).lag, 0)
})
