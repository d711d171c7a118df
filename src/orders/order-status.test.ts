import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../errors.ts'
import { allowedTransitions, assertTransition, ORDER_STATUSES } from './order-status.ts'

const LEGAL = [
  ['pending', 'confirmed'],
  ['confirmed', 'shipped'],
  ['shipped', 'delivered'],
  ['pending', 'cancelled'],
  ['confirmed', 'cancelled'],
  ['shipped', 'returned'],
  ['delivered', 'returned'],
]
const PAIRS = ORDER_STATUSES.flatMap((from) => ORDER_STATUSES.map((to) => [from, to] as const))
const isLegal = (from: string, to: string) => LEGAL.some((move) => move[0] === from && move[1] === to)

test('allows the moves of the contract', () => {
  const allowed = PAIRS.filter(([from, to]) => allowedTransitions(from).includes(to))
  assert.deepEqual(allowed.map(String).sort(), LEGAL.map(String).sort())
  for (const [from, to] of allowed) assertTransition(from, to)
})

test('refuses every other move, staying included, and names those that are allowed', () => {
  const refused = PAIRS.filter(([from, to]) => !isLegal(from, to))
  assert.equal(refused.length, 36 - LEGAL.length)
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
