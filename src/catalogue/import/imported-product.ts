import { isCurrency, type Money } from '../../money.ts'

/** Pieces that a product can have in stock: far below 2^53, so that what orders give back on top of it is exact. */
export const MAX_STOCK = 1_000_000_000_000

/** A product as a line of a catalogue file gives it: checked, and ready to be stored. */
export interface ImportedProduct {
  /** 1 to 64 characters, the product's identity across imports. */
  sku: string
  /** 1 to 300 characters. */
  name: string
  /** At most 10,000 characters. */
  description: string
  /** 1 to 100 characters. */
  category: string
  /** http or https, at most 2,000 characters. */
  image_url: string | null
  /** 1 to 64 characters, common to the variants of one thing; null for a product without variants. */
  group: string | null
  /** What tells a variant from the others of its group, such as `{"size": "M"}`. At most 10. */
  options: Record<string, string>
  price: Money
  /** Pieces that can be sold; null: not tracked. Without it stock stays as it is, and that of a new product is not tracked. */
  stock?: number | null
  /** Instead of `stock`: pieces that came, or below 0 went. A new product starts at 0. */
  stock_delta?: number
  /** With `stock_delta`: 1 to 100 characters, the name of the movement. It is booked once for each product. */
  reference?: string
}

/** A line of a catalogue file, numbered from 1: the product it gives, or one reason why it gives none. */
export type ImportLine = { line: number; product: ImportedProduct } | { line: number; error: string }

/** Why a line cannot be imported, in words for whoever wrote the file. */
export class InvalidLine extends Error {
  override readonly name = 'InvalidLine'
}

/** What `read` makes of line `line`. */
export function importLine(line: number, read: () => ImportedProduct): ImportLine {
  try {
    return { line, product: read() }
  } catch (error) {
    if (error instanceof InvalidLine) return { line, error: error.message }
    throw error
  }
}

const PROPERTIES = ['sku', 'name', 'description', 'category', 'image_url', 'group', 'options', 'price', 'stock', 'stock_delta', 'reference']
const PRICE_PROPERTIES = ['amount', 'currency']

/**
 * `value`, parsed JSON, as a product: `{sku, name, description?, category, image_url?, group?, options?, price: {amount, currency}, stock?}`,
 * or `stock_delta` and `reference?` in the place of `stock`. Without `description` it is '', without `image_url` and `group` null.
 * Throws InvalidLine.
 */
export function readProduct(value: unknown): ImportedProduct {
  const product = readObject(value, 'a product', PROPERTIES)
  const price = readObject(product.price, 'price', PRICE_PROPERTIES)
  return {
    sku: readIdentifier(product.sku, 'sku', 64),
    name: readLabel(product.name, 'name', 300),
    description: readText(product.description ?? '', 'description', 0, 10_000),
    category: readLabel(product.category, 'category', 100),
    image_url: readImageUrl(product.image_url ?? null),
    group: (product.group ?? null) === null ? null : readLabel(product.group, 'group', 64),
    options: readOptions(product.options ?? {}),
    price: {
      amount: readWhole(price.amount, 'price.amount must be a whole number of minor units', Number.MAX_SAFE_INTEGER),
      currency: readCurrency(price.currency, 'price.currency'),
    },
    ...readStock(product),
  }
}

/** A null of `stock` has a meaning of its own; that of the others is as good as nothing. */
function readStock({
  stock,
  stock_delta,
  reference,
}: Record<string, unknown>): Pick<ImportedProduct, 'stock' | 'stock_delta' | 'reference'> {
  const isRelative = (stock_delta ?? null) !== null
  if (isRelative && stock !== undefined) throw new InvalidLine('stock and stock_delta must not both be given')
  if (!isRelative && (reference ?? null) !== null) throw new InvalidLine('reference must come with a stock_delta')
  if (stock !== undefined) return { stock: stock === null ? null : readWhole(stock, 'stock must be null or a whole number', MAX_STOCK) }
  if (!isRelative) return {}
  if (!Number.isSafeInteger(stock_delta) || Math.abs(stock_delta as number) > MAX_STOCK) {
    throw new InvalidLine(`stock_delta must be a whole number from ${-MAX_STOCK} to ${MAX_STOCK}`)
  }
  const relative = { stock_delta: stock_delta as number }
  return (reference ?? null) === null ? relative : { ...relative, reference: readIdentifier(reference, 'reference', 100) }
}

