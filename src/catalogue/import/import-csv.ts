import { CsvError } from 'csv-parse'
import { parse } from 'csv-parse/sync'
import { isCurrency, minorDigits, parseMajorUnits } from '../../currency.ts'
import type { Money } from '../../money.ts'
import { TimeSlice } from '../../time-slice.ts'
import { MAX_STOCK } from '../product-input.ts'
import { assertUtf8, type ByteLine, isBlank, LINE_TOO_LONG, MAX_LINE_BYTES } from './byte-lines.ts'
import { type ImportedProduct, type ImportLine, InvalidLine, importLine, quote, readProduct } from './imported-product.ts'

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
] as const
const REQUIRED_COLUMNS = ['sku', 'name', 'category', 'price'] as const
/** The `stock` of a product whose stock is not tracked. An empty cell leaves stock unchanged. */
export const NOT_TRACKED = 'untracked'

type Column = (typeof COLUMNS)[number]

/**
 * Reads comma-separated values (RFC 4180) under a header of COLUMNS in any order. `price` is in major units of `currency`, by default
 * `defaultCurrency`, as is `compare_at_price`; `options` and `attributes` are JSON objects, `images` a list of them. An empty `stock` and `stock_delta` leave stock unchanged; NOT_TRACKED ends its tracking.
 * The line of a record is its first.
 */
export async function* readCsv(lines: AsyncGenerator<ByteLine>, defaultCurrency: string): AsyncGenerator<ImportLine> {
  let columns: Column[] | undefined
  for await (const record of readRecords(lines)) {
    const { line } = record
    if (columns === undefined) {
      const header = readHeader(record)
      if ('error' in header) {
        // Without a header the records have no meaning.
        yield header
        return
      }
      columns = header.columns
    } else if ('error' in record) {
      yield record
    } else {
      const names = columns
      const read = importLine(line, () => readRow(names, record.fields, defaultCurrency))
      yield 'error' in read ? { line, error: withSpan(read.error, line, record.lastLine) } : read
    }
  }
}

// Reports all lines of the record: a stray quote may have joined good lines to it.
function withSpan(reason: string, line: number, lastLine: number): string {
  return lastLine > line ? `${reason} (lines ${line} to ${lastLine})` : reason
}

function readHeader(record: CsvRecord | Unreadable): { columns: Column[] } | Unreadable {
  const { line } = record
  if ('error' in record) return record
  const columns = record.fields.map((field) => field.trim())
  const unknown = columns.find((column) => !COLUMNS.includes(column as Column))
  if (unknown !== undefined) return { line, error: `the header has the unknown column ${quote(unknown)}; known are ${COLUMNS.join(', ')}` }
  const twice = columns.find((column, index) => columns.indexOf(column) !== index)
  if (twice !== undefined) return { line, error: `the header has the column ${twice} twice` }
  const missing = REQUIRED_COLUMNS.filter((column) => !columns.includes(column))
  if (missing.length > 0) return { line, error: `the header lacks the column ${missing.join(', ')}` }
  return { columns: columns as Column[] }
}

function readRow(columns: readonly Column[], fields: readonly string[], defaultCurrency: string): ImportedProduct {
  if (fields.length !== columns.length) {
    throw new InvalidLine(`the record has ${fields.length} fields where the header has ${columns.length}`)
  }
  const cell = (column: Column) => fields[columns.indexOf(column)] ?? ''
  const trimmed = (column: Column) => cell(column).trim()
  const currency = trimmed('currency') || defaultCurrency
  if (!isCurrency(currency)) throw new InvalidLine('currency must be an ISO 4217 code such as EUR')
  const orNull = (column: Column) => trimmed(column) || null
  const reference = trimmed('reference')
  return readProduct({
    sku: cell('sku'),
    name: cell('name'),
    description: cell('description'),
    category: cell('category'),
    slug: orNull('slug'),
    brand: orNull('brand'),
    image_url: orNull('image_url'),
    ...(trimmed('images') === ''
      ? {}
      : { images: readJson('images', trimmed('images'), 'list such as [{"url": "https://…", "alt": "…"}]') }),
    group: orNull('group'),
    options: readJson('options', trimmed('options') || '{}', 'object such as {"size": "M"}'),
    attributes: readJson('attributes', trimmed('attributes') || '{}', 'object such as {"material": "wool"}'),
    price: readPrice('price', trimmed('price'), currency),
    compare_at_price: trimmed('compare_at_price') === '' ? null : readPrice('compare_at_price', trimmed('compare_at_price'), currency),
    seo: { title: orNull('seo_title'), description: orNull('seo_description') },
    availability_text: orNull('availability_text'),
    ...readStock(trimmed('stock'), trimmed('stock_delta')),
    ...(reference === '' ? {} : { reference }),
  })
}

