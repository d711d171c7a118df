import { isCurrency, minorDigits, parseMajorUnits } from '../../../client/src/currency.ts'
import type { Money } from '../../money.ts'
import { withoutGuard } from '../../spreadsheet-guard.ts'
import type { OfferedPrice } from '../offered-prices.ts'
import { MAX_STOCK, TRANSLATED_TEXTS } from '../product-rules.ts'
import type { Translations } from '../translations.ts'
import type { ByteLine } from './byte-lines.ts'
import { type CsvRecord, readRecords, type Unreadable, withSpan } from './csv-records.ts'
import { describeForeignExport } from './foreign-exports.ts'
import { type ImportedProduct, type ImportLine, InvalidLine, importLine, quote, readProduct } from './imported-product.ts'
import { assertNotLost, assertNotShortened, readDecimal } from './spreadsheet-cells.ts'

const COLUMNS = [
  'sku',
  'name',
  'description',
  'category',
  'image_url',
  'price',
  'currency',
  'stock',
  'group',
  'options',
  'attributes',
  'stock_delta',
  'reference',
  'slug',
  'brand',
  'compare_at_price',
  'images',
  'seo_title',
  'seo_description',
  'availability_text',
  'categories',
  'status',
  'published_at',
  'unpublished_at',
  'sale_prices',
] as const
const REQUIRED_COLUMNS = ['sku', 'name', 'category', 'price'] as const
/** The `stock` of a product without stock tracking. An empty cell leaves stock unchanged. */
export const NOT_TRACKED = 'untracked'

const SALE_EXAMPLE = 'list such as [{"amount": 990, "currency": "EUR", "until": "2026-12-01T08:00:00Z"}], with amounts in minor units'

/** The most header columns. Translated texts in a hundred languages and prices in every currency are fewer. */
const MAX_COLUMNS = 1_000

type Column = (typeof COLUMNS)[number]

/** Texts may contain anything, even a spreadsheet's error text. */
const TEXTS = /^(?:seo_)?description\b|^seo_title\b|^availability_text\b/

/** A price in a currency, such as `price:USD`, or the price before its reduction. */
const PRICE_COLUMN = /^(price|compare_at_price):([A-Z]{3})$/
/** A text in a language, such as `name:de`. */
const TRANSLATED_COLUMN = new RegExp(`^(${TRANSLATED_TEXTS.join('|')}):([A-Za-z0-9-]{1,35})$`)

/**
 * Reads CSV (RFC 4180), including variants that other countries' spreadsheets write. The header has COLUMNS in any
 * order and case, translated texts such as `name:de`, and prices such as `price:USD`. `price` and `compare_at_price`
 * are in major units of `currency`, by default `defaultCurrency`. `options` and `attributes` are JSON objects; `images`
 * is a list of objects, `categories` a list of slugs and paths of names, `sale_prices` a list with amounts in minor
 * units. An empty `stock` and `stock_delta` keep stock; NOT_TRACKED ends its tracking. A missing column keeps its
 * values, and an empty cell clears them. A record's line is its first.
 */
export async function* readCsv(lines: AsyncGenerator<ByteLine>, defaultCurrency: string): AsyncGenerator<ImportLine> {
  let header: Header | undefined
  for await (const record of readRecords(lines)) {
    const { line } = record
    if (header === undefined) {
      const read = readHeader(record)
      if ('error' in read) {
        // Records have no meaning without a header.
        yield read
        return
      }
      header = read
    } else if ('error' in record) {
      yield record
    } else if (record.fields.some((field) => field.trim() !== '')) {
      const names = header
      const read = importLine(line, () => readRow(names, record, defaultCurrency))
      yield 'error' in read ? { line, error: withSpan(read.error, line, record.lastLine) } : read
    }
  }
}

/** The columns, and their places in a record. */
interface Header {
  columns: ReadonlySet<string>
  /** The columns for rows whose `currency` is empty. */
  columnsWithoutCurrency: ReadonlySet<string>
  places: ReadonlyMap<string, number>
  translated: readonly { place: number; name: string; language: string }[]
  priced: readonly { place: number; column: string; kind: string; currency: string }[]
}

