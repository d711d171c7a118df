// Messages as https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html describes them,
// version 1.

/** A value of a row as it is sent; `undefined` stands for a large one that did not change. */
export type SentValue = string | null | undefined

export interface SentColumn {
  name: string
  /** Object id of the type. */
  type: number
}

const text = (value: string) => Buffer.from(`${value}\0`)
const letter = (value: string) => Buffer.from(value, 'latin1')
const int8 = (value: number) => Buffer.from([value])

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeInt16BE(value)
  return bytes
}

export function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function int64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(value)
  return bytes
}

function row(values: readonly SentValue[]): Buffer {
  const sent = values.map((value) => {
    if (value === undefined) return letter('u')
    if (value === null) return letter('n')
    const bytes = Buffer.from(value)
    return Buffer.concat([letter('t'), int32(bytes.length), bytes])
  })
  return Buffer.concat([int16(values.length), ...sent])
}

export function relationMessage(id: number, table: string, columns: readonly SentColumn[]): Buffer {
  const sent = columns.map(({ name, type }) => Buffer.concat([int8(1), text(name), int32(type), int32(0xffff_ffff)]))
  return Buffer.concat([letter('R'), int32(id), text('public'), text(table), letter('f'), int16(columns.length), ...sent])
}

export function insertMessage(id: number, values: readonly SentValue[]): Buffer {
  return Buffer.concat([letter('I'), int32(id), letter('N'), row(values)])
}

/** `kind` is O for the whole old row, K for its key alone. */
export function updateMessage(id: number, old: readonly SentValue[], values: readonly SentValue[], kind: 'O' | 'K' = 'O'): Buffer {
  return Buffer.concat([letter('U'), int32(id), letter(kind), row(old), letter('N'), row(values)])
}

export function commitMessage(lsn: bigint, end: bigint): Buffer {
  return Buffer.concat([letter('C'), int8(0), int64(lsn), int64(end), int64(840_000_000_000_000n)])
}
