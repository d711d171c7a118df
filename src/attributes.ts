import { type Static, Type } from 'typebox'

const MAX_ATTRIBUTES = 50
const MAX_VALUE_LENGTH = 500
/** Of all attributes together, as JSON in UTF-8. */
const MAX_BYTES = 4_096
/** A letter first, so that no name is `__proto__`. */
const KEY_PATTERN = '^[A-Za-z][A-Za-z0-9_.-]{0,49}$'
const NAMES = 'names of 1 to 50 letters, digits, _ . and - that begin with a letter'

const Values = Type.Record(
  Type.String({ pattern: KEY_PATTERN }),
  Type.Union([
    Type.String({ maxLength: MAX_VALUE_LENGTH }),
    Type.Number({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
    Type.Boolean(),
  ]),
  {
    title: 'Attributes',
    maxProperties: MAX_ATTRIBUTES,
    additionalProperties: false,
    // For the OpenAPI document, which has no `patternProperties`.
    propertyNames: { type: 'string', pattern: KEY_PATTERN },
    description: `Facts for the shop's own programs, with ${NAMES}; all together at most ${MAX_BYTES} bytes as JSON.`,
  },
)

/** A few facts that the shop's own programs keep with a thing: names with texts, numbers and booleans. The store does not interpret them. */
export type Attributes = Static<typeof Values>

/** The reason for refusing attributes that have the right shape, null for none. */
function findFault(attributes: Attributes): string | null {
  for (const value of Object.values(attributes)) {
    if (typeof value === 'string' && (!value.isWellFormed() || value.includes('\0')))
      return 'attributes must be well-formed Unicode without NUL'
  }
  return Buffer.byteLength(JSON.stringify(attributes)) <= MAX_BYTES ? null : `attributes must have at most ${MAX_BYTES} bytes as JSON`
}

/** As requests have them. A copy by spread would lose the rule. */
export const AttributesInput = Type.Refine(
  Values,
  (attributes) => findFault(attributes) === null,
  (attributes) => findFault(attributes) ?? '',
)

/** As answers and events have them: the bounds may grow. */
export const AttributesSchema = Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean()]))

/** What attributes must be, for the author of a file. */
export const ATTRIBUTES_RULE = `an object of at most ${MAX_ATTRIBUTES} texts of up to ${MAX_VALUE_LENGTH} characters, numbers and booleans, with ${NAMES}`
