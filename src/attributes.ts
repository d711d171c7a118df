import { type Static, type TSchema, Type } from 'typebox'

const MAX_ATTRIBUTES = 50
const MAX_VALUE_LENGTH = 500
const MAX_LIST = 50
const MAX_BYTES = 4_096
/** A letter first, so that no name is `__proto__`. */
export const ATTRIBUTE_NAME = '[A-Za-z][A-Za-z0-9_.-]{0,49}'
const KEY_PATTERN = `^${ATTRIBUTE_NAME}$`
const NAMES = 'names of 1 to 50 letters, digits, _ . and - that begin with a letter'

const Text = Type.String({ maxLength: MAX_VALUE_LENGTH })
const Value = Type.Union([Text, Type.Number({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }), Type.Boolean()])

/** `Type.Refine` is the last step, because a copy by spread would lose the rule. */
function inputOf<T extends TSchema>(value: T, title: string, must = {}) {
  const values = Type.Record(Type.String({ pattern: KEY_PATTERN }), value, {
    title,
    ...must,
    maxProperties: MAX_ATTRIBUTES,
    additionalProperties: false,
    // This keyword is for the OpenAPI document, which has no `patternProperties`.
    propertyNames: { type: 'string', pattern: KEY_PATTERN, 'x-must': `be ${NAMES}` },
    description: `The shop's own properties, with ${NAMES}. All together have at most ${MAX_BYTES} bytes as JSON.`,
  })
  return Type.Refine(
    values,
    (attributes) => findFault(attributes) === null,
    (attributes) => findFault(attributes) ?? '',
  )
}

/** The fault of attributes whose names and values are valid one by one, or null. */
export function findFaultInAttributes(attributes: object): string | null {
  return Object.keys(attributes).length > MAX_ATTRIBUTES ? `attributes must be at most ${MAX_ATTRIBUTES}` : findFault(attributes)
}

function findFault(attributes: object): string | null {
  for (const value of Object.values(attributes).flat()) {
    if (typeof value === 'string' && (!value.isWellFormed() || value.includes('\0')))
      return 'attributes must be well-formed Unicode without NUL'
  }
  return Buffer.byteLength(JSON.stringify(attributes)) <= MAX_BYTES ? null : `attributes must have at most ${MAX_BYTES} bytes as JSON`
}

export const AttributesInput = inputOf(Value, 'Attributes')

const ProductValue = Type.Union([...Value.anyOf, Type.Array(Text, { maxItems: MAX_LIST })])
const MUST = `be an object of at most ${MAX_ATTRIBUTES} texts of up to ${MAX_VALUE_LENGTH} characters, lists of them, numbers and booleans, with ${NAMES}`
/** Product attributes, by which lists can be filtered. A value may also be a list of texts. */
export const ProductAttributesInput = inputOf(ProductValue, 'ProductAttributes', { 'x-must': MUST })
/** A merge patch (RFC 7396) of product attributes: null removes an attribute. */
export const ProductAttributesPatch = inputOf(Type.Union([...ProductValue.anyOf, Type.Null()]), 'ProductAttributesChange')
export type ProductAttributes = Static<typeof ProductAttributesInput>

const shown = [Type.String(), Type.Number(), Type.Boolean()] as const
export const AttributesSchema = Type.Record(Type.String(), Type.Union([...shown]))
export const ProductAttributesSchema = Type.Record(Type.String(), Type.Union([...shown, Type.Array(Type.String())]))
