import type pg from 'pg'
import type { Transaction } from './pool.ts'

type CopyValue = string | number | null

/**
 * Stores `rows` by `statement`, a `copy … from stdin`: the fastest way into PostgreSQL. Rejects with the server's error; the
 * transaction is then broken, as after any failed statement.
 */
export function copyRows(tx: Transaction, statement: string, rows: Iterable<readonly CopyValue[]>): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  // What `pg` calls a submittable: it is handed the connection, then hears of what the server says.
  const copy = {
    submit: (connection: pg.Connection) => connection.query(statement),
    handleCopyInResponse(connection: CopyConnection) {
      for (const chunk of encode(rows)) connection.sendCopyFromChunk(chunk)
      connection.endCopyFrom()
    },
    handleCommandComplete() {},
    handleReadyForQuery: () => resolve(),
    handleError: (error: Error) => reject(error),
  }
  tx.query(copy)
  return promise
}

/** Methods of pg's connection that its types lack. */
interface CopyConnection {
  sendCopyFromChunk(chunk: Buffer): void
  endCopyFrom(): void
}

const CHUNK_LENGTH = 65_536

/** COPY's text format: https://www.postgresql.org/docs/current/sql-copy.html */
function* encode(rows: Iterable<readonly CopyValue[]>): Generator<Buffer> {
  let text = ''
  for (const row of rows) {
    text += `${row.map(encodeValue).join('\t')}\n`
    if (text.length < CHUNK_LENGTH) continue
    yield Buffer.from(text)
    text = ''
  }
  if (text !== '') yield Buffer.from(text)
}

const SPECIAL = /[\\\n\r\t]/g
const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }

function encodeValue(value: CopyValue): string {
  if (value === null) return '\\N'
  if (typeof value === 'number') return String(value)
  return value.replace(SPECIAL, (character) => ESCAPES[character] ?? character)
}
