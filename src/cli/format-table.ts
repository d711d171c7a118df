import type { Terminal } from './command.ts'

interface Table {
  columns: readonly string[]
  rows: readonly (readonly unknown[])[]
}

/** Prints rows as a table or as JSON. The table shows null as an empty cell. */
export function printRows({ out }: Pick<Terminal, 'out'>, table: Table, json: boolean): number {
  out(json ? formatJson(table) : formatTable(table, { none: '' }))
  return 0
}

/** A JSON array of objects on one line. If columns have the same name, the last one wins. */
export function formatJson({ columns, rows }: Table): string {
  return JSON.stringify(rows.map((row) => Object.fromEntries(columns.map((column, index) => [column, row[index] ?? null]))))
}

/** `none` stands for null. Control characters in cells are shown as escapes. */
export function formatTable({ columns, rows }: Table, { none = 'NULL' } = {}): string {
  const table = [columns, ...rows].map((row) => row.map((cell) => escapeControls(cell === null ? none : String(cell))))
  const widths = columns.map((_, column) => table.reduce((width, row) => Math.max(width, lengthOf(row[column] ?? '')), 0))
  const lines = table.map((row) => row.map((cell, column) => cell + ' '.repeat((widths[column] ?? 0) - lengthOf(cell))).join(' | '))
  const rule = widths.map((width) => '-'.repeat(width)).join('-+-')
  const count = `(${rows.length} ${rows.length === 1 ? 'row' : 'rows'})`
  return [lines[0] ?? '', rule, ...lines.slice(1), count].map((line) => line.trimEnd()).join('\n')
}

function lengthOf(text: string): number {
  return [...text].length
}

/** Escapes characters that move a cursor, end a line or change the text direction. */
export function escapeControls(text: string): string {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu, (character) => {
    const short = JSON.stringify(character).slice(1, -1)
    return short.length > 1 ? short : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}
