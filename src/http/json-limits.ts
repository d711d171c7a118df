/** JSON.parse accepts any depth. This is more than any body of the API needs. */
const MAX_DEPTH = 32
/** An order of 1,000 lines has about 3,100. */
const MAX_VALUES = 5_000
/** A shorter text cannot exceed the maximum of values, so most bodies need no scan. */
const SMALL_BYTES = 4_096

const QUOTE = 0x22
const COMMA = 0x2c
const BACKSLASH = 0x5c
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]

/** A megabyte of short names takes 0.6 s to parse, because each value takes time. This scan takes a millisecond. */
export function findExcess(json: Uint8Array, maxValues = MAX_VALUES): string | null {
  if (json.length < Math.min(SMALL_BYTES, maxValues)) return null
  let depth = 0
  let values = 0
  let isText = false
  for (let index = 0; index < json.length; index++) {
    const byte = json[index]
    if (isText) {
      if (byte === BACKSLASH) index++
      else if (byte === QUOTE) isText = false
    } else if (byte === QUOTE) isText = true
    else if (byte === COMMA) values++
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      values++
      if (++depth > MAX_DEPTH) return `is nested more than ${MAX_DEPTH} deep`
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth--
    if (values > maxValues) return `has more than ${maxValues} values`
  }
  return null
}