function readStock(stock: string, delta: string): { stock?: number | null; stock_delta?: number } {
  const isNotTracked = stock === NOT_TRACKED
  if (!isNotTracked && !/^\d{0,16}$/.test(stock)) {
    throw new InvalidLine(`stock must be empty, ${NOT_TRACKED} or a whole number from 0 to ${MAX_STOCK}`)
  }
  if (!/^([+-]?\d{1,16})?$/.test(delta)) throw new InvalidLine('stock_delta must be empty or a whole number such as 12 or -3')
  return {
    ...(stock === '' ? {} : { stock: isNotTracked ? null : Number(stock) }),
    ...(delta === '' ? {} : { stock_delta: Number(delta) }),
  }
}

function readPrice(column: Column, text: string, currency: string): Money {
  const amount = parseMajorUnits(text, currency)
  if (amount !== null) return { amount, currency }
  const limits = `at most ${minorDigits(currency)} decimals for ${currency}, not negative, below 2^53 minor units`
  throw new InvalidLine(`${column} must be a number such as 12.50 (${limits})`)
}

function readJson(column: Column, text: string, example: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new InvalidLine(`${column} must be empty or a JSON ${example}`)
  }
}

interface CsvRecord {
  line: number
  lastLine: number
  fields: string[]
}
interface Unreadable {
  line: number
  error: string
}

class BrokenQuote extends InvalidLine {}

/**
 * Joins lines to records and parses those one at a time. Over a whole file csv-parse would stop at a long record, lose the good lines after a
 * stray quote, and count a quoted CRLF as two lines.
 */
async function* readRecords(lines: AsyncGenerator<ByteLine>): AsyncGenerator<CsvRecord | Unreadable> {
  const waiting: ByteLine[] = []
  const slice = new TimeSlice()
  const take = async (): Promise<ByteLine | undefined> => {
    // Lines that wait come without a pause, and there can be a hundred thousand of them.
    if (slice.isOver) await slice.next()
    return waiting.pop() ?? (await lines.next()).value
  }
  try {
    for (let first = await take(); first !== undefined; first = await take()) {
      if (isBlank(first)) continue
      const record = await takeRecord(first, take)
      const lastLine = first.line + record.length - 1
      try {
        const fields = parseRecord(record)
        yield { line: first.line, lastLine, fields }
      } catch (error) {
        if (!(error instanceof InvalidLine)) throw error
        if (error instanceof BrokenQuote) {
          // A stray quote may have joined good lines: only the line that has it is skipped.
          for (const line of record.slice(1).reverse()) waiting.push(line)
          yield { line: first.line, error: error.message }
        } else {
          yield { line: first.line, error: withSpan(error.message, first.line, lastLine) }
        }
      }
    }
  } finally {
    await lines.return(undefined)
  }
}

/** The lines of one record, which ends at the first line end after an even number of quotes. */
async function takeRecord(first: ByteLine, take: () => Promise<ByteLine | undefined>): Promise<ByteLine[]> {
  const record = [first]
  let sizeBytes = first.bytes?.length ?? 0
  let isOpen = hasOddQuotes(first)
  while (isOpen && sizeBytes <= MAX_LINE_BYTES) {
    const next = await take()
    if (next === undefined) break
    record.push(next)
    sizeBytes += (next.bytes?.length ?? MAX_LINE_BYTES) + 1
    if (hasOddQuotes(next)) isOpen = false
  }
  return record
}

function hasOddQuotes({ bytes }: ByteLine): boolean {
  let isOdd = false
  for (let at = bytes?.indexOf('"') ?? -1; bytes !== null && at !== -1; at = bytes.indexOf('"', at + 1)) isOdd = !isOdd
  return isOdd
}

function parseRecord(record: readonly ByteLine[]): string[] {
  const [first] = record
  if (first?.bytes === null) throw new InvalidLine(LINE_TOO_LONG)
  const parts = record.map(({ bytes }) => bytes)
  if (!parts.every((bytes) => bytes !== null)) throw new BrokenQuote(QUOTE_NOT_CLOSED)
  const fields = parseFields(parts.map((bytes) => bytes.toString('utf8')).join('\n'))
  // After parsing: an error of quotes decides which lines belong to the record.
  parts.forEach(assertUtf8)
  return fields
}

function parseFields(text: string): string[] {
  try {
    const [fields = []] = parse(text.endsWith('\r') ? text.slice(0, -1) : text, { record_delimiter: ['\r\n', '\n'] })
    return fields
  } catch (error) {
    if (error instanceof CsvError) throw new BrokenQuote(QUOTE_FAULTS[error.code] ?? `the record is not valid CSV (${error.code})`)
    throw error
  }
}

const QUOTE_NOT_CLOSED = 'a quote is opened and not closed, at least not within 1 MiB'
const QUOTE_FAULTS: Readonly<Record<string, string>> = {
  INVALID_OPENING_QUOTE: 'a quote stands inside a field that is not quoted',
  CSV_INVALID_CLOSING_QUOTE: 'after the quote that closes a field comes neither a comma nor the end of the line',
  CSV_QUOTE_NOT_CLOSED: QUOTE_NOT_CLOSED,
}
