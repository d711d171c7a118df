import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { AppError, type ErrorCode } from '../errors.ts'
import { multiply, sum } from './price.ts'

const LIMIT = BigInt(Number.MAX_SAFE_INTEGER)
const amount = fc.oneof(fc.nat(), fc.maxSafeNat())
const euros = (value: number) => ({ amount: value, currency: 'EUR' })
const withCode = (code: ErrorCode) => (error: unknown) => error instanceof AppError && error.code === code

/** The exact result, or the refusal when JSON could not carry it. */
function assertExact(exact: bigint, work: () => { amount: number; currency: string }): void {
  if (exact > LIMIT) assert.throws(work, withCode('total_too_large'))
  else assert.deepEqual(work(), euros(Number(exact)))
}

test('multiplies exactly or refuses', () => {
  fc.assert(
    fc.property(amount, fc.integer({ min: 1, max: 10_000 }), (price, quantity) => {
      assertExact(BigInt(price) * BigInt(quantity), () => multiply(euros(price), quantity))
    }),
  )
  assertExact(LIMIT, () => multiply(euros(Number.MAX_SAFE_INTEGER), 1))
  assertExact(LIMIT + 1n, () => multiply(euros(2 ** 52), 2))
})

test('adds exactly or refuses', () => {
  fc.assert(
    fc.property(fc.array(amount, { minLength: 1, maxLength: 1_000 }), (amounts) => {
      assertExact(
        amounts.reduce((total, value) => total + BigInt(value), 0n),
        () => sum(amounts.map(euros)),
      )
    }),
  )
  assertExact(LIMIT, () => sum([euros(Number.MAX_SAFE_INTEGER - 1), euros(1)]))
  assertExact(LIMIT + 1n, () => sum([euros(Number.MAX_SAFE_INTEGER), euros(1)]))
  assertExact(LIMIT + 1n, () => sum([euros(Number.MAX_SAFE_INTEGER), euros(1), euros(0)]))
})

test('adds nothing of different currencies, and names them', () => {
  const mixed = [euros(1), { amount: 1, currency: 'USD' }, { amount: 1, currency: 'CHF' }]
  assert.throws(() => sum(mixed), withCode('mixed_currencies'))
  assert.throws(() => sum(mixed), /CHF and EUR and USD/)
})

test('has no sum of nothing, which would have no currency', () => {
  assert.throws(() => sum([]), RangeError)
})