function readHeader(record: CsvRecord | Unreadable): Header | Unreadable {
  const { line } = record
  if ('error' in record) return record
  const columns = withoutEmptyEnd(record.fields.map((field) => toColumn(field.trim())))
  if (columns.length > MAX_COLUMNS) {
    return { line, error: `the header has ${columns.length} columns; at most ${MAX_COLUMNS.toLocaleString('en')} are read` }
  }
  const unknown = columns.find(
    (column) => !COLUMNS.includes(column as Column) && !TRANSLATED_COLUMN.test(column) && !PRICE_COLUMN.test(column),
  )
  if (unknown !== undefined)
    return {
      line,
      error:
        describeForeignExport(columns) ??
        `the header has the unknown column ${quote(unknown)}; known are ${COLUMNS.join(', ')}, translated texts such as name:de, and prices such as price:USD`,
    }
  const places = new Map(columns.map((column, place) => [column, place]))
  const twice = columns.find((column, place) => places.get(column) !== place)
  if (twice !== undefined) return { line, error: `the header has the column ${twice} twice` }
  const missing = REQUIRED_COLUMNS.filter((column) => !places.has(column) && !(column === 'category' && places.has('categories')))
  if (missing.length > 0) return { line, error: `the header lacks the column ${missing.join(', ')}` }
  const named = [...places]
  return {
    columns: new Set(columns),
    columnsWithoutCurrency: new Set(columns.filter((column) => column !== 'currency')),
    places,
    translated: named.flatMap(([column, place]) => {
      const [, name, language] = TRANSLATED_COLUMN.exec(column) ?? []
      return name === undefined || language === undefined ? [] : { place, name, language }
    }),
    priced: named.flatMap(([column, place]) => {
      const [, kind, currency] = PRICE_COLUMN.exec(column) ?? []
      return kind === undefined || currency === undefined ? [] : { place, column, kind, currency }
    }),
  }
}

/** Spreadsheets capitalize headers and write blanks. Currencies become upper case; language names stay. */
function toColumn(written: string): string {
  const [name = '', ...rest] = written.split(':')
  const known = name.toLowerCase().replace(/[\s-]+/g, '_')
  const suffix = /^(compare_at_)?price$/.test(known) ? rest.map((part) => part.toUpperCase()) : rest
  return [known, ...suffix].join(':')
}

/** Spreadsheets write every column that was ever used. */
function withoutEmptyEnd(fields: readonly string[]): string[] {
  return fields.slice(0, fields.findLastIndex((field) => field.trim() !== '') + 1)
}

