import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Type } from 'typebox'
import { Compile } from 'typebox/schema'
import { countCodePoints } from './text-length.ts'

const check = Compile(countCodePoints(Type.Object({ text: Type.String({ minLength: 2, maxLength: 4 }) })))
const accepts = (text: unknown) => check.Check({ text })

test('counts the length of a text in code points', () => {
  assert.deepEqual(['a', 'ab', 'abcd', 'abcde'].map(accepts), [false, true, true, false])
  assert.equal(accepts('𝄞'), false, 'one code point of two units')
  assert.equal(accepts('𝄞𝄞𝄞𝄞'), true, 'four code points of eight units')
  assert.equal(accepts('👨‍👩'), true, 'one grapheme cluster of three code points')
  assert.equal(accepts(`a${'\u0301'.repeat(4)}`), false, 'one grapheme cluster of five code points')
  assert.equal(accepts('a'.repeat(1_000_000)), false)
  assert.equal(accepts(['a', 'b']), false)
})

test('names the required length in the error', () => {
  assert.deepEqual(
    check.Errors({ text: 'a' })[1].map((error) => error.message),
    ['must have 2 to 4 characters'],
  )
})

test('distinguishes a property named maxLength from the keyword', () => {
  const schema = Compile(countCodePoints(Type.Object({ maxLength: Type.Integer(), minLength: Type.String({ maxLength: 1 }) })))
  assert.equal(schema.Check({ maxLength: 3, minLength: 'a' }), true)
  assert.equal(schema.Check({ maxLength: 3, minLength: 'ab' }), false)
  assert.equal(schema.Check({ maxLength: 'x', minLength: 'a' }), false)
})
