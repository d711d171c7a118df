import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../errors.ts'
import { allowedTransitions, ORDER_STATUSES, pathTo } from './order-status.ts'
import { assertTransition } from './plan-change.ts'

// checks/statuses.test.ts compares the allowed moves with docs/shop/stock.md.
const PAIRS = ORDER_STATUSES.flatMap((from) => ORDER_STATUSES.map((to) => [from, to] as const))
const isAllowed = ([from, to]: (typeof PAIRS)[number]) => allowedTransitions(from).includes(to)

test('allows the documented moves', () => {
  for (const [from, to] of PAIRS.filter(isAllowed)) assertTransition(from, to)
})

test('refuses every other move, including a move to the same status, and names the allowed moves', () => {
  const refused = PAIRS.filter((pair) => !isAllowed(pair))
  assert.equal(refused.filter(([from, to]) => from === to).length, ORDER_STATUSES.length)
  for (const [from, to] of refused) {
    assert.throws(
      () => assertTransition(from, to),
      (error) => {
        assert.ok(error instanceof AppError)
        assert.equal(error.code, 'illegal_transition')
        assert.deepEqual(error.details.members, { current_status: from, allowed_transitions: allowedTransitions(from) })
        return true
      },
    )
  }
})

test('the path to each status begins with pending, and each of its moves is allowed', () => {
  for (const status of ORDER_STATUSES) {
    const path = pathTo(status)
    assert.deepEqual([path[0], path.at(-1)], ['pending', status])
    for (const [index, to] of path.slice(1).entries()) assertTransition(path[index] ?? status, to)
  }
  assert.deepEqual(pathTo('returned'), ['pending', 'confirmed', 'shipped', 'returned'])
})
