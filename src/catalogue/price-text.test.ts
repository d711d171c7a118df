import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isCurrency } from '../money.ts'
import { parseMajorUnits } from './price-text.ts'

test('reads major units exactly, with the decimals that ISO 4217 gives the currency', () => {
  assert.equal(parseMajorUnits('12.5', 'EUR'), 1250)
  assert.equal(parseMajorUnits('0.29', 'EUR'), 29)
  assert.equal(parseMajorUnits('1.10', 'HUF'), 110)
  assert.equal(parseMajorUnits('1250', 'JPY'), 1250)
  assert.equal(parseMajorUnits('1.234', 'KWD'), 1234)
  assert.equal(parseMajorUnits('90071992547409.91', 'EUR'), Number.MAX_SAFE_INTEGER)
})

test('refuses what is no amount of the currency', () => {
  for (const text of ['', ' 1', '-1', '+1', '.5', '1.', '1,5', '1e3', '0x1', '1.234', '٣', '90071992547409.92']) {
    assert.equal(parseMajorUnits(text, 'EUR'), null, text)
  }
  assert.equal(parseMajorUnits('1.0', 'JPY'), null)
})

test('knows ISO 4217 codes in capitals only', () => {
  assert.deepEqual(['EUR', 'eur', 'ZZZ', '', '__proto__'].map(isCurrency), [true, false, false, false, false])
})
