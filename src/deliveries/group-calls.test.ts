import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { groupCalls } from './group-calls.ts'

test('calls during a run form the next groups, and each gets its own result', async () => {
  const groups: number[][] = []
  const double = groupCalls(async (items: readonly number[]) => {
    groups.push([...items])
    await setImmediate()
    return items.map((item) => 2 * item)
  }, 3)
  assert.deepEqual(await Promise.all([1, 2, 3, 4, 5, 6].map(double)), [2, 4, 6, 8, 10, 12])
  assert.deepEqual(groups, [[1], [2, 3, 4], [5, 6]])
  assert.equal(await double(7), 14)
})

test('if a group fails, each of its calls runs alone, and only the faulty one fails', async () => {
  const check = groupCalls(async (items: readonly string[]) => {
    await setImmediate()
    if (items.includes('bad')) throw new Error('a bad item')
    return [...items]
  }, 10)
  const results = await Promise.allSettled(['first', 'a', 'bad', 'b'].map(check))
  assert.deepEqual(
    results.map((result) => (result.status === 'fulfilled' ? result.value : String(result.reason))),
    ['first', 'a', 'Error: a bad item', 'b'],
  )
  assert.equal(await check('later'), 'later')
})
