import { isUtf8 } from 'node:buffer'
import { TimeSlice } from '../../time-slice.ts'
import { InvalidLine } from './imported-product.ts'

/** The limit for a line, and for a CSV record. */
export const MAX_LINE_BYTES = 1024 * 1024
export const LINE_TOO_LONG = 'the line is longer than 1 MiB'

/** A file's line without its line feed. `bytes` is null if it is longer than MAX_LINE_BYTES. */
export interface ByteLine {
  line: number
  bytes: Buffer | null
}

const LINE_FEED = 0x0a
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf])

/** Splits `source` into lines, numbered from 1. Buffers at most one line, and yields to other work between lines. */
export async function* splitLines(source: AsyncIterable<Uint8Array>, { skipsBlank = false } = {}): AsyncGenerator<ByteLine> {
  let line = 1
  let pieces: Buffer[] = []
  let sizeBytes = 0
  const add = (piece: Buffer) => {
    sizeBytes += piece.length
    if (sizeBytes <= MAX_LINE_BYTES) pieces.push(piece)
    else pieces = []
  }
  const finish = (): ByteLine => {
    const bytes = sizeBytes > MAX_LINE_BYTES ? null : pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces)
    pieces = []
    sizeBytes = 0
    const finished = { line, bytes: line === 1 && bytes !== null ? withoutByteOrderMark(bytes) : bytes }
    line++
    return finished
  }
  const slice = new TimeSlice()
  for await (const chunk of source) {
    const buffer = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    let start = 0
    for (let end = buffer.indexOf(LINE_FEED); end !== -1; end = buffer.indexOf(LINE_FEED, start)) {
      add(buffer.subarray(start, end))
      if (slice.isOver) await slice.next()
      const finished = finish()
      // CSV needs blank lines, because a quoted field may contain them.
      if (!skipsBlank || !isBlank(finished)) yield finished
      start = end + 1
    }
    if (start < buffer.length) add(buffer.subarray(start))
  }
  if (sizeBytes > 0) yield finish()
}

function withoutByteOrderMark(bytes: Buffer): Buffer {
  return bytes.subarray(0, 3).equals(BYTE_ORDER_MARK) ? bytes.subarray(3) : bytes
}

/**
 * Decodes UTF-8 bytes. Throws InvalidLine for other bytes, because lenient decoding would put U+FFFD into a product.
 */
export function decode(bytes: Buffer | null): string {
  if (bytes === null) throw new InvalidLine(LINE_TOO_LONG)
  assertUtf8(bytes)
  return bytes.toString('utf8')
}

export function assertUtf8(bytes: Buffer, remedy = ''): void {
  if (!isUtf8(bytes)) throw new InvalidLine(`the line is not valid UTF-8${remedy}`)
}

/** Whether the line is empty or has only blanks. */
export function isBlank({ bytes }: ByteLine): boolean {
  return bytes?.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d) ?? false
}
