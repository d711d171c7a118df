import pg from 'pg'
import type { Transaction } from './pool.ts'

type CopyValue = string | number | null

/**
 * Stores `rows` by `statement`, a `copy … from stdin`: the fastest way into PostgreSQL. Rejects with the server's error; the
 * transaction is then broken, as after any failed statement. Nothing else may be asked of `tx` until it has ended.
 */
export function copyRows(tx: Transaction, statement: string, rows: Iterable<readonly CopyValue[]>): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  tx.query(new Copy(statement, rows, (error) => (error ? reject(error) : resolve())))
  return promise
}

/** What `pg` sends for the rows when the server asks for them. A `pg.Query`, for only such may stand in a pipeline. */
class Copy extends pg.Query {
  readonly #statement: string
  readonly #rows: Iterable<readonly CopyValue[]>

  constructor(statement: string, rows: Iterable<readonly CopyValue[]>, callback: (error: Error | undefined | null) => void) {
    super(statement, callback)
    this.#statement = statement
    this.#rows = rows
  }

  override submit = (connection: pg.Connection): void => connection.query(this.#statement)

  handleCopyInResponse(connection: CopyConnection): void {
    for (const chunk of encode(this.#rows)) connection.sendCopyFromChunk(chunk)
    connection.endCopyFrom()
  }
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
