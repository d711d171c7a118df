import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { Type } from 'typebox'
import { AppError } from '../errors.ts'
import { decodeCursor, encodeCursor, nextLink, toPage } from './pagination.ts'

const Position = Type.Array(Type.Union([Type.String(), Type.Number()]))
const position = fc.array(fc.oneof(fc.string({ unit: 'grapheme' }), fc.integer(), fc.uuid()), { minLength: 1, maxLength: 4 })
const scope = fc.array(fc.oneof(fc.string({ unit: 'grapheme' }), fc.constant(null)), { maxLength: 4 })
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/. '

function assertRefused(ofScope: readonly unknown[], cursor: string, schema: typeof Position = Position): void {
  assert.throws(
    () => decodeCursor(ofScope, cursor, schema),
    (error) => error instanceof AppError && error.code === 'invalid_cursor' && error.details.errors?.[0]?.parameter === 'cursor',
    JSON.stringify(cursor),
  )
}

test('reads back the position that it wrote into a cursor', () => {
  fc.assert(
    fc.property(scope, position, (list, where) => {
      const cursor = encodeCursor(list, where)
      assert.match(cursor, /^[A-Za-z0-9_-]+$/)
      assert.deepEqual(decodeCursor(list, cursor, Position), where)
    }),
  )
})

test('refuses a cursor with any one character changed', () => {
  fc.assert(
    fc.property(scope, position, fc.nat(), fc.constantFrom(...ALPHABET), (list, where, at, character) => {
      const cursor = encodeCursor(list, where)
      const index = at % cursor.length
      fc.pre(cursor[index] !== character)
      assertRefused(list, cursor.slice(0, index) + character + cursor.slice(index + 1))
    }),
    { numRuns: 1_000 },
  )
})

test('refuses a cursor that is truncated or extended', () => {
  fc.assert(
    fc.property(scope, position, fc.constantFrom(...ALPHABET), (list, where, character) => {
      const cursor = encodeCursor(list, where)
      for (let length = 0; length < cursor.length; length++) assertRefused(list, cursor.slice(0, length))
      assertRefused(list, cursor + character)
      assertRefused(list, character + cursor)
    }),
    { numRuns: 50 },
  )
})

test('refuses the cursor of any other list, sort or filter', () => {
  fc.assert(
    fc.property(scope, scope, position, (list, other, where) => {
      fc.pre(JSON.stringify(list) !== JSON.stringify(other))
      assertRefused(other, encodeCursor(list, where))
    }),
  )
  assertRefused(['products', 'a', null], encodeCursor(['products', null, 'a'], ['x']))
})

test('refuses arbitrary text as a cursor', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => assertRefused(['products'], text)))
})

test('refuses a forged cursor with a valid tag if its position is not one of the list', () => {
  const list = ['products', 'name']
  const forge = (payload: string) => {
    const tag = createHash('sha256')
      .update(JSON.stringify([list, payload]))
      .digest()
      .subarray(0, 6)
    return Buffer.concat([tag, Buffer.from(payload)]).toString('base64url')
  }
  assert.deepEqual(decodeCursor(list, forge('["a"]'), Position), ['a'], 'the forgery itself is right')
  for (const payload of ['', '{', '[', 'undefined', '["a"', '{}', 'null', '"a"', '[null]', '[{}]', '[1e999]'])
    assertRefused(list, forge(payload))
})

test('has no next page after the last row', () => {
  const rows = [1, 2, 3]
  const page = (limit: number, from: number[]) => toPage(from.slice(0, limit + 1), limit, (row) => row, String)
  assert.deepEqual(page(2, rows), { data: [1, 2], has_more: true, next_cursor: '2' })
  assert.deepEqual(page(3, rows), { data: [1, 2, 3], has_more: false, next_cursor: null })
  assert.deepEqual(page(2, []), { data: [], has_more: false, next_cursor: null })
})

test('links to the next page with the same filters, percent-encoded', () => {
  assert.equal(nextLink('https://x.example/v1', '/products', { q: 'a' }, null), undefined)
  const link = nextLink('https://x.example/v1', '/products', { q: 'b>c"; d&é', limit: 2, cursor: 'old', sort: undefined }, 'new')
  const url = /^<([^<>\s"]+)>; rel="next"$/.exec(link ?? '')?.[1] ?? ''
  assert.ok(url.startsWith('https://x.example/v1/products?'), String(link))
  assert.deepEqual(Object.fromEntries(new URL(url).searchParams), { q: 'b>c"; d&é', limit: '2', cursor: 'new' })
  assert.equal(nextLink('https://x.example/v1', '/products', { q: '灯'.repeat(200) }, 'new'), undefined, 'longer than proxies accept')
})
