import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { splitLines } from '../../catalogue/import/byte-lines.ts'
import { readRecords } from '../../catalogue/import/csv-records.ts'
import { InvalidLine } from '../../catalogue/import/imported-product.ts'
import { toUtf8Lines } from '../../catalogue/import/spreadsheet-bytes.ts'
import { readDecimal } from '../../catalogue/import/spreadsheet-cells.ts'
import { isTime } from '../../event-time.ts'
import { WrongFile } from './conversion.ts'
import { asUnreadable } from './shop-records.ts'

export class Row {
  readonly line: number
  readonly #cells: ReadonlyMap<string, string>
  readonly #delimiter: string

  constructor(line: number, cells: ReadonlyMap<string, string>, delimiter: string) {
    this.line = line
    this.#cells = cells
    this.#delimiter = delimiter
  }

  /** A trimmed cell. Empty also if the column is missing. */
  text(column: string): string {
    return (this.#cells.get(column) ?? '').trim()
  }

  isTrue(column: string): boolean {
    return /^(?:true|yes|1)$/i.test(this.text(column))
  }

  /** A decimal; null for an empty cell. Returns an unclear number as written, which is later refused as an amount. */
  decimal(column: string): string | null {
    const text = this.text(column)
    try {
      return text === '' ? null : (readDecimal(column, text, this.#delimiter) ?? text)
    } catch (error) {
      if (error instanceof InvalidLine) return `${text} (thousands or decimals?)`
      throw error
    }
  }

  /** A whole number; null for a cell without one, or with a possible thousands separator such as `1,000`. */
  whole(column: string): number | null {
    const [, digits] = /^(-?\d+)(?:[.,](?!\d{3}$)0+)?$/.exec(this.text(column)) ?? []
    return digits === undefined ? null : Number(digits)
  }
}

interface ExpectedTable {
  required: readonly string[]
  expected: string
  encoding?: string | undefined
  aliases?: Readonly<Record<string, string>>
  /** Undoes the shop's own escapes. */
  unescapeCell?: (cell: string) => string
}

export async function isTable(file: string): Promise<boolean> {
  try {
    await using handle = await open(file)
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(64), 0, 64, 0)
    return !/^[\ufeff\s\0]*[[{]/.test(buffer.toString('utf8', 0, bytesRead).replaceAll('\ufffd', ''))
  } catch (error) {
    throw asUnreadable(error, file, 'an export of the shop')
  }
}

/** Throws WrongFile when it lacks a column or a record cannot be read. */
export async function* readTable(
  file: string,
  { required, expected, encoding, aliases = {}, unescapeCell = (cell) => cell }: ExpectedTable,
): AsyncGenerator<Row> {
  let columns: string[] | undefined
  try {
    for await (const record of readRecords(splitLines(toUtf8Lines(createReadStream(file), encoding)))) {
      if ('error' in record) throw new WrongFile(`${file}, line ${record.line}: ${record.error}`)
      if (columns === undefined) {
        columns = record.fields.map((field) => field.trim().toLowerCase()).map((name) => aliases[name] ?? name)
        const missing = required.filter((name) => !columns?.includes(name))
        if (missing.length > 0) throw new WrongFile(`${file} lacks the columns ${missing.join(', ')}; expected ${expected}`)
      } else if (record.fields.some((field) => field.trim() !== ''))
        yield new Row(
          record.line,
          new Map(columns.map((name, place) => [name, unescapeCell(record.fields[place] ?? '')])),
          record.delimiter,
        )
    }
    if (columns === undefined) throw new WrongFile(`${file} is empty; expected ${expected}`)
  } catch (error) {
    if (error instanceof InvalidLine) throw new WrongFile(`${file}: ${error.message}; expected ${expected}`)
    throw asUnreadable(error, file, expected)
  }
}

/** Reads a day; null for an impossible day, and for a localized form such as `3/1/26`. */
export function readDay(text: string): string | null {
  const day = /^\d{4}-\d\d-\d\d/.exec(text)?.[0] ?? null
  return isTime(`${day}T00:00:00.000Z`) ? day : null
}

export function startOf(day: string | null, daysLater = 0): Date | null {
  return day === null ? null : new Date(Date.parse(`${day}T00:00:00Z`) + daysLater * 86_400_000)
}
