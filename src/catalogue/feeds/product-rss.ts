import { createHash } from 'node:crypto'
import { formatMajorUnits } from '../../../client/src/currency.ts'
import type { Money } from '../../money.ts'
import type { SalePrice } from '../offered-prices.ts'
import type { ProductDetails } from '../product-details.ts'

// Bounds of Google's product data specification, in characters.
const MAX_TITLE = 150
const MAX_DESCRIPTION = 5_000
const MAX_BRAND = 70
const MAX_GROUP = 50
const MAX_PRODUCT_TYPE = 750
const MAX_PRODUCT_TYPES = 5
const MAX_ADDITIONAL_IMAGES = 10
/** Facts of the specification that are options or attributes with the same name, with their bounds. */
const FACTS: Readonly<Record<string, number>> = {
  ...{ mpn: 70, color: 100, size: 100, material: 200, pattern: 100 },
  google_product_category: 750,
}
/** Facts with a closed list of values. Readers refuse products with other values. */
const CLOSED_FACTS: Readonly<Record<string, readonly string[]>> = {
  gender: ['male', 'female', 'unisex'],
  age_group: ['newborn', 'infant', 'toddler', 'kids', 'adult'],
  condition: ['new', 'refurbished', 'used'],
}
const MAX_COLORS = 3
const GTIN_LENGTHS = [8, 12, 13, 14]

/** Returns the address of a product's page in the shop, in a language. */
export type LinkTo = (slug: string, language: string) => string

/** The start of an RSS 2.0 document with the namespace of Google's product data. `shopUrl` is the shop's address. */
export function rssHead(shopUrl: string): string {
  const host = new URL(shopUrl).host
  return `<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:g="http://base.google.com/ns/1.0">
<channel>
${element('title', host)}${element('link', shopUrl)}${element('description', `Products of ${host}`)}`
}

export const RSS_END = '</channel>\n</rss>\n'

/** A product as an RSS item of Google's product data specification. Missing parts are omitted. */
export function rssItem(product: ProductDetails, link: string, sales: readonly SalePrice[]): string {
  const { id, name, description, brand, group, images, in_stock } = product
  const [first, ...others] = images.map(({ url }) => url)
  const facts = { ...product.options, ...product.attributes }
  const gtin = readGtin(facts.gtin)
  return `<item>
${[
  element('g:id', id),
  element('title', cut(name, MAX_TITLE)),
  element('description', cut(withoutForbidden(description).trim() === '' ? name : description, MAX_DESCRIPTION)),
  element('link', link),
  ...(first === undefined ? [] : [element('g:image_link', asAddress(first))]),
  ...others.slice(0, MAX_ADDITIONAL_IMAGES).map((url) => element('g:additional_image_link', asAddress(url))),
  element('g:availability', in_stock ? 'in_stock' : 'out_of_stock'),
  ...priceElements(product, sales),
  ...(brand === null ? [] : [element('g:brand', cut(brand, MAX_BRAND))]),
  ...(gtin === null ? [] : [element('g:gtin', gtin)]),
  ...(group === null ? [] : [element('g:item_group_id', groupId(group))]),
  ...productTypes(product).map((type) => element('g:product_type', cut(type, MAX_PRODUCT_TYPE))),
  ...Object.entries(FACTS).flatMap(([fact, bound]) => {
    const value = fact === 'color' ? colorsOf(facts.color ?? facts.colour) : textOf(facts[fact])
    return [element(`g:${fact}`, cut(value, bound))]
  }),
  ...Object.entries(CLOSED_FACTS).flatMap(([fact, values]) => {
    const value = textOf(facts[fact]).toLowerCase()
    return values.includes(value) ? [element(`g:${fact}`, value)] : []
  }),
].join('')}</item>
`
}

/**
 * The price, the reduced price, and the time of a current sale. Future sales stay secret, because feeds are public. The
 * row decides which sale is current, because the entity tag contains the catalogue version, which does not change with
 * time.
 */
function priceElements({ price, compare_at_price: before, updated_at }: ProductDetails, sales: readonly SalePrice[]): string[] {
  if (before === null) return [element('g:price', amountOf(price))]
  const written = new Date(updated_at)
  const sale = sales.find(
    ({ amount, currency, from, until }) => amount === price.amount && currency === price.currency && isOn(from, until, written),
  )
  // Readers require both ends.
  const time = sale?.from && sale.until ? `${minuteOf(sale.from)}/${minuteOf(sale.until)}` : ''
  return [element('g:price', amountOf(before)), element('g:sale_price', amountOf(price)), element('g:sale_price_effective_date', time)]
}

function isOn(from: string | null, until: string | null, at: Date): boolean {
  return (from === null || new Date(from) <= at) && (until === null || new Date(until) > at)
}

function minuteOf(time: string): string {
  return `${time.slice(0, 'yyyy-mm-ddThh:mm'.length)}Z`
}

/** Characters that XML 1.0 forbids, even as references. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const FORBIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g
const REFERENCES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '\r': '&#13;' }

function withoutForbidden(text: string): string {
  return text.toWellFormed().replace(FORBIDDEN, '')
}

/** Omits an element whose text is empty after cleaning, because readers refuse empty elements. */
function element(name: string, text: string): string {
  const escaped = withoutForbidden(text).replace(/[&<>\r]/g, (character) => REFERENCES[character] ?? '')
  return escaped.trim() === '' ? '' : `<${name}>${escaped}</${name}>\n`
}

const graphemes = new Intl.Segmenter()

/** The start of `text` in at most `bound` UTF-16 units, without cutting a visible character. */
export function cut(text: string, bound: number): string {
  if (text.length <= bound) return text
  // The start of the character at the bound.
  const end = graphemes.segment(text.slice(0, bound + 1)).containing(bound)?.index ?? 0
  // A character with many marks can exceed the bound, so it is cut.
  return end > 0 ? text.slice(0, end) : text.slice(0, bound).replace(/[\ud800-\udbff]$/, '')
}

/** The categories with their ancestors. */
function productTypes({ categories, category }: ProductDetails): string[] {
  if (categories.length === 0) return [category]
  return categories.slice(0, MAX_PRODUCT_TYPES).map(({ path }) => path.map(({ name }) => name).join(' > '))
}

function amountOf(money: Money): string {
  return `${formatMajorUnits(money)} ${money.currency}`
}

/** The URL as browsers send it: letters of other scripts are percent-encoded. */
function asAddress(url: string): string {
  return URL.canParse(url) ? new URL(url).href : url
}

/** Long group names may differ only after the limit, so a hash keeps them apart. */
function groupId(group: string): string {
  if (group.length <= MAX_GROUP) return group
  const hash = createHash('sha256').update(group).digest('hex').slice(0, 16)
  return `${cut(group, MAX_GROUP - 17)}-${hash}`
}

function colorsOf(value: unknown): string {
  return textOf(value).split('/').slice(0, MAX_COLORS).join('/')
}

function textOf(value: unknown): string {
  return (Array.isArray(value) ? value.join('/') : typeof value === 'object' ? '' : String(value ?? '')).trim()
}

/**
 * A Global Trade Item Number with its check digit (GS1 General Specifications, 7.9). Null for other texts, which feed
 * readers refuse.
 */
function readGtin(value: unknown): string | null {
  const digits = textOf(value).replace(/[ -]/g, '')
  if (!/^\d+$/.test(digits) || !GTIN_LENGTHS.includes(digits.length)) return null
  const sum = [...digits].reverse().reduce((total, digit, place) => total + Number(digit) * (place % 2 === 1 ? 3 : 1), 0)
  return sum % 10 === 0 ? digits : null
}
