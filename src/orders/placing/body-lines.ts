import { isUtf8 } from 'node:buffer'
import { AppError } from '../../errors.ts'
import { findExcess } from '../../http/json-limits.ts'
import { TimeSlice } from '../../time-slice.ts'

/** A move with the longest reason and tracking, every character escaped, is shorter. */
const MAX_LINE_BYTES = 32_768
/** A complete move has about ten. To explain a line of 2,900 unknown names takes 5 ms. */
const MAX_LINE_VALUES = 64
const LINE_FEED = 0x0a
// White space of JSON (RFC 8259 §2) besides the line feed.
const BLANKS = [0x20, 0x09, 0x0d]

/** A line of a body, numbered from 1. `read` throws `invalid_body` or `malformed_json`. */
export interface BodyLine {
  line: number
  read: () => unknown
}

/** The lines of NDJSON that are not blank. Other requests are served meanwhile, whatever the number of lines. */
export async function* splitBody(body: Buffer): AsyncGenerator<BodyLine> {
  const slice = new TimeSlice()
  let line = 1
  for (let start = 0; start < body.length; line++) {
    const feed = body.indexOf(LINE_FEED, start)
    const end = feed === -1 ? body.length : feed
    const bytes = body.subarray(start, end)
    if (slice.isOver) await slice.next()
    if (bytes.length > MAX_LINE_BYTES || !bytes.every((byte) => BLANKS.includes(byte))) yield { line, read: () => parse(bytes) }
    start = end + 1
  }
}

function parse(bytes: Buffer): unknown {
  if (bytes.length > MAX_LINE_BYTES) throw new AppError('invalid_body', `A line has at most ${MAX_LINE_BYTES} bytes.`)
  if (!isUtf8(bytes)) throw new AppError('malformed_json', 'The line is not valid UTF-8.')
  const excess = findExcess(bytes, MAX_LINE_VALUES)
  if (excess !== null) throw new AppError('invalid_body', `The line ${excess}.`)
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    throw new AppError('malformed_json', 'The line is not valid JSON.')
  }
}
