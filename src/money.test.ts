import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isCurrency, parseMajorUnits } from '../client/src/currency.ts'
import { AppError, type ErrorCode } from './errors.ts'
import { multiply, sum } from './money.ts'

const LIMIT = BigInt(Number.MAX_SAFE_INTEGER)
const amount = fc.oneof(fc.nat(), fc.maxSafeNat())
const euros = (value: number) => ({ amount: value, currency: 'EUR' })
const withCode = (code: ErrorCode) => (error: unknown) => error instanceof AppError && error.code === code

/** Asserts the exact result, or the refusal of one that JSON could not represent. */
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

test('refuses to add different currencies, and names them', () => {
  const mixed = [euros(1), { amount: 1, currency: 'USD' }, { amount: 1, currency: 'CHF' }]
  assert.throws(() => sum(mixed), withCode('mixed_currencies'))
  assert.throws(() => sum(mixed), /CHF and EUR and USD/)
})

test('refuses the sum of no amounts, which would have no currency', () => {
  assert.throws(() => sum([]), RangeError)
})

test('reads major units exactly, with the decimals of the currency in ISO 4217', () => {
  assert.equal(parseMajorUnits('12.5', 'EUR'), 1250)
  assert.equal(parseMajorUnits('0.29', 'EUR'), 29)
  assert.equal(parseMajorUnits('1.10', 'HUF'), 110)
  assert.equal(parseMajorUnits('1250', 'JPY'), 1250)
  assert.equal(parseMajorUnits('1.234', 'KWD'), 1234)
  assert.equal(parseMajorUnits('90071992547409.91', 'EUR'), Number.MAX_SAFE_INTEGER)
})

test('refuses text that is not an amount of the currency', () => {
  for (const text of ['', ' 1', '-1', '+1', '.5', '1.', '1,5', '1e3', '0x1', '1.234', '٣', '90071992547409.92']) {
    assert.equal(parseMajorUnits(text, 'EUR'), null, text)
  }
  assert.equal(parseMajorUnits('1.0', 'JPY'), null)
})

test('accepts ISO 4217 codes only in capitals', () => {
  assert.deepEqual(['EUR', 'eur', 'ZZZ', '', '__proto__'].map(isCurrency), [true, false, false, false, false])
})
