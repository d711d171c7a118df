import pg from 'pg'

export type Lsn = bigint

export type PgoutputMessage<Row, Column extends keyof Row> =
  | { kind: 'begin' }
  /** `previous` is null for a new row, and if the server did not send it. */
  | { kind: 'change'; record: Row; previous: Pick<Row, Column> | null }
  /** `end` is the position right after the transaction. */
  | { kind: 'commit'; end: Lsn }
  | { kind: 'skipped' }

export interface RowShape<Row, Column extends keyof Row> {
  table: string
  columns: readonly (keyof Row & string)[]
  previousColumns: readonly (Column & string)[]
}

type ReadValue = (message: Buffer, start: number, end: number) => unknown

interface Column {
  name: string
  index: number
  read: ReadValue
}

interface Relation {
  columns: Column[]
  previousColumns: Column[]
  /** Offsets of the current message's values, for the row and the previous row. */
  starts: Int32Array
  previousStarts: Int32Array
}

const TAG = { begin: 0x42, commit: 0x43, relation: 0x52, insert: 0x49, update: 0x55 }
/** Origin, Type, Delete, Truncate, Message. A row that an operator deletes is no change of an order's life. */
const SKIPPED_TAGS: readonly (number | undefined)[] = [0x4f, 0x59, 0x44, 0x54, 0x4d]
const ROW = { new: 0x4e, old: 0x4f, key: 0x4b }
const VALUE = { text: 0x74, null: 0x6e, unchanged: 0x75 }
const COMMIT_END_OFFSET = 10
const BEGIN_COMMIT_OFFSET = 1
const TIMESTAMPTZ: number = pg.types.builtins.TIMESTAMPTZ
const BEGIN = { kind: 'begin' } as const
const SKIPPED = { kind: 'skipped' } as const

/**
 * Parses the messages of https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html, version 1,
 * with values as text.
 */
export class PgoutputReader<Row extends object, Previous extends keyof Row = never> {
  readonly #shape: RowShape<Row, Previous>
  /** Relations by object id. Null for other tables. */
  readonly #relations = new Map<number, Relation | null>()

  constructor(shape: RowShape<Row, Previous>) {
    this.#shape = shape
  }

  read(message: Buffer): PgoutputMessage<Row, Previous> {
    const tag = message[0]
    if (tag === TAG.insert || tag === TAG.update) return this.#readChange(message)
    if (tag === TAG.begin) return BEGIN
    if (tag === TAG.commit) return { kind: 'commit', end: message.readBigUInt64BE(COMMIT_END_OFFSET) }
    if (tag === TAG.relation) this.#readRelation(message)
    else if (!SKIPPED_TAGS.includes(tag)) throw new Error(`pgoutput message of an unknown type: ${tag}`)
    return SKIPPED
  }

  #readRelation(message: Buffer): void {
    const id = message.readInt32BE(1)
    const [, schemaEnd] = readName(message, 5)
    const [table, tableEnd] = readName(message, schemaEnd)
    // An operator may have added another table to the publication: docs/decisions/change-stream-reading.md#the-parser.
    if (table !== this.#shape.table) {
      this.#relations.set(id, null)
      return
    }
    const count = message.readInt16BE(tableEnd + 1)
    const columns: Column[] = []
    let position = tableEnd + 3
    for (let index = 0; index < count; index++) {
      const [name, nameEnd] = readName(message, position + 1)
      columns.push({ name, index, read: readerOf(message.readInt32BE(nameEnd)) })
      position = nameEnd + 8
    }
    if (position !== message.length) throw new Error('pgoutput description of a table with an unexpected end')
    const named = (names: readonly string[]) => columns.filter(({ name }) => names.includes(name))
    this.#relations.set(id, {
      columns: named(this.#shape.columns),
      previousColumns: named(this.#shape.previousColumns),
      starts: new Int32Array(count),
      previousStarts: new Int32Array(count),
    })
  }

  #readChange(message: Buffer): PgoutputMessage<Row, Previous> {
    const relation = this.#relations.get(message.readInt32BE(1))
    if (relation === undefined) throw new Error('pgoutput change of a table without a description')
    if (relation === null) return SKIPPED
    const { columns, previousColumns, starts, previousStarts } = relation
    let kind = message[5]
    let position = 6
    const isOld = kind === ROW.old
    if (isOld || kind === ROW.key) {
      position = locateValues(message, position, previousStarts)
      kind = message[position++]
    }
    if (kind !== ROW.new) throw new Error(`pgoutput change with an unknown row: ${kind}`)
    if (locateValues(message, position, starts) !== message.length) throw new Error('pgoutput change with bytes after its row')
    return {
      kind: 'change',
      // The new row omits a large unchanged value. A full old row contains it, and a key does not.
      record: readRow(message, columns, starts, isOld ? previousStarts : starts) as Row,
      previous: isOld ? (readRow(message, previousColumns, previousStarts, previousStarts) as Pick<Row, Previous>) : null,
    }
  }
}

