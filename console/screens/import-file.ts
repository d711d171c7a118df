import { sizeText, t } from '../kit/language.ts'

/**
 * Largest file that the console imports. An import has 25 seconds, and both sides hold its results in memory.
 * `storefront catalogue import` accepts any size.
 */
const MAX_BYTES = 32 * 1_048_576
const FIRST_BYTES = 65_536

export interface CatalogueFile {
  file: File
  contentType: 'application/x-ndjson' | 'text/csv'
}

/** Checks the size and the beginning of a file before it is sent. Throws an error that says what is wrong. */
export async function readCatalogueFile(file: File): Promise<CatalogueFile> {
  const { name, size } = file
  if (size === 0) throw new Error(t`${name} is empty.`)
  if (size > MAX_BYTES) {
    const command = t`The command \`storefront catalogue import FILE\` takes any size.`
    throw new Error(t`${name} has ${sizeText(size)}; at most ${sizeText(MAX_BYTES)} are sent from here. ${command} Nothing was sent.`)
  }
  const first = firstLine(await readBeginning(file))
  if (first.startsWith('{')) return { file, contentType: 'application/x-ndjson' }
  if (first.startsWith('['))
    throw new Error(t`${name} is one JSON array. The file needs one product a line (NDJSON), without brackets around them.`)
  // The store knows the columns and reports faults of the header.
  if (/\bsku\b|^"?sep=/i.test(first)) return { file, contentType: 'text/csv' }
  throw new Error(t`${name} is no catalogue: its first line is neither a product as JSON nor the header of a table. Nothing was sent.`)
}

/** The text of a file as the store reads it. It is only an approximation for other encodings than UTF-8 and UTF-16. */
export async function readText(file: Blob): Promise<string> {
  const text = new TextDecoder(encodingOf(new Uint8Array(await file.slice(0, 4).arrayBuffer()))).decode(await file.arrayBuffer())
  return text.includes('\n') ? text : text.replaceAll('\r', '\n')
}

function encodingOf([a, b, c, d]: Uint8Array): string {
  const isBigEndian = (a === 0xfe && b === 0xff) || (a === 0 && b !== 0 && c === 0)
  const isLittleEndian = (a === 0xff && b === 0xfe) || (a !== 0 && b === 0 && d === 0)
  return isBigEndian ? 'utf-16be' : isLittleEndian ? 'utf-16le' : 'utf-8'
}

async function readBeginning(file: File): Promise<string> {
  const bytes = await file.slice(0, FIRST_BYTES).arrayBuffer()
  try {
    // The last character may be cut off.
    const encoding = encodingOf(new Uint8Array(bytes.slice(0, 4)))
    const text = new TextDecoder(encoding, { fatal: true }).decode(bytes, { stream: file.size > FIRST_BYTES })
    if (!text.includes('\0')) return text
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
  }
  const what = file.type === '' ? '' : ` (${file.type})`
  throw new Error(
    t`${file.name} is no text in UTF-8${what}. A catalogue is a file of lines: NDJSON or CSV. In a spreadsheet, save it as "CSV UTF-8". Nothing was sent.`,
  )
}

function firstLine(text: string): string {
  return (
    text
      .split(/[\r\n]/)
      .map((line) => line.trim())
      .find((line) => line !== '') ?? ''
  )
}

/** The result of one line of the file. A CSV record has the number of its first line. */
export type ImportedLine = { line: number; sku: string; outcome: 'created' | 'updated' | 'unchanged' } | { line: number; error: string }

export interface ImportOutcome {
  lines: readonly ImportedLine[]
  counts: { created: number; updated: number; unchanged: number; failed: number }
  /** The reason for an early end. The lines before it are stored. */
  fault: string | null
}

/** Reads the answer of an import. An answer without an end was cut off. */
export function readOutcome(answer: string): ImportOutcome {
  const counts = { created: 0, updated: 0, unchanged: 0, failed: 0 }
  const lines: ImportedLine[] = []
  let fault: string | null = t`The answer was cut off: the lines that have a result are stored, and more may be.`
  for (const text of answer.split('\n')) {
    if (text === '') continue
    const entry = JSON.parse(text)
    if ('line' in entry) {
      lines.push(entry)
      counts['error' in entry ? 'failed' : (entry.outcome as 'created')]++
    } else fault = typeof entry.error === 'string' ? entry.error : null
  }
  return { lines, counts, fault }
}

/** The refused lines of the file, for correcting and sending them again. CSV lines follow the file's header. */
export function refusedText(text: string, { lines }: ImportOutcome, { contentType }: CatalogueFile): string {
  const all = text.split('\n')
  const starts = lines.map(({ line }) => line)
  const refused = lines.flatMap((entry, index) => {
    if (!('error' in entry)) return []
    // A CSV record may have several lines, and ends where the next one begins.
    const end = contentType === 'text/csv' ? (starts[index + 1] ?? all.length + 1) : entry.line + 1
    return all.slice(entry.line - 1, end - 1).filter((line, offset) => offset === 0 || line.trim() !== '')
  })
  const top = all.filter((line) => line.trim() !== '').slice(0, 2)
  // The first line may name the delimiter.
  const header = top.slice(0, /^"?sep=/i.test(top[0] ?? '') ? 2 : 1).join('\n')
  return `${(contentType === 'text/csv' && !header.endsWith(refused[0] ?? '') ? [header, ...refused] : refused).join('\n')}\n`
}

export interface Preview {
  columns: readonly string[]
  rows: readonly (readonly string[])[]
  /** The number of products. It is estimated from the beginning of a long file. */
  count: number
}

const PREVIEW_ROWS = 8
const PREVIEW_COLUMNS = ['sku', 'name', 'category', 'price', 'currency', 'stock']
const PREVIEW_BYTES = 262_144

export async function previewOf({ file, contentType }: CatalogueFile): Promise<Preview> {
  const beginning = file.slice(0, PREVIEW_BYTES)
  const text = await readText(beginning)
  // The last line is not shown when it is cut off.
  const whole = file.size > PREVIEW_BYTES ? text.slice(0, text.lastIndexOf('\n')) : text
  const records = contentType === 'text/csv' ? readCsv(whole) : readLines(whole)
  const [columns = [], ...rows] = records
  const count = Math.round((rows.length * file.size) / Math.min(file.size, PREVIEW_BYTES))
  return { columns, rows: rows.slice(0, PREVIEW_ROWS), count }
}

function readLines(text: string): string[][] {
  const products = text.split('\n').filter((line) => line.trim() !== '')
  const read = (line: string): Record<string, unknown> => {
    try {
      return JSON.parse(line)
    } catch {
      return { sku: line }
    }
  }
  const cells = products.map((line) => {
    const product = read(line)
    const price = product.price as { amount?: number; currency?: string } | undefined
    const values = {
      ...product,
      price: price?.amount === undefined ? '' : t`${String(price.amount)} (minor units)`,
      currency: price?.currency,
    }
    return PREVIEW_COLUMNS.map((name) => String(values[name as keyof typeof values] ?? ''))
  })
  return [PREVIEW_COLUMNS, ...cells]
}

/** Parses CSV text (RFC 4180). The first line determines the delimiter. */
export function readCsv(text: string): string[][] {
  const content = text.replace(/^\ufeff?(?:"?sep=.*\r?\n)?/i, '')
  const header = content.split(/\r?\n/, 1)[0] ?? ''
  const delimiter = [';', '\t', '|', ','].find((one) => header.includes(one)) ?? ','
  const records: string[][] = []
  let record: string[] = []
  let cell = ''
  let isQuoted = false
  const endCell = () => {
    record.push(cell)
    cell = ''
  }
  for (let at = 0; at < content.length; at++) {
    const character = content[at] ?? ''
    if (isQuoted && character === '"' && content[at + 1] === '"') cell += content[++at]
    else if (character === '"') isQuoted = !isQuoted
    else if (!isQuoted && character === delimiter) endCell()
    else if (!isQuoted && character === '\n') {
      endCell()
      records.push(record)
      record = []
    } else if (isQuoted || character !== '\r') cell += character
  }
  endCell()
  records.push(record)
  return records.filter((record) => record.some((cell) => cell.trim() !== ''))
}