function readRow(header: Header, record: CsvRecord, defaultCurrency: string): ImportedProduct {
  const { places } = header
  const { delimiter } = record
  const filled = withoutEmptyEnd(record.fields).length
  const fields = record.fields.slice(0, Math.max(places.size, filled)).map(withoutGuard)
  if (fields.length !== places.size) {
    throw new InvalidLine(`the record has ${fields.length} fields where the header has ${places.size}`)
  }
  for (const [column, place] of places) if (!TEXTS.test(column)) assertNotLost(column, fields[place] ?? '')
  const cell = (column: Column) => fields[places.get(column) ?? -1] ?? ''
  assertNotShortened('sku', cell('sku'))
  const trimmed = (column: Column) => cell(column).trim()
  const currency = trimmed('currency') || defaultCurrency
  if (!isCurrency(currency)) throw new InvalidLine('currency must be an ISO 4217 code such as EUR')
  const orNull = (column: Column) => trimmed(column) || null
  const reference = trimmed('reference')
  const properties = {
    sku: cell('sku'),
    name: cell('name'),
    description: cell('description'),
    category: places.has('category') && (trimmed('category') !== '' || trimmed('categories') === '') ? cell('category') : null,
    ...(trimmed('categories') === ''
      ? {}
      : { categories: readJson('categories', trimmed('categories'), 'list such as [["Men", "Shoes"], "sale"]') }),
    slug: orNull('slug'),
    brand: orNull('brand'),
    image_url: orNull('image_url'),
    ...(trimmed('images') === ''
      ? {}
      : { images: readJson('images', trimmed('images'), 'list such as [{"url": "https://…", "alt": "…"}]') }),
    group: orNull('group'),
    options: readJson('options', trimmed('options') || '{}', 'object such as {"size": "M"}'),
    attributes: readJson('attributes', trimmed('attributes') || '{}', 'object such as {"material": "wool"}'),
    price: readPrice('price', trimmed('price'), currency, delimiter),
    compare_at_price:
      trimmed('compare_at_price') === '' ? null : readPrice('compare_at_price', trimmed('compare_at_price'), currency, delimiter),
    seo: { title: orNull('seo_title'), description: orNull('seo_description') },
    availability_text: orNull('availability_text'),
    ...(places.has('status') ? { status: orNull('status') ?? 'active' } : {}),
    ...(places.has('published_at') ? { published_at: orNull('published_at') } : {}),
    ...(places.has('unpublished_at') ? { unpublished_at: orNull('unpublished_at') } : {}),
    ...(places.has('sale_prices') ? { sale_prices: readJson('sale_prices', trimmed('sale_prices') || '[]', SALE_EXAMPLE) } : {}),
    ...readTranslations(header, fields),
    ...readPrices(header, fields, delimiter),
    ...readStock(trimmed('stock'), trimmed('stock_delta')),
    ...(reference === '' ? {} : { reference }),
  }
  const product = readProduct(properties, false)
  return { ...product, columns: trimmed('currency') === '' ? header.columnsWithoutCurrency : header.columns }
}

/** Reads the translations; nothing if no column has one. */
function readTranslations({ translated }: Header, fields: readonly string[]): { translations?: Translations } {
  const translations: Translations = {}
  for (const { place, name, language } of translated) {
    translations[language] = { ...translations[language], [name]: fields[place] ?? '' }
  }
  return translated.length === 0 ? {} : { translations }
}

/** Reads the prices by currency; nothing if no column has one. */
function readPrices({ priced }: Header, fields: readonly string[], delimiter: string): { prices?: OfferedPrice[] } {
  const amounts = new Map<string, Map<string, number>>()
  for (const { place, column, kind, currency } of priced) {
    const text = (fields[place] ?? '').trim()
    if (text !== '')
      amounts.set(currency, (amounts.get(currency) ?? new Map()).set(kind, readPrice(column, text, currency, delimiter).amount))
  }
  const prices = [...amounts].map(([currency, of]) => {
    const amount = of.get('price')
    if (amount === undefined) throw new InvalidLine(`compare_at_price:${currency} must come with a price:${currency}`)
    return { amount, currency, compare_at: of.get('compare_at_price') ?? null }
  })
  return priced.length === 0 ? {} : { prices }
}

function readStock(stock: string, delta: string): { stock?: number | null; stock_delta?: number } {
  const isNotTracked = stock === NOT_TRACKED
  if (!isNotTracked && !/^\d{0,16}$/.test(stock)) {
    throw new InvalidLine(`stock must be empty, ${NOT_TRACKED} or a whole number from 0 to ${MAX_STOCK}, without separators`)
  }
  if (!/^([+-]?\d{1,16})?$/.test(delta)) throw new InvalidLine('stock_delta must be empty or a whole number such as 12 or -3')
  return {
    ...(stock === '' ? {} : { stock: isNotTracked ? null : Number(stock) }),
    ...(delta === '' ? {} : { stock_delta: Number(delta) }),
  }
}

function readPrice(column: string, text: string, currency: string, delimiter: string): Money {
  const amount = parseMajorUnits(readDecimal(column, text, delimiter) ?? '', currency)
  if (amount !== null) return { amount, currency }
  const limits = `at most ${minorDigits(currency)} decimals for ${currency}, not negative, below 2^53 minor units`
  throw new InvalidLine(`${column} must be a number such as 12.50, without a currency (${limits})`)
}

function readJson(column: Column, text: string, example: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new InvalidLine(`${column} must be empty or a JSON ${example}`)
  }
}
