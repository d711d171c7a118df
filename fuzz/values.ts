import fc from 'fast-check'
import type { Schema } from './contract.ts'
import type { Judge } from './judge.ts'

/**
 * Values for a property or parameter by its name, if its schema alone would seldom succeed. Undefined means no hint.
 */
export type Hint = (name: string, schema: Schema) => fc.Arbitrary<unknown> | undefined

/** Text that a database, a page, a header or a shell could interpret. */
export const FRAGMENTS = [
  "' or 1=1 --",
  "'; drop table orders; --",
  '(select 1 from users)',
  'limit 1 offset 0',
  '$1',
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  '{{token}}',
  '#{1+1}',
  '../../etc/passwd',
  '%00',
  '%s%n',
  '\\',
  '\\u0000',
  '"',
  'a, b; q=0',
  'W/"x"',
  'null',
  'true',
  'NaN',
  '0x10',
  '1e3',
  'ﬁ ǅ İ ß',
  'e\u0301\u0301\u0301',
  '👩‍👩‍👧‍👦🏳️‍🌈',
  '\u202eabc\u2066',
  '𝔘𝔫𝔦',
]

const LETTERS = [...'abcXYZ019 -_.äñ字🙂']

/** Text of visible characters whose length in code points is within the bounds. */
export function text(min = 0, max = 40): fc.Arbitrary<string> {
  const character = fc.constantFrom(...LETTERS)
  const usual = fc.array(character, { minLength: min, maxLength: Math.max(min, Math.min(max, min + 20)) })
  const bounds = [...new Set([min, max])].filter((length) => length <= 20_000)
  const atBound = fc.tuple(fc.constantFrom(...bounds), fc.constantFrom('x', 'é', '🙂')).map(([length, letter]) => [letter.repeat(length)])
  const fragments = FRAGMENTS.filter((fragment) => [...fragment].length >= min && [...fragment].length <= max)
  const arbitraries = [
    { arbitrary: usual.map((letters) => letters.join('')), weight: 6 },
    ...(bounds.length === 0 ? [] : [{ arbitrary: atBound.map(([value = '']) => value), weight: 1 }]),
    ...(fragments.length === 0 ? [] : [{ arbitrary: fc.constantFrom(...fragments), weight: 2 }]),
  ]
  return fc.oneof(...arbitraries)
}

function integer({ minimum = -1_000, maximum = 1_000 }: Schema): fc.Arbitrary<number> {
  return fc.oneof(
    { arbitrary: fc.integer({ min: minimum, max: Math.min(maximum, minimum + 5) }), weight: 6 },
    { arbitrary: fc.constantFrom(minimum, maximum), weight: 1 },
    { arbitrary: fc.integer({ min: minimum, max: maximum }), weight: 1 },
  )
}

const dateTime = fc
  .tuple(
    fc.date({ min: new Date('1970-01-01'), max: new Date('2100-01-01'), noInvalidDate: true }),
    fc.constantFrom('Z', '+02:00', '-11:30', 'z'),
  )
  .map(([date, offset]) => date.toISOString().replace(/(\.\d+)?Z$/, offset))

function string(schema: Schema, judge: Judge): fc.Arbitrary<string> {
  const { format, pattern, minLength, maxLength } = schema
  if (format === 'uuid')
    return fc.oneof(
      fc.uuid(),
      fc.uuid().map((id) => id.toUpperCase()),
    )
  if (format === 'date-time') return dateTime
  if (format === 'uri') return fc.webUrl()
  const plain = text(minLength, maxLength)
  if (pattern === undefined) return plain
  // Plain text comes first, because it has odd characters. The pattern generates a value if it refuses that text.
  const made = fc.stringMatching(new RegExp(pattern, 'u'), { size: 'small' })
  return fc
    .oneof(plain, made)
    .chain((value) => (judge.isOf(schema, value) ? fc.constant(value) : made.filter((other) => judge.isOf(schema, other))))
}

function object(schema: Schema, judge: Judge, hint: Hint): fc.Arbitrary<Record<string, unknown>> {
  const { properties = {}, propertyNames, required = [], additionalProperties, minProperties = 0, maxProperties = 3 } = schema
  const known = fc.record(
    Object.fromEntries(Object.entries(properties).map(([name, child]) => [name, valuesOf(child, judge, hint, name)])),
    { requiredKeys: required.filter((name) => name in properties), noNullPrototype: true },
  )
  const isOpen = typeof additionalProperties === 'object' && Object.keys(properties).length === 0
  if (isOpen) {
    const letters = fc.array(fc.constantFrom(...'abcdefg'), { minLength: 1, maxLength: 10 }).map((parts) => parts.join(''))
    const name =
      propertyNames === undefined
        ? letters
        : fc
            .oneof(
              letters,
              propertyNames.enum === undefined ? string(propertyNames, judge) : fc.constantFrom(...(propertyNames.enum as string[])),
            )
            .filter((each) => judge.isOf(propertyNames, each))
    return fc.dictionary(name, valuesOf(additionalProperties, judge, hint), { maxKeys: Math.min(maxProperties, 3), noNullPrototype: true })
  }
  return minProperties === 0 ? known : known.filter((value) => Object.keys(value).length >= minProperties)
}

/**
 * Values of a schema, by the keywords that the store's schemas use. Throws for other keywords, which must be added
 * here.
 */
export function valuesOf(schema: Schema, judge: Judge, hint: Hint, name = ''): fc.Arbitrary<unknown> {
  const hinted = hint(name, schema)
  if (hinted !== undefined) return hinted
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  if (schema.anyOf !== undefined) {
    const { anyOf, required = [], ...rest } = schema
    // The alternatives of an object differ only in their required properties.
    const members =
      schema.type === 'object'
        ? anyOf.map((member) => ({ ...rest, ...member, required: [...required, ...(member.required ?? [])] }))
        : anyOf
    return fc.oneof(...members.map((member) => valuesOf(member, judge, hint, name)))
  }
  switch (schema.type) {
    case 'string':
      return string(schema, judge)
    case 'integer':
      return integer(schema)
    case 'number':
      return fc.oneof(
        integer(schema),
        fc.double({ min: schema.minimum ?? -1e9, max: schema.maximum ?? 1e9, noNaN: true, noDefaultInfinity: true }),
      )
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array': {
      const { items = {}, minItems = 0, maxItems = 10 } = schema
      return fc.array(valuesOf(items, judge, hint), { minLength: minItems, maxLength: Math.min(maxItems, minItems + 3) })
    }
    case 'object':
      return object(schema, judge, hint)
    default:
      throw new Error(`the fuzzer makes no value of the schema ${JSON.stringify(schema)}`)
  }
}
