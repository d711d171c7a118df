import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type TSchema, Type } from 'typebox'
import type { FieldError } from '../errors.ts'
import { compileValidator } from './validation.ts'

const nullable = (schema: TSchema) => Type.Optional(Type.Union([schema, Type.Null()]))
const closed = { additionalProperties: false }
const Parcel = Type.Object({ carrier: Type.String({ minLength: 1 }), number: Type.String() }, closed)
const Body = Type.Object(
  {
    to: Type.Optional(Type.Enum(['confirmed', 'shipped'])),
    tracking: nullable(Parcel),
    parcels: nullable(Type.Array(Type.Union([Parcel, Type.Null()]))),
    kind: nullable(Type.Enum(['tax', 'fee'])),
    note: nullable(Type.String({ maxLength: 3 })),
    values: Type.Optional(Type.Record(Type.String(), Type.Union([Type.String({ maxLength: 3 }), Type.Number(), Type.Boolean()]))),
  },
  closed,
)
const check = compileValidator({ schema: Body, method: 'POST', url: '/', httpPart: 'body' })

function errorsOf(value: unknown): string[] {
  const { error } = check(value) as { error?: { details?: { errors?: FieldError[] } } }
  return (error?.details?.errors ?? []).map(({ pointer, detail }) => `${pointer} ${detail}`)
}

const cases: [name: string, value: unknown, errors: string[]][] = [
  ['a member that is missing', { tracking: { carrier: 'DHL' } }, ['#/tracking/number is required']],
  ['a type that is neither', { tracking: 5 }, ['#/tracking must be object or null']],
  [
    'several faults of one value',
    { tracking: { carrier: '', number: 3, x: 1 } },
    [...['#/tracking/x is not a known property', '#/tracking/carrier must have at least 1 characters', '#/tracking/number must be string']],
  ],
  [
    'values inside of values',
    { parcels: [null, { carrier: 'DHL' }, 3] },
    ['#/parcels/1/number is required', '#/parcels/2 must be object or null'],
  ],
  ['a text that is too long', { note: 'four' }, ['#/note must have at most 3 characters']],
  [
    'one of three types',
    { values: { a: 'four', b: [] } },
    [...['#/values/a must have at most 3 characters', '#/values/b must be string or number or boolean']],
  ],
  ['an unknown value', { to: 'sent' }, ['#/to must be one of confirmed, shipped']],
  ['an unknown value where null may be', { kind: 'x' }, ['#/kind must be one of tax, fee']],
]

for (const [name, value, errors] of cases) {
  test(`reports only helpful errors for ${name}`, () => assert.deepEqual(errorsOf(value), errors))
}

test('reports something for every refused value, whatever the number of its faults', () => {
  const flood = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`v${index}`, []]))
  for (const value of [{ values: flood }, { parcels: Array.from({ length: 40 }, () => 3) }, { tracking: flood }]) {
    const errors = errorsOf(value)
    assert.ok(errors.length > 0)
    assert.doesNotMatch(errors.join(), /anyOf|schema/)
  }
})
