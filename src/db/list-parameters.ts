// One parameter is cheapest for the driver and PostgreSQL. The driver's own arrays escape value by value.
import { literal, type Sql, sql } from './sql.ts'

/** A PostgreSQL array of values that need no quotes: ids, numbers and times. */
export function plainArray(values: readonly (string | number)[]): string {
  return `{${values.join(',')}}`
}

const SEPARATOR = '\u001e'

/** An array of texts without control characters, such as JSON, ids, positions and times. */
export function textArray(texts: readonly string[]): Sql {
  return sql`string_to_array(${texts.join(SEPARATOR)}, ${literal(SEPARATOR)})`
}

const HEADER_BYTES = 20
const UUID_BYTES = 16
const UUID_TYPE = 2950

/** PostgreSQL's binary format, as `array_recv` and `uuid_recv` read it. Throws RangeError for other text. */
export function uuidArray(ids: readonly string[]): Buffer {
  const array = Buffer.allocUnsafe(HEADER_BYTES + ids.length * (4 + UUID_BYTES))
  for (const [index, value] of [1, 0, UUID_TYPE, ids.length, 1].entries()) array.writeInt32BE(value, 4 * index)
  let position = HEADER_BYTES
  for (const id of ids) {
    position = array.writeInt32BE(UUID_BYTES, position)
    const digits = id.replaceAll('-', '')
    if (digits.length !== 2 * UUID_BYTES || array.write(digits, position, 'hex') !== UUID_BYTES) throw new RangeError(`${id} is no UUID`)
    position += UUID_BYTES
  }
  return array
}
