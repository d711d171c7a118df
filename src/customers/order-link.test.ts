import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { createOrderLinks, ORDER_LINK_DAYS } from './order-link.ts'

const links = createOrderLinks('a secret for tests, long enough to be one')
const now = new Date('2026-03-04T18:05:00.000Z')
const ADDRESS = { name: 'Ada Lovelace', line1: '12 St James Square', city: 'London', postal_code: 'SW1Y 4JH', country: 'GB' }
const orderId = '01997a60-2b33-7e45-a1c8-6d0e9f7b3a55'
const recipient = { email: 'ada@example.com', shippingAddress: ADDRESS }
const link = { orderId, mailedAt: now, ...recipient }
const daysLater = (days: number) => new Date(now.getTime() + days * 86_400_000)

test('a link opens its order for its recipient, for 90 days', () => {
  const token = links.make(link)
  assert.match(token, /^[\w-]{64}$/)
  assert.equal(links.make({ ...link, shippingAddress: { ...ADDRESS } }), token, 'each attempt to send a mail has the same')
  const opened = links.open(token)
  assert.deepEqual([opened?.orderId, opened?.isFor(recipient), opened?.expiresAt], [orderId, true, daysLater(ORDER_LINK_DAYS)])
  assert.equal(opened?.holder, links.open(links.make({ ...link, mailedAt: daysLater(1) }))?.holder)
})

test("a link ends when the e-mail or delivery address changes, whatever the sequence of the address's members in the database", () => {
  const opened = links.open(links.make(link))
  assert.equal(
    opened?.isFor({ ...recipient, shippingAddress: Object.fromEntries(Object.entries(ADDRESS).reverse()) as typeof ADDRESS }),
    true,
  )
  for (const other of [
    { ...recipient, email: 'ada@example.org' },
    { ...recipient, shippingAddress: null },
    ...Object.keys(ADDRESS).map((name) => ({ ...recipient, shippingAddress: { ...ADDRESS, [name]: 'XX' } })),
    { ...recipient, shippingAddress: { ...ADDRESS, line2: 'Flat 2' } },
  ]) {
    assert.equal(opened?.isFor(other), false, JSON.stringify(other))
    assert.notEqual(opened?.holder, links.open(links.make({ ...link, ...other }))?.holder)
  }
})

test('a changed, cut, longer or mixed token, and a token of another secret, opens nothing', () => {
  const token = links.make(link)
  const bytes = Buffer.from(token, 'base64url')
  const otherToken = links.make({ ...link, orderId: randomUUID(), email: 'bob@example.com', mailedAt: daysLater(1) })
  const other = Buffer.from(otherToken, 'base64url')
  const forged: string[] = []
  for (const [index, byte] of bytes.entries()) {
    for (let value = 0; value < 256; value++) {
      if (value !== byte) forged.push(Buffer.from(bytes.with(index, value)).toString('base64url'))
    }
    const [head, rest] = [bytes.subarray(0, index), other.subarray(index)]
    if (index > 0) forged.push(Buffer.concat([head, rest]).toString('base64url'))
  }
  for (let length = 0; length < token.length; length++)
    forged.push(token.slice(0, length), token.slice(length + 1), `${token.slice(0, length)}%`)
  forged.push(`${token}A`, `${token}=`, ` ${token}`, token.replace(/./, '\u{1f381}'), bytes.toString('base64'), bytes.toString('hex'), '')
  for (let count = 0; count < 1_000; count++) forged.push(randomBytes(bytes.length).toString('base64url'))
  for (const secret of ['another secret for tests, long enough', '']) forged.push(createOrderLinks(secret).make(link))
  assert.ok(forged.length > 10_000, String(forged.length))
  assert.deepEqual(
    // A mixed token equals the other token when both begin with the same bytes.
    forged.filter((one) => one !== token && one !== otherToken && links.open(one) !== null),
    [],
  )
  assert.notEqual(links.open(token), null)
})

test('compares postal codes in the usual spellings, and an address without a code matches none', () => {
  for (const written of ['SW1Y 4JH', 'sw1y4jh', ' sw1y-4jh ', 'ＳＷ１Ｙ ４ＪＨ'])
    assert.equal(links.isPostalCodeOf(ADDRESS, written), true, written)
  for (const wrong of ['SW1Y 4J', 'SW1Y 4JHH', '4JH', '-', ' ']) assert.equal(links.isPostalCodeOf(ADDRESS, wrong), false, wrong)
  for (const address of [null, { ...ADDRESS, postal_code: null }, { ...ADDRESS, postal_code: '-' }])
    for (const code of ['SW1Y 4JH', '-', ' ', '']) assert.equal(links.isPostalCodeOf(address, code), false)
})

test('a postal code may have a country prefix, Arabic digits or the second part of a ZIP+4', () => {
  const same = [
    ['LV', 'LV-1010', '1010', 'lv 1010', 'LV1010'],
    ['DE', '10115', 'D-10115', 'DE-10115', 'd\u201310115', 'DE 10115'],
    ['US', '94105-1234', '94105', '941051234'],
    ['EG', '11511', '\u0661\u0661\u0665\u0661\u0661'],
    ['IR', '\u06f1\u06f1\u06f3\u06f5\u06f7', '11357'],
    ['FI', '00100', 'FIN-00100'],
  ]
  for (const [country = '', ...codes] of same) {
    for (const postal_code of codes)
      for (const typed of codes)
        assert.equal(links.isPostalCodeOf({ ...ADDRESS, country, postal_code }, typed), true, `${postal_code} ${typed}`)
  }
  const other = [
    ['SZ', 'H100', '100'],
    ['BM', 'HM 12', '12'],
    ['GB', 'E1 6AN', '16AN'],
    ['US', '94105-1234', '94106'],
    ['DE', '10115', 'A10115'],
  ]
  for (const [country = '', postal_code = '', typed = ''] of other)
    assert.equal(links.isPostalCodeOf({ ...ADDRESS, country, postal_code }, typed), false, typed)
})
