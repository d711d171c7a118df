const HEADER_BYTES = 20
const BYTES = 16
const UUID_TYPE = 2950

/**
 * An array of UUIDs for PostgreSQL in its binary format, which the driver sends for a `Buffer`: reading it costs the server a small part of
 * what an array as text does. As `array_recv` and `uuid_recv` read it: dimensions, whether there are nulls, type, length, lower bound, and
 * each value behind its length.
 */
export function uuidArray(ids: readonly string[]): Buffer {
  const array = Buffer.allocUnsafe(HEADER_BYTES + ids.length * (4 + BYTES))
  for (const [index, value] of [1, 0, UUID_TYPE, ids.length, 1].entries()) array.writeInt32BE(value, 4 * index)
  let position = HEADER_BYTES
  for (const id of ids) {
    position = array.writeInt32BE(BYTES, position)
    const digits = id.replaceAll('-', '')
    if (digits.length !== 2 * BYTES || array.write(digits, position, 'hex') !== BYTES) throw new RangeError(`${id} is no UUID`)
    position += BYTES
  }
  return array
}
