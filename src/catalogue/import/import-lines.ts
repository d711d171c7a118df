import { extname } from 'node:path'
import { type ByteLine, isBlank, splitLines } from './byte-lines.ts'
import { readCsv } from './import-csv.ts'
import { readNdjson } from './import-ndjson.ts'
import type { ImportLine } from './imported-product.ts'
import { SeenSkus } from './seen-skus.ts'

export type ImportFormat = 'ndjson' | 'csv'

export interface ImportOptions {
  /** Without it the ending of `fileName` decides (.ndjson, .jsonl, .csv), or else whether the file begins with `{`. */
  format?: ImportFormat | undefined
  fileName?: string | undefined
  /** ISO 4217. For CSV records that name no currency. */
  currency: string
}

const FORMATS: Readonly<Record<string, ImportFormat>> = { '.ndjson': 'ndjson', '.jsonl': 'ndjson', '.csv': 'csv' }

/**
 * Reads a catalogue file (UTF-8) line by line: every line but blank ones gives a product or one reason why not, and a bad line
 * stops nothing. The same sku again is an error. Throws only what `source` throws. Memory: one line, and a digest of each sku.
 */
export async function* readImportLines(source: AsyncIterable<Uint8Array>, options: ImportOptions): AsyncGenerator<ImportLine> {
  const seen = new SeenSkus()
  for await (const read of readLines(splitLines(source, { skipsBlank: options.format === 'ndjson' }), options)) {
    const earlier = 'product' in read ? seen.add(read.product.sku, read.line) : undefined
    if ('product' in read && earlier !== undefined) {
      yield { line: read.line, error: `sku ${read.product.sku} was already on line ${earlier}` }
    } else {
      yield read
    }
  }
}

async function* readLines(lines: AsyncGenerator<ByteLine>, options: ImportOptions): AsyncGenerator<ImportLine> {
  let { value: first, done } = await lines.next()
  while (!done && isBlank(first)) ({ value: first, done } = await lines.next())
  if (done) return
  const format = options.format ?? FORMATS[extname(options.fileName ?? '').toLowerCase()] ?? sniff(first)
  const all = prepend(first, lines)
  yield* format === 'csv' ? readCsv(all, options.currency) : readNdjson(all)
}

// A first line that is too long to be read cannot be a CSV header.
function sniff({ bytes }: ByteLine): ImportFormat {
  return bytes === null || bytes.toString('latin1').trimStart().startsWith('{') ? 'ndjson' : 'csv'
}

async function* prepend(first: ByteLine, rest: AsyncGenerator<ByteLine>): AsyncGenerator<ByteLine> {
  try {
    yield first
    yield* rest
  } finally {
    // Closes the file when the reader stops early.
    await rest.return(undefined)
  }
}
