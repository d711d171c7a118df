import { Type } from 'typebox'
import { Compile } from 'typebox/schema'
import { countCodePoints } from '../../http/text-length.ts'
import { findOtherAmount } from '../../source-amounts.ts'
import { findContradiction, normalizeProduct, trim } from '../normalize-product.ts'
import { identifier, NAMES_CATEGORY, NewProductBody, type ProductInput, withRule } from '../product-input.ts'
import { describeLength, MAX_STOCK, MUST, type TextName } from '../product-rules.ts'

/** A product from a catalogue file's line. */
export type ImportedProduct = ProductInput & {
  /** Units to add, or to remove if negative, instead of `stock`. A new product starts at 0. */
  stock_delta?: number
  /** Identifies the movement of `stock_delta`, which is booked once for each product. */
  reference?: string
  /** Another shop's price in major units, only compared with `price`. */
  source_price?: string
  /** The file's columns, if it has a header. Existing products keep values without a column. */
  columns?: ReadonlySet<string>
}

/** A line of a catalogue file, numbered from 1, with its product or the reason for its refusal. */
export type ImportLine = { line: number; product: ImportedProduct } | { line: number; error: string }

/** A line cannot be imported. The message is for the file's author. */
export class InvalidLine extends Error {
  override readonly name = 'InvalidLine'
}

/** Line `line` with the product from `read`, or with the reason if it throws InvalidLine. */
export function importLine(line: number, read: () => ImportedProduct): ImportLine {
  try {
    return { line, product: read() }
  } catch (error) {
    if (error instanceof InvalidLine) return { line, error: error.message }
    throw error
  }
}

const LineSchema = withRule(
  Type.Object(
    {
      ...NewProductBody.properties,
      stock_delta: Type.Optional(Type.Integer({ minimum: -MAX_STOCK, maximum: MAX_STOCK, 'x-must': MUST.stock_delta })),
      reference: Type.Optional(identifier('reference')),
      source_price: Type.Optional(Type.String({ minLength: 1, maxLength: 60 })),
    },
    { ...NAMES_CATEGORY, additionalProperties: false },
  ),
  ({ stock, stock_delta, reference, price, source_price }) => {
    const faultInPrice = source_price === undefined ? null : findOtherAmount('price', source_price, price)
    if (faultInPrice !== null) return faultInPrice
    if (stock_delta !== undefined && stock !== undefined) return 'stock and stock_delta must not both be given'
    return stock_delta === undefined && reference !== undefined ? 'reference must come with a stock_delta' : null
  },
)
const lineCheck = Compile(countCodePoints(LineSchema))

/**
 * Parsed JSON as a product: the body of `POST /admin/products`, or `stock_delta` and `reference` in place of `stock`. A
 * null `stock` means not tracked; any other null means absent. `isWhole` is false for a file whose columns may omit
 * prices. Throws InvalidLine.
 */
export function readProduct(value: unknown, isWhole = true): ImportedProduct {
  if (!isObject(value)) throw new InvalidLine('a product must be an object')
  const product = normalizeProduct(value as unknown as ImportedProduct)
  if (product.stock_delta === null) delete product.stock_delta
  if (product.reference === null) delete product.reference
  if (product.source_price === null) delete product.source_price
  if (product.reference !== undefined) product.reference = trim(product.reference)
  if (lineCheck.Check(product)) {
    const contradiction = findContradiction(product, isWhole)
    if (contradiction === null) return product
    throw new InvalidLine(contradiction.detail)
  }
  throw new InvalidLine(explain(product))
}

/** The name of a text, for messages that refuse it. */
function nameOf([property = '', ...rest]: readonly string[]): string {
  if (property === 'options' && rest.length > 0) return 'an option'
  if (property === 'images' && rest.length > 1) return `${rest[1]} of an image`
  // `seo_title` has the limits of `seo.title`.
  if (property === 'translations' && rest.length > 1) return (rest[1] ?? '').replace('seo_', 'seo.')
  return [property, ...rest].join('.')
}

/** A refused product's first fault. */
function explain(product: ImportedProduct): string {
  const unknown = explainUnknown('a product', product, LineSchema) ?? explainUnknown('price', product.price, LineSchema.properties.price)
  if (unknown !== null) return unknown
  const [, [error]] = lineCheck.Errors(product)
  if (error === undefined) return 'a product is not acceptable'
  const { keyword, instancePath, params, message } = error
  if (keyword === '~refine' && !message.startsWith('must have')) return message
  const missing = (params as { requiredProperties?: string[] }).requiredProperties?.[0]
  const path = [...instancePath.split('/').slice(1), ...(missing === undefined ? [] : [missing])]
  const [property = '', member = ''] = path
  // The text is too long or blank.
  if (property !== 'attributes' && (keyword === '~refine' || keyword === 'pattern')) return describeLength(nameOf(path) as TextName)
  const { [property]: schema } = LineSchema.properties as Readonly<Record<string, object>>
  const { type, 'x-must': must = 'be a text', properties = {} }: Ruled = schema ?? {}
  const mustOfMember = properties[member]?.['x-must']
  if (mustOfMember !== undefined) return `${property}.${member} must ${mustOfMember}`
  if (property === 'category') return `category must ${MUST.category}`
  return `${property} must ${type === 'string' ? 'be a text' : must}`
}

/** A schema with the rule for authors of files. */
interface Ruled {
  type?: string
  'x-must'?: string
  properties?: Readonly<Record<string, Ruled>>
}

function explainUnknown(label: string, value: unknown, { properties }: { properties: object }): string | null {
  // Object.keys includes `__proto__`, which JSON.parse makes an ordinary property.
  const unknown = isObject(value) ? Object.keys(value).find((key) => !Object.hasOwn(properties, key)) : undefined
  return unknown === undefined ? null : `${label} has the unknown property ${quote(unknown)}`
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Makes a name from the file safe to print: escapes control characters and cuts long names. */
export function quote(name: string): string {
  return JSON.stringify(name.length > 60 ? `${name.slice(0, 60)}…` : name).replace(/[\x7f-\x9f]/g, '?')
}
