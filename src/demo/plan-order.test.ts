import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allowedTransitions, type OrderStatus } from '../orders/order-status.ts'
import { endingOf, planMonth, planMoves } from './plan-order.ts'

const NOW = new Date('2026-03-31T04:00:00Z')
const ROUNDS = 200

test("every ending's status changes are allowed, and each is later than the previous one", () => {
  for (const ending of new Set(Array.from({ length: 20 }, (_, index) => endingOf(index)))) {
    for (let round = 0; round < ROUNDS; round += 1) {
      let [status, at]: [OrderStatus, number] = ['pending', NOW.getTime()]
      for (const move of planMoves(NOW, ending, 1)) {
        assert.ok(allowedTransitions(status).includes(move.to), `${status} to ${move.to}`)
        assert.ok(move.at.getTime() > at)
        ;[status, at] = [move.to, move.at.getTime()]
      }
    }
  }
})

test('six orders of a month have every current status', () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    const statuses = planMonth(NOW, 6).map(({ at, ending }) => {
      return planMoves(at, ending, 1).findLast((move) => move.at <= NOW)?.to ?? 'pending'
    })
    assert.deepEqual(statuses.toSorted(), ['cancelled', 'confirmed', 'delivered', 'pending', 'returned', 'shipped'])
  }
})

test("a month's orders are from the last 30 days, and more are placed by day than by night", () => {
  const month = planMonth(NOW, 2_000)
  assert.equal(month.length, 2_000)
  assert.ok(month.every(({ at }) => at <= NOW && at.getTime() >= NOW.getTime() - 30 * 86_400_000))
  const between = (from: number, to: number) => month.filter(({ at }) => at.getHours() >= from && at.getHours() < to).length
  assert.ok(between(18, 22) > 3 * between(1, 5))
})