/** The position of a transaction's commit record, which is below the `end` of its commit message. */
export function readCommitPosition(begin: Buffer): Lsn {
  return begin.readBigUInt64BE(BEGIN_COMMIT_OFFSET)
}

function readName(message: Buffer, start: number): [name: string, end: number] {
  const zero = message.indexOf(0, start)
  if (zero === -1) throw new Error('pgoutput message that ends within a name')
  return [message.toString('utf8', start, zero), zero + 1]
}

function locateValues(message: Buffer, position: number, starts: Int32Array): number {
  const count = message.readInt16BE(position)
  if (count !== starts.length) throw new Error(`pgoutput row of ${count} values for ${starts.length} columns`)
  let end = position + 2
  for (let index = 0; index < count; index++) {
    starts[index] = end
    const kind = message[end++]
    if (kind === VALUE.text) end += 4 + message.readUInt32BE(end)
    else if (kind !== VALUE.null && kind !== VALUE.unchanged) throw new Error(`pgoutput value of an unknown kind: ${kind}`)
  }
  if (end > message.length) throw new Error('pgoutput message that ends within a value')
  return end
}

/**
 * Reads a row. An unchanged value is read at its offset in `fallbackStarts`, and is undefined if it is unchanged there
 * too.
 */
function readRow(message: Buffer, columns: readonly Column[], starts: Int32Array, fallbackStarts: Int32Array): object {
  const row: Record<string, unknown> = {}
  for (const { name, index, read } of columns) {
    let start = starts[index] ?? 0
    if (message[start] === VALUE.unchanged) start = fallbackStarts[index] ?? 0
    row[name] = message[start] === VALUE.null ? null : readValue(message, start, read)
  }
  return row
}

function readValue(message: Buffer, start: number, read: ReadValue): unknown {
  if (message[start] === VALUE.unchanged) return undefined
  const valueStart = start + 5
  return read(message, valueStart, valueStart + message.readUInt32BE(start + 1))
}

function readerOf(type: number): ReadValue {
  const parse = pg.types.getTypeParser(type, 'text')
  if (type === TIMESTAMPTZ) return (message, start, end) => readUtcTime(message, start, end) ?? parse(message.toString('utf8', start, end))
  return (message, start, end) => parse(message.toString('utf8', start, end))
}

/** Parses `2026-03-01 10:00:00[.123]+00`. Returns null for any other format, such as `infinity`. */
function readUtcTime(bytes: Buffer, start: number, end: number): Date | null {
  const length = end - start
  const isUtc = bytes[end - 3] === 0x2b && bytes[end - 2] === 0x30 && bytes[end - 1] === 0x30
  const hasMilliseconds = length === 26 && bytes[start + 19] === 0x2e
  const hasFourDigitYear = bytes[start + 4] === 0x2d && bytes[start] !== 0x30
  if (!isUtc || !hasFourDigitYear || !(hasMilliseconds || length === 22)) return null
  const two = (at: number) => ((bytes[start + at] ?? 0) - 0x30) * 10 + (bytes[start + at + 1] ?? 0) - 0x30
  const milliseconds = hasMilliseconds ? two(20) * 10 + (bytes[start + 22] ?? 0) - 0x30 : 0
  return new Date(Date.UTC(two(0) * 100 + two(2), two(5) - 1, two(8), two(11), two(14), two(17), milliseconds))
}
