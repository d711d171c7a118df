import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Caution } from './caution.ts'

test('leaves out twice as many turns after each failure in a row, 32 at most, and one again after a success', () => {
  const caution = new Caution()
  const turnsUntilTried = () => {
    let turns = 1
    while (!caution.tries()) turns += 1
    return turns
  }
  const pauses = Array.from({ length: 8 }, () => {
    caution.failed()
    return turnsUntilTried() - 1
  })
  assert.deepEqual(pauses, [1, 2, 4, 8, 16, 32, 32, 32])
  caution.succeeded()
  assert.equal(turnsUntilTried(), 1)
  caution.failed()
  assert.equal(turnsUntilTried(), 2)
})
