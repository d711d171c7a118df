import { InvalidLine } from './imported-product.ts'

/** Real headers are far shorter. */
const MAX_HEAD_BYTES = 65_536
const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d
const QUOTE = 0x22
const BRACE = 0x7b

/** Advice for the author of a file that is not UTF-8 text. */
export const SAVE_AS_UTF8 =
  ': save the file as "CSV UTF-8", or name its encoding, such as --encoding windows-1252 (over HTTP: charset=windows-1252)'

/**
 * Converts `source` to UTF-8 with line feeds. Excel writes UTF-16 ("Unicode text"), and carriage returns on a Mac. A
 * byte order mark overrides `encoding`. Throws InvalidLine for a file that is not text. Buffers up to the first line
 * feed.
 */
export async function* toUtf8Lines(source: AsyncIterable<Uint8Array>, encoding?: string): AsyncGenerator<Uint8Array> {
  yield* withLineFeeds(toUtf8(source, encoding))
}

async function* toUtf8(source: AsyncIterable<Uint8Array>, encoding = 'utf-8'): AsyncGenerator<Uint8Array> {
  let decoder: TextDecoder | null | undefined
  for await (const chunk of withHead(source, (_next, length) => length >= 4)) {
    if (decoder === undefined) {
      assertNoOtherFile(chunk)
      const label = findMarkedEncoding(chunk) ?? encoding
      // Each line is checked for UTF-8 later.
      decoder = new TextDecoder(label).encoding === 'utf-8' ? null : new TextDecoder(label)
    }
    yield decoder === null ? chunk : Buffer.from(decoder.decode(chunk, { stream: true }))
  }
  const rest = decoder?.decode() ?? ''
  if (rest !== '') yield Buffer.from(rest)
}

/**
 * Joins chunks until `isEnough` accepts the next chunk and the bytes so far for judging the file's start. Each byte is
 * examined once.
 */
async function* withHead(
  source: AsyncIterable<Uint8Array>,
  isEnough: (next: Buffer, lengthBytes: number) => boolean,
): AsyncGenerator<Buffer> {
  let head: Buffer[] | null = []
  let lengthBytes = 0
  for await (const chunk of source) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    lengthBytes += bytes.length
    head?.push(bytes)
    if (head !== null && !isEnough(bytes, lengthBytes)) continue
    yield head === null ? bytes : Buffer.concat(head)
    head = null
  }
  if (head !== null && lengthBytes > 0) yield Buffer.concat(head)
}

const OTHER_FILES: readonly [signature: string, what: string][] = [
  ['504b0304', 'a workbook of Excel, LibreOffice or Numbers, or another archive; save the sheet as "CSV UTF-8" first'],
  ['d0cf11e0', 'a workbook of Excel; save the sheet as "CSV UTF-8" first'],
  ['1f8b', 'a compressed file; unpack it first'],
  ['25504446', 'a PDF'],
]

function assertNoOtherFile(head: Buffer): void {
  const hex = head.toString('hex', 0, 4)
  const [, what] = OTHER_FILES.find(([signature]) => hex.startsWith(signature)) ?? []
  if (what !== undefined) throw new InvalidLine(`the file is ${what}`)
}

/** Finds the encoding by its byte order mark; UTF-16 also by the NUL of every ASCII character. */
function findMarkedEncoding(head: Buffer): string | null {
  const [a, b, c, d] = head
  if (a === 0xef && b === 0xbb && c === 0xbf) return 'utf-8'
  if (a === 0xff && b === 0xfe) return 'utf-16le'
  if (a === 0xfe && b === 0xff) return 'utf-16be'
  if (a !== 0 && b === 0 && c !== 0 && d === 0) return 'utf-16le'
  return a === 0 && b !== 0 && c === 0 && d !== 0 ? 'utf-16be' : null
}

async function* withLineFeeds(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const findEnd = firstLineEnd()
  let endsWithReturns: boolean | undefined
  const isEnough = (next: Buffer, lengthBytes: number) => {
    endsWithReturns = findEnd(next)
    return endsWithReturns !== undefined || lengthBytes >= MAX_HEAD_BYTES
  }
  for await (const chunk of withHead(source, isEnough)) {
    yield endsWithReturns === true ? chunk.map((byte) => (byte === CARRIAGE_RETURN ? LINE_FEED : byte)) : chunk
  }
}

/**
 * Returns a function that takes the chunks of a table in order. Its result says whether the first line ends with a
 * carriage return only. It is undefined while more chunks are needed.
 */
function firstLineEnd(): (chunk: Buffer) => boolean | undefined {
  let isQuoted = false
  let isAfterReturn = false
  return (chunk) => {
    for (const byte of chunk) {
      if (isAfterReturn) return byte !== LINE_FEED
      if (byte === QUOTE) isQuoted = !isQuoted
      if (isQuoted) continue
      if (byte === BRACE || byte === LINE_FEED) return false
      isAfterReturn = byte === CARRIAGE_RETURN
    }
    return undefined
  }
}
