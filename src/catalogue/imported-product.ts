import { isCurrency } from '../currency.ts'
import type { Price } from './price-text.ts'

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
  price: Price
  /** Pieces that can be sold; null means that stock is not tracked. */
  stock: number | null
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

const PROPERTIES = ['sku', 'name', 'description', 'category', 'image_url', 'group', 'options', 'price', 'stock']
const PRICE_PROPERTIES = ['amount', 'currency']

/**
 * `value`, parsed JSON, as a product: `{sku, name, description?, category, image_url?, group?, options?, price: {amount, currency}, stock?}`.
 * Without `description` it is '', without `image_url` and `group` null, without `stock` not tracked. Throws InvalidLine.
 */
export function readProduct(value: unknown): ImportedProduct {
  const product = readObject(value, 'a product', PROPERTIES)
  const price = readObject(product.price, 'price', PRICE_PROPERTIES)
  return {
    sku: readLabel(product.sku, 'sku', 64),
    name: readLabel(product.name, 'name', 300),
    description: readText(product.description ?? '', 'description', 0, 10_000),
    category: readLabel(product.category, 'category', 100),
    image_url: readImageUrl(product.image_url ?? null),
    group: (product.group ?? null) === null ? null : readLabel(product.group, 'group', 64),
    options: readOptions(product.options ?? {}),
    price: {
      amount: readWhole(price.amount, 'price.amount must be a whole number of minor units'),
      currency: readCurrency(price.currency, 'price.currency'),
    },
    stock: (product.stock ?? null) === null ? null : readWhole(product.stock, 'stock must be null or a whole number'),
  }
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

/** Text of one line, without the blanks around it. A line break in a name is most often a quote that was never closed. */
function readLabel(value: unknown, label: string, max: number): string {
  const text = readText(typeof value === 'string' ? value.trim() : value, label, 1, max)
  if (/\p{Cc}/u.test(text)) throw new InvalidLine(`${label} must have no control characters and no line breaks`)
  return text
}

function readText(value: unknown, label: string, min: number, max: number): string {
  if (typeof value !== 'string') throw new InvalidLine(`${label} must be a text`)
  if (!value.isWellFormed()) throw new InvalidLine(`${label} has half of a surrogate pair, which is no character`)
  if (value.includes('\0')) throw new InvalidLine(`${label} has a NUL character`)
  if (value.length < min || (value.length > max && [...value].length > max)) {
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

function readWhole(value: unknown, requirement: string): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0) {
    throw new InvalidLine(`${requirement} from 0 to ${Number.MAX_SAFE_INTEGER}`)
  }
  return value as number
}

/** A name from the file that is safe to print: control characters escaped, long ones cut. */
export function quote(name: string): string {
  return JSON.stringify(name.length > 60 ? `${name.slice(0, 60)}…` : name).replace(/[\x7f-\x9f]/g, '?')
}
