import { extname } from 'node:path'
import { findExcess } from '../../http/json-limits.ts'
import { type ByteLine, decode, isBlank, splitLines } from './byte-lines.ts'
import { readCsv } from './import-csv.ts'
import { type ImportLine, InvalidLine, importLine, readProduct } from './imported-product.ts'
import { SeenSkus } from './seen-skus.ts'
import { toUtf8Lines } from './spreadsheet-bytes.ts'

export type ImportFormat = 'ndjson' | 'csv'

export interface ImportOptions {
  /**
   * The format. By default the extension of `fileName` decides (.ndjson, .jsonl, .csv), otherwise whether the file
   * begins with `{`.
   */
  format?: ImportFormat | undefined
  fileName?: string | undefined
  /** The currency (ISO 4217) of CSV records without one. */
  currency: string
  /** The encoding of a file without a byte order mark, by its TextDecoder label. The default is UTF-8. */
  encoding?: string | undefined
}

const FORMATS: Readonly<Record<string, ImportFormat>> = { '.ndjson': 'ndjson', '.jsonl': 'ndjson', '.csv': 'csv', '.tsv': 'csv' }

/**
 * Reads a catalogue file by line. Each line that is not blank yields a product, or the reason why it is none. A
 * repeated sku is its line's error. Throws only errors of `source`. Memory: one line, and a digest of each sku.
 */
export async function* readImportLines(source: AsyncIterable<Uint8Array>, options: ImportOptions): AsyncGenerator<ImportLine> {
  const seen = new SeenSkus()
  const text = toUtf8Lines(source, options.encoding)
  for await (const read of readLines(splitLines(text, { skipsBlank: options.format === 'ndjson' }), options)) {
    const earlier = 'product' in read ? seen.add(read.product.sku, read.line) : undefined
    if ('product' in read && earlier !== undefined) {
      yield { line: read.line, error: `sku ${read.product.sku} was already on line ${earlier}` }
    } else {
      yield read
    }
  }
}

async function* readLines(lines: AsyncGenerator<ByteLine>, options: ImportOptions): AsyncGenerator<ImportLine> {
  try {
    yield* readText(lines, options)
  } catch (error) {
    if (!(error instanceof InvalidLine)) throw error
    yield { line: 1, error: error.message }
  }
}

async function* readText(lines: AsyncGenerator<ByteLine>, options: ImportOptions): AsyncGenerator<ImportLine> {
  let { value: first, done } = await lines.next()
  while (!done && isBlank(first)) ({ value: first, done } = await lines.next())
  if (done) return
  const format = options.format ?? FORMATS[extname(options.fileName ?? '').toLowerCase()] ?? detectFormat(first)
  const all = prepend(first, lines)
  yield* format === 'csv' ? readCsv(all, options.currency) : readNdjson(all)
}

// A first line that is too long cannot be a CSV header.
function detectFormat({ bytes }: ByteLine): ImportFormat {
  return bytes === null || bytes.toString('latin1').trimStart().startsWith('{') ? 'ndjson' : 'csv'
}

async function* prepend(first: ByteLine, rest: AsyncGenerator<ByteLine>): AsyncGenerator<ByteLine> {
  try {
    yield first
    yield* rest
  } finally {
    // Closes the file if the reader stops early.
    await rest.return(undefined)
  }
}

/** Reads newline-delimited JSON, one product a line, by `readProduct`. Skips blank lines. */
async function* readNdjson(lines: AsyncIterable<ByteLine>): AsyncGenerator<ImportLine> {
  for await (const line of lines) {
    if (!isBlank(line)) yield importLine(line.line, () => readProduct(parseJson(line.bytes)))
  }
}

function parseJson(bytes: Buffer | null): unknown {
  const text = decode(bytes)
  const excess = bytes === null ? null : findExcess(bytes)
  if (excess !== null) throw new InvalidLine(`the line ${excess}`)
  try {
    return JSON.parse(text)
  } catch {
    // V8's own message would repeat the line, which may contain anything.
    throw new InvalidLine('the line is not valid JSON')
  }
}
