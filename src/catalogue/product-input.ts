import { type Static, type TSchema, Type } from 'typebox'
import { AttributesInput } from '../attributes.ts'
import { isCurrency } from '../currency.ts'
import { EXAMPLE_NEW_PRODUCT, EXAMPLE_PRODUCT_CHANGE } from './examples.ts'

/** Pieces that a product can have in stock: far below 2^53, so that what orders return on top of it is exact. */
export const MAX_STOCK = 1_000_000_000_000

export const Stock = Type.Union([Type.Integer({ minimum: 0, maximum: MAX_STOCK }), Type.Null()], {
  description: 'Pieces that can be sold; null: not tracked.',
})

/** Characters by which identifiers can differ and look the same: direction marks, joiners, zero-width blanks, fillers. */
export const INVISIBLE = String.raw`\p{Cf}\p{Default_Ignorable_Code_Point}`
const HAS_INVISIBLE = new RegExp(`[${INVISIBLE}]`, 'u')
/** The Braille blank shows nothing either. */
const HAS_VISIBLE = new RegExp(String.raw`[^\s\p{Z}\p{Cc}\u2800${INVISIBLE}]`, 'u')

const OPTION_NAME = 'the name of an option'
const MAX_LENGTHS = {
  ...{ sku: 64, name: 300, description: 10_000, category: 100, image_url: 2_000, group: 64, reference: 100 },
  ...{ 'an option': 100, [OPTION_NAME]: 40 },
}
export type TextName = keyof typeof MAX_LENGTHS
const MAX_OPTIONS = 10

/** The refusal of a text that is too long or blank. */
export function describeLength(name: TextName): string {
  const least = name === 'description' || name === 'image_url' ? 'at most' : '1 to'
  return `${name} must have ${least} ${MAX_LENGTHS[name].toLocaleString('en')} characters`
}

/** `schema` with a rule that JSON Schema cannot express. `findFault` returns the refusal, or null. */
export function withRule<T extends TSchema>(schema: T, findFault: (value: Static<T>) => string | null) {
  return Type.Refine(
    schema,
    (value) => findFault(value) === null,
    (value) => findFault(value) ?? '',
  )
}

function findFaultInText(name: TextName, text: string): string | null {
  if (!text.isWellFormed()) return `${name} has half of a surrogate pair, which is no character`
  return text.includes('\0') ? `${name} has a NUL character` : null
}

/** Checks a text of one line, without the blanks around it. A line break usually comes from a quote that was not closed. */
function findFaultInLabel(name: TextName, text: string): string | null {
  const trimmed = text.trim()
  const fault = findFaultInText(name, trimmed)
  if (fault !== null) return fault
  if (/\p{Cc}/u.test(trimmed)) return `${name} must have no control characters and no line breaks`
  return HAS_VISIBLE.test(trimmed) ? null : `${name} must have a visible character`
}

function findFaultInIdentifier(name: TextName, text: string): string | null {
  return findFaultInLabel(name, text) ?? (HAS_INVISIBLE.test(text.trim()) ? `${name} must have no invisible characters` : null)
}

function findFaultInOptions(options: Record<string, string>): string | null {
  const names = Object.keys(options).map((name) => name.trim())
  if (names.length > MAX_OPTIONS) return `options must have at most ${MAX_OPTIONS} entries`
  if (names.some((name) => name === '' || [...name].length > MAX_LENGTHS[OPTION_NAME])) return describeLength(OPTION_NAME)
  return names.map((name) => findFaultInLabel(OPTION_NAME, name)).find((fault) => fault !== null) ?? null
}

function findFaultInImageUrl(url: string): string | null {
  const isUrl = /^https?:\/\/[^\s\p{Cc}]+$/iu.test(url) && URL.canParse(url)
  return findFaultInText('image_url', url) ?? (isUrl ? null : 'image_url must be an absolute URL that starts with https:// or http://')
}

const VISIBLE = 'No control characters, and at least one visible character.'
const strict = { additionalProperties: false }
const oneLine = (name: TextName, description: string) =>
  Type.String({ minLength: 1, maxLength: MAX_LENGTHS[name], pattern: '\\S', description })
const label = (name: TextName) => withRule(oneLine(name, VISIBLE), (text) => findFaultInLabel(name, text))
export const identifier = (name: TextName) =>
  withRule(oneLine(name, 'No control characters and no invisible ones.'), (text) => findFaultInIdentifier(name, text))
const properties = {
  sku: identifier('sku'),
  name: label('name'),
  description: withRule(Type.String({ maxLength: MAX_LENGTHS.description }), (text) => findFaultInText('description', text)),
  category: label('category'),
  image_url: withRule(Type.Union([Type.String({ maxLength: MAX_LENGTHS.image_url }), Type.Null()]), (url) =>
    url === null ? null : findFaultInImageUrl(url),
  ),
  group: withRule(Type.Union([oneLine('group', VISIBLE), Type.Null()]), (group) =>
    group === null ? null : findFaultInLabel('group', group),
  ),
  // With a pattern for names, since Type.Record with a plain Type.String does not check names with a line break.
  options: withRule(Type.Record(Type.String({ pattern: '^[^]*$' }), label('an option')), findFaultInOptions),
  attributes: AttributesInput,
  price: Type.Object(
    {
      amount: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
      currency: withRule(Type.String(), (code) => (isCurrency(code) ? null : 'price.currency must be an ISO 4217 code such as EUR')),
    },
    strict,
  ),
}
const { description, image_url, group, options, attributes, ...required } = properties

export const NewProductBody = Type.Object(
  {
    ...required,
    description: Type.Optional(description),
    image_url: Type.Optional(image_url),
    group: Type.Optional(group),
    options: Type.Optional(options),
    attributes: Type.Optional(attributes),
    stock: Type.Optional(Stock),
  },
  { title: 'NewProduct', examples: [EXAMPLE_NEW_PRODUCT], ...strict },
)
export const ProductPatchBody = Type.Partial(Type.Object(properties), {
  title: 'ProductChange',
  examples: [EXAMPLE_PRODUCT_CHANGE],
  ...strict,
  minProperties: 1,
})

type NewProduct = Static<typeof NewProductBody>
/**
 * A product as an operator or a catalogue file describes it, ready to be stored. `sku` is its identity across imports; without `stock` the
 * stock stays as it is, and that of a new product is not tracked.
 */
export type ProductInput = Required<Omit<NewProduct, 'stock'>> & Pick<NewProduct, 'stock'>

/** `input` without blanks around its texts, and with '', null or {} for missing properties. Accepts input that has not been checked. */
export function normalizeProduct<T extends NewProduct>(input: T): T & ProductInput {
  return {
    ...input,
    sku: trim(input.sku),
    name: trim(input.name),
    description: input.description ?? '',
    category: trim(input.category),
    image_url: input.image_url ?? null,
    group: trim(input.group ?? null),
    options: trimOptions(input.options ?? {}),
    attributes: input.attributes ?? {},
  }
}

export function trim<T>(value: T): T {
  return typeof value === 'string' ? (value.trim() as T) : value
}

function trimOptions(options: Record<string, string>): Record<string, string> {
  if (typeof options !== 'object' || Array.isArray(options)) return options
  // Object.fromEntries makes `__proto__` a property like any other.
  return Object.fromEntries(Object.entries(options).map(([name, text]) => [name.trim(), trim(text)]))
}