/** Throws InvalidLine unless `value` is an ISO 4217 code. */
export function readCurrency(value: unknown, label: string): string {
  if (typeof value !== 'string' || !isCurrency(value)) throw new InvalidLine(`${label} must be an ISO 4217 code such as EUR`)
  return value
}

function readObject(value: unknown, label: string, known: readonly string[]): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new InvalidLine(`${label} must be an object`)
  // Object.keys sees `__proto__` too: JSON.parse makes it a property like any other.
  const unknown = Object.keys(value).find((key) => !known.includes(key))
  if (unknown !== undefined) throw new InvalidLine(`${label} has the unknown property ${quote(unknown)}`)
  return value as Record<string, unknown>
}

/** Any of these makes two identifiers that look the same: direction marks, joiners, blanks without width, fillers. */
export const INVISIBLE = String.raw`\p{Cf}\p{Default_Ignorable_Code_Point}`
const HAS_INVISIBLE = new RegExp(`[${INVISIBLE}]`, 'u')
/** The Braille blank shows nothing either. */
const HAS_VISIBLE = new RegExp(String.raw`[^\s\p{Z}\p{Cc}\u2800${INVISIBLE}]`, 'u')

function readIdentifier(value: unknown, label: string, max: number): string {
  const text = readLabel(value, label, max)
  if (HAS_INVISIBLE.test(text)) throw new InvalidLine(`${label} must have no invisible characters`)
  return text
}

/** Text of one line, without the blanks around it. A line break in a name is most often a quote that was never closed. */
function readLabel(value: unknown, label: string, max: number): string {
  const text = readText(typeof value === 'string' ? value.trim() : value, label, 1, max)
  if (/\p{Cc}/u.test(text)) throw new InvalidLine(`${label} must have no control characters and no line breaks`)
  if (!HAS_VISIBLE.test(text)) throw new InvalidLine(`${label} must have a visible character`)
  return text
}

function readText(value: unknown, label: string, min: number, max: number): string {
  if (typeof value !== 'string') throw new InvalidLine(`${label} must be a text`)
  if (!value.isWellFormed()) throw new InvalidLine(`${label} has half of a surrogate pair, which is no character`)
  if (value.includes('\0')) throw new InvalidLine(`${label} has a NUL character`)
  // A character is one or two units of `length`: a text that is far too long is not counted.
  if (value.length < min || value.length > 2 * max || (value.length > max && [...value].length > max)) {
    throw new InvalidLine(`${label} must have ${min === 0 ? 'at most' : `${min} to`} ${max.toLocaleString('en')} characters`)
  }
  return value
}

const MAX_OPTIONS = 10

function readOptions(value: unknown): Record<string, string> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new InvalidLine('options must be an object of texts')
  const entries = Object.entries(value)
  if (entries.length > MAX_OPTIONS) throw new InvalidLine(`options must have at most ${MAX_OPTIONS} entries`)
  // Object.fromEntries makes `__proto__` a property like any other.
  return Object.fromEntries(
    entries.map(([name, text]) => [readLabel(name, 'the name of an option', 40), readLabel(text, 'an option', 100)]),
  )
}

function readImageUrl(value: unknown): string | null {
  if (value === null) return null
  const url = readText(value, 'image_url', 0, 2_000)
  if (!/^https?:\/\/[^\s\p{Cc}]+$/iu.test(url) || !URL.canParse(url)) {
    throw new InvalidLine('image_url must be an absolute URL that starts with https:// or http://')
  }
  return url
}

function readWhole(value: unknown, requirement: string, max: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0 || (value as number) > max) {
    throw new InvalidLine(`${requirement} from 0 to ${max}`)
  }
  return value as number
}

/** A name from the file that is safe to print: control characters escaped, long ones cut. */
export function quote(name: string): string {
  return JSON.stringify(name.length > 60 ? `${name.slice(0, 60)}…` : name).replace(/[\x7f-\x9f]/g, '?')
}
