import { CsvError } from 'csv-parse'
import { parse } from 'csv-parse/sync'
import { TimeSlice } from '../../time-slice.ts'
import { assertUtf8, type ByteLine, isBlank, LINE_TOO_LONG, MAX_LINE_BYTES } from './byte-lines.ts'
import { InvalidLine } from './imported-product.ts'
import { SAVE_AS_UTF8 } from './spreadsheet-bytes.ts'

export interface CsvRecord {
  line: number
  lastLine: number
  fields: string[]
  /** The separator of fields: a comma, or another one that some countries' spreadsheets write. */
  delimiter: string
}
export interface Unreadable {
  line: number
  error: string
}

class BrokenQuote extends InvalidLine {}

const DELIMITERS = [',', ';', '\t', '|']
/** A line by which Excel names the delimiter. */
const NAMED_DELIMITER = /^"?sep=(.)"?\r?$/i

/**
 * Joins lines to records and parses each alone. Parsing a whole file, csv-parse would stop at a long record, lose good
 * lines after a stray quote, and count a quoted CRLF as two lines. The first record decides the file's delimiter.
 */
export async function* readRecords(lines: AsyncGenerator<ByteLine>): AsyncGenerator<CsvRecord | Unreadable> {
  const waiting: ByteLine[] = []
  let delimiter: string | undefined
  const slice = new TimeSlice()
  const take = async (): Promise<ByteLine | undefined> => {
    // Waiting lines arrive without a pause, and there can be a hundred thousand.
    if (slice.isOver) await slice.next()
    return waiting.pop() ?? (await lines.next()).value
  }
  try {
    for (let first = await take(); first !== undefined; first = await take()) {
      if (isBlank(first)) continue
      const [, named] = (delimiter === undefined && NAMED_DELIMITER.exec(first.bytes?.toString('utf8') ?? '')) || []
      if (named !== undefined) {
        delimiter = named
        continue
      }
      const record = await takeRecord(first, take)
      const lastLine = first.line + record.length - 1
      try {
        const text = textOf(record)
        delimiter ??= findDelimiter(text)
        const fields = parseFields(text, delimiter)
        // Checked after parsing, because a quote error decides which lines belong to the record.
        for (const { bytes } of record) if (bytes !== null) assertUtf8(bytes, SAVE_AS_UTF8)
        yield { line: first.line, lastLine, fields, delimiter }
      } catch (error) {
        if (!(error instanceof InvalidLine)) throw error
        if (error instanceof BrokenQuote) {
          // A stray quote may have joined good lines, so only its own line is skipped.
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

/** Names all lines of the record, because a stray quote may have joined good lines to it. */
export function withSpan(reason: string, line: number, lastLine: number): string {
  return lastLine > line ? `${reason} (lines ${line} to ${lastLine})` : reason
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

function textOf(record: readonly ByteLine[]): string {
  const [first] = record
  if (first?.bytes === null) throw new InvalidLine(LINE_TOO_LONG)
  const parts = record.map(({ bytes }) => bytes)
  if (!parts.every((bytes) => bytes !== null)) throw new BrokenQuote(QUOTE_NOT_CLOSED)
  return parts.map((bytes) => bytes.toString('utf8')).join('\n')
}

/** The delimiter that splits a header into most fields. */
function findDelimiter(header: string): string {
  const counted = DELIMITERS.map((delimiter) => ({ delimiter, fields: countFields(header, delimiter) }))
  return counted.reduce((best, one) => (one.fields > best.fields ? one : best)).delimiter
}

function countFields(header: string, delimiter: string): number {
  try {
    return parseFields(header, delimiter).length
  } catch (error) {
    if (error instanceof BrokenQuote) return 0
    throw error
  }
}

function parseFields(text: string, delimiter: string): string[] {
  try {
    const [fields = []] = parse(text.endsWith('\r') ? text.slice(0, -1) : text, { delimiter, record_delimiter: ['\r\n', '\n'] })
    return fields
  } catch (error) {
    if (error instanceof CsvError) throw new BrokenQuote(QUOTE_FAULTS[error.code] ?? `the record is not valid CSV (${error.code})`)
    throw error
  }
}

const QUOTE_NOT_CLOSED = 'a quote is opened and not closed, at least not within 1 MiB'
const QUOTE_FAULTS: Readonly<Record<string, string>> = {
  INVALID_OPENING_QUOTE: 'a quote stands inside a field that is not quoted',
  CSV_INVALID_CLOSING_QUOTE: 'after the quote that closes a field comes neither a delimiter nor the end of the line',
  CSV_QUOTE_NOT_CLOSED: QUOTE_NOT_CLOSED,
}
