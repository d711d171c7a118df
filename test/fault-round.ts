import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Fault } from '../faults/fault.ts'
import { Skipped } from '../faults/lake.ts'
import { runFault } from '../faults/run-fault.ts'

/** Names of the faults that run in `npm test`. */
export const DAILY_FAULTS = ['handler-after-publish']
/** It exceeds all deadlines of a round together. */
export const FAULT_TIMEOUT_MS = 900_000
const ORDERS = 12

/** A round of a few orders. The seed is in the test's diagnostics. */
export function testRound(fault: Fault): void {
  const size = fault.ordersPerRound === undefined ? '' : `; ${ORDERS} here`
  test(`loses and doubles nothing: ${fault.title}${size}`, { timeout: FAULT_TIMEOUT_MS }, async (t) => {
    const seed = Date.now() % 1_000_000
    try {
      const result = await runFault(fault, { rounds: 1, orders: ORDERS, seed, log: (line) => t.diagnostic(line) })
      assert.deepEqual(result.complaints, [])
      assert.ok(result.orders >= ORDERS)
    } catch (error) {
      if (!(error instanceof Skipped)) throw error
      t.skip(error.message)
    }
  })
}
