import { withGuard } from '../../src/spreadsheet-guard.ts'

export interface Column {
  name: string
  /** The type's name in DuckDB. */
  type: string
}

const NUMBER = /^(?:U?(?:TINY|SMALL|BIG|HUGE)INT|U?INTEGER|BIGNUM|DECIMAL|FLOAT|DOUBLE)\b/

/** Whether a column has numbers, including numbers that the API sends as text because JSON cannot hold them exactly. */
export function isNumeric({ type }: Column): boolean {
  return NUMBER.test(type) && !type.endsWith(']')
}

/**
 * The rows as CSV (RFC 4180). Text is in quotes, because a spreadsheet may separate cells by semicolons, and guarded
 * against formulas. Numbers stay numbers.
 */
export function toCsv(columns: readonly Column[], rows: readonly (readonly unknown[])[]): string {
  const texts = rows.map((row) => row.map((cell, index) => writeCell(cell, isNumeric(columns[index] ?? { name: '', type: '' }))))
  return [columns.map(({ name }) => writeCell(name, false)), ...texts].map((row) => `${row.join(',')}\r\n`).join('')
}

function writeCell(cell: unknown, isNumber: boolean): string {
  if (cell === null || cell === undefined) return ''
  const text = String(cell)
  if (isNumber || typeof cell !== 'string') return /[",\r\n]/.test(text) ? quote(text) : text
  return quote(withGuard(text, true))
}

function quote(text: string): string {
  return `"${text.replaceAll('"', '""')}"`
}

const SEPARATORS = ['\t', ';', ',', '|']

/** The cells of a CSV file, or of text copied from a spreadsheet. The first line decides the separator. */
export function readCells(text: string): string[][] {
  const plain = text.replace(/^\uFEFF/, '').replaceAll(/\r\n?/g, '\n')
  const [first = ''] = plain.split('\n')
  const count = (separator: string) => first.split(separator).length
  const separator = SEPARATORS.reduce((best, one) => (count(one) > count(best) ? one : best))
  const rows: string[][] = [[]]
  // A cell in quotes, in which two quotes are one, or a cell without quotes. The character that ends it follows.
  const cells = new RegExp(`(?:"((?:[^"]|"")*)"[^${separator}\\n]*|([^${separator}\\n]*))([${separator}\\n]|$)`, 'g')
  for (const [, quoted, bare = '', end] of plain.matchAll(cells)) {
    rows.at(-1)?.push((quoted?.replaceAll('""', '"') ?? bare).trim())
    if (end === '\n') rows.push([])
    if (end === '') break
  }
  return rows.filter((row) => row.some((cell) => cell !== ''))
}
