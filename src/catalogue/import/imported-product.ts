import { Type } from 'typebox'
import { Compile } from 'typebox/schema'
import { ATTRIBUTES_RULE } from '../../attributes.ts'
import { countCodePoints } from '../../http/text-length.ts'
import { findOtherAmount } from '../../source-amounts.ts'
import { findContradiction, normalizeProduct, trim } from '../normalize-product.ts'
import {
  CATEGORIES_RULE,
  describeLength,
  IMAGES_RULE,
  identifier,
  MAX_STOCK,
  NAMES_CATEGORY,
  NewProductBody,
  type ProductInput,
  type TextName,
  withRule,
} from '../product-input.ts'
import { TRANSLATIONS_RULE } from '../translations.ts'

/** A product from a line of a catalogue file. */
export type ImportedProduct = ProductInput & {
  /** Units that are added, below 0 removed, instead of `stock`. A new product starts at 0. */
  stock_delta?: number
  /** Identifies the movement of `stock_delta`, which is booked once for each product. */
  reference?: string
  /** The price as another shop has written it, in major units; only compared with `price`. */
  source_price?: string
  /** The columns of a file with a header. An existing product keeps what they do not name. */
  columns?: ReadonlySet<string>
}

/** A line of a catalogue file, numbered from 1, with its product or the reason for its refusal. */
export type ImportLine = { line: number; product: ImportedProduct } | { line: number; error: string }

/** A line cannot be imported. The message is for the author of the file. */
export class InvalidLine extends Error {
  override readonly name = 'InvalidLine'
}

/** Line `line` with the product that `read` returns, or the reason when it throws InvalidLine. */
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
      stock_delta: Type.Optional(Type.Integer({ minimum: -MAX_STOCK, maximum: MAX_STOCK })),
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
 * null `stock` means not tracked; any other null means absent. Throws InvalidLine.
 */
export function readProduct(value: unknown): ImportedProduct {
  if (!isObject(value)) throw new InvalidLine('a product must be an object')
  const product = normalizeProduct(value as unknown as ImportedProduct)
  if (product.stock_delta === null) delete product.stock_delta
  if (product.reference === null) delete product.reference
  if (product.source_price === null) delete product.source_price
  if (product.reference !== undefined) product.reference = trim(product.reference)
  if (lineCheck.Check(product)) {
    const contradiction = findContradiction(product)
    if (contradiction === null) return product
    throw new InvalidLine(contradiction.detail)
  }
  throw new InvalidLine(explain(product))
}

const MUST_BE: Readonly<Record<string, string>> = {
  category: 'a text, unless there are categories',
  options: 'an object of texts',
  attributes: ATTRIBUTES_RULE,
  price: 'an object',
  'price.amount': `a whole number of minor units from 0 to ${Number.MAX_SAFE_INTEGER}`,
  'price.currency': 'an ISO 4217 code such as EUR',
  categories: CATEGORIES_RULE,
  images: IMAGES_RULE,
  compare_at_price: 'null or an object with an amount in minor units and a currency, as price',
  seo: 'an object with a title and a description, each null or a text of one line',
  translations: TRANSLATIONS_RULE,
  prices: 'a list of at most 50 objects with amount in minor units, currency and, if reduced, compare_at',
  stock: `null or a whole number from 0 to ${MAX_STOCK}`,
  stock_delta: `a whole number from ${-MAX_STOCK} to ${MAX_STOCK}`,
}

/** Explained as a whole, whatever of it is wrong. */
const WHOLE = ['categories', 'images', 'compare_at_price', 'seo', 'translations', 'prices']

function nameOf([property = '', ...rest]: readonly string[]): string {
  if (property === 'options' && rest.length > 0) return 'an option'
  if (property === 'images' && rest.length > 1) return `${rest[1]} of an image`
  // `seo_title` has the bounds of `seo.title`.
  if (property === 'translations' && rest.length > 1) return (rest[1] ?? '').replace('seo_', 'seo.')
  return [property, ...rest].join('.')
}

/** The first fault of a refused product. */
function explain(product: ImportedProduct): string {
  const unknown = explainUnknown('a product', product, LineSchema) ?? explainUnknown('price', product.price, LineSchema.properties.price)
  if (unknown !== null) return unknown
  const [, [error]] = lineCheck.Errors(product)
  if (error === undefined) return 'a product is not acceptable'
  const { keyword, instancePath, params, message } = error
  if (keyword === '~refine' && !message.startsWith('must have')) return message
  const missing = (params as { requiredProperties?: string[] }).requiredProperties?.[0]
  const path = [...instancePath.split('/').slice(1), ...(missing === undefined ? [] : [missing])]
  const [property = ''] = path
  if (property === 'attributes') return `attributes must be ${MUST_BE.attributes}`
  const name = nameOf(path)
  // A text that is too long or blank.
  if (keyword === '~refine' || keyword === 'pattern') return describeLength(name as TextName)
  if (WHOLE.includes(property)) return `${property} must be ${MUST_BE[property]}`
  return `${name} must be ${MUST_BE[name] ?? 'a text'}`
}

function explainUnknown(label: string, value: unknown, { properties }: { properties: object }): string | null {
  // Object.keys includes `__proto__`, which JSON.parse makes an ordinary property.
  const unknown = isObject(value) ? Object.keys(value).find((key) => !Object.hasOwn(properties, key)) : undefined
  return unknown === undefined ? null : `${label} has the unknown property ${quote(unknown)}`
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A name from the file that is safe to print: control characters escaped, long ones cut. */
export function quote(name: string): string {
  return JSON.stringify(name.length > 60 ? `${name.slice(0, 60)}…` : name).replace(/[\x7f-\x9f]/g, '?')
}
