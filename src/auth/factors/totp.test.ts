import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findTotpStep, newTotpSecret, toBase32, totpCode, totpStepOf, totpUri } from './totp.ts'

const SECRET = toBase32(Buffer.from('12345678901234567890'))
const at = (seconds: number) => new Date(seconds * 1000)

test('computes the codes of RFC 6238, appendix B, shortened to the last six digits as in an app', () => {
  for (const [seconds, code] of [
    [59, '94287082'],
    [1_111_111_109, '07081804'],
    [1_111_111_111, '14050471'],
    [1_234_567_890, '89005924'],
    [2_000_000_000, '69279037'],
    [20_000_000_000, '65353130'],
  ] as const) {
    assert.equal(totpCode(SECRET, totpStepOf(at(seconds))), code.slice(2))
    assert.equal(findTotpStep(SECRET, code.slice(2), at(seconds)), Math.floor(seconds / 30))
  }
})

test('writes base32 as RFC 4648 specifies', () => {
  for (const [text, base32] of [
    ['', ''],
    ['f', 'MY'],
    ['fo', 'MZXQ'],
    ['foo', 'MZXW6'],
    ['foob', 'MZXW6YQ'],
    ['fooba', 'MZXW6YTB'],
    ['foobar', 'MZXW6YTBOI'],
  ] as const)
    assert.equal(toBase32(Buffer.from(text)), base32)
})

test('accepts the codes of the previous, current and next time step, and no others', () => {
  const now = at(1_800_000_000)
  const step = totpStepOf(now)
  const found = [-2, -1, 0, 1, 2].map((offset) => findTotpStep(SECRET, totpCode(SECRET, step + offset), now))
  assert.deepEqual(found, [null, step - 1, step, step + 1, null])
  for (const code of ['', '00000', '0000000', '٠١٢٣٤٥', totpCode(newTotpSecret(), step)])
    assert.equal(findTotpStep(SECRET, code, now), null)
})

test('the address for apps contains the issuer and account, escaped', () => {
  assert.equal(
    totpUri('GEZDGNBV', 'shop.example', 'ada+b@example.com'),
    'otpauth://totp/shop.example:ada%2Bb%40example.com?secret=GEZDGNBV&issuer=shop.example&algorithm=SHA1&digits=6&period=30',
  )
})
