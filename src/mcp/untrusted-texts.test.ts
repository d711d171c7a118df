import assert from 'node:assert/strict'
import { test } from 'node:test'
import { untrustedPaths, wordsOf } from './untrusted-texts.ts'

const enumeration = { anyOf: [{ enum: ['partially_refunded'] }, { type: 'null' }] }
const names = [
  'data',
  'id',
  'number',
  'status',
  'note',
  'at',
  'currency',
  'country',
  'total',
  'name',
  'is_preview',
  'attributes',
  'lists',
  'long',
]
const properties = Object.fromEntries([...names, 'word'].map((name) => [name, name === 'status' ? enumeration : {}]))
const words = wordsOf({ type: 'object', properties })

test('names every text that can contain a sentence, once for all elements of a list', () => {
  const answer = {
    data: [
      { id: '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b01', number: '100001', status: 'partially_refunded', note: 'Ring twice' },
      { at: '2026-11-28T10:00:00.000Z', currency: 'EUR', country: 'GB', total: 5, note: null, name: 'Ada', is_preview: true },
    ],
    attributes: { cancel_all_orders_now: 'x', name: 'dark red' },
    lists: [['Ä'], []],
    word: 'cancel_all_orders',
    long: 'a'.repeat(41),
  }
  assert.deepEqual(untrustedPaths(answer, words), [
    'data[].note',
    'data[].name',
    'attributes.*',
    'attributes.name',
    'lists[][]',
    'word',
    'long',
  ])
  assert.deepEqual(untrustedPaths(undefined, words), [])
  assert.deepEqual(untrustedPaths('Hello', words), [''])
})

test('an answer with very many such texts is untrusted as a whole', () => {
  const many = Object.fromEntries(Array.from({ length: 201 }, (_, index) => [`member_${index}`, 'A text']))
  const members = Object.fromEntries(Object.keys(many).map((name) => [name, {}]))
  assert.deepEqual(untrustedPaths(many, wordsOf({ properties: members })), ['*'])
})
