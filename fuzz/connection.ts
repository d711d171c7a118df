import { isUtf8 } from 'node:buffer'
import { connect, type Socket } from 'node:net'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'

export interface Answer {
  status: number
  /** Names are in lower case. The values of a repeated header are joined by commas. */
  headers: ReadonlyMap<string, string>
  bytes: Buffer
  /** The body as JSON; null if it is not JSON. */
  json(): unknown
}

const TIMEOUT_MS = 30_000
const DECODERS: Record<string, (bytes: Buffer) => Buffer<ArrayBufferLike>> = { gzip: gunzipSync, br: brotliDecompressSync }
const HEAD_END = Buffer.from('\r\n\r\n')

/** There was no answer, or one that is not HTTP. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
}

/**
 * Sends the exact bytes of a request, which `fetch` and `node:http` refuse for invalid ones, and reads one answer. Each
 * request has its own connection, because an invalid one can leave a connection in any state.
 */
export function exchange(port: number, bytes: Buffer, hasNoBody: boolean): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const socket: Socket = connect({ host: '127.0.0.1', port, noDelay: true })
    let received: Buffer = Buffer.alloc(0)
    const finish = (answer: Answer | null, isClosed: boolean) => {
      if (answer === null && !isClosed) return
      socket.destroy()
      if (answer !== null) resolve(answer)
      else reject(new NoAnswer(`no whole answer, but ${received.length} bytes: ${received.toString('latin1').slice(0, 500)}`))
    }
    socket.setTimeout(TIMEOUT_MS, () => finish(null, true))
    socket.on('connect', () => socket.write(bytes))
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk as Buffer])
      finish(readAnswer(received, hasNoBody, false), false)
    })
    socket.on('close', () => finish(readAnswer(received, hasNoBody, true), true))
    // The event `close` follows.
    socket.on('error', () => {})
  })
}

/** The answer at the beginning of `bytes`; null while it is incomplete. */
function readAnswer(bytes: Buffer, hasNoBody: boolean, isClosed: boolean): Answer | null {
  const end = bytes.indexOf(HEAD_END)
  if (end < 0) return null
  const [statusLine = '', ...lines] = bytes.subarray(0, end).toString('latin1').split('\r\n')
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1] ?? Number.NaN)
  if (Number.isNaN(status)) return null
  const rest = bytes.subarray(end + HEAD_END.length)
  if (status < 200) return readAnswer(rest, hasNoBody, isClosed)
  const headers = readHeaders(lines)
  const sent = hasNoBody || status === 204 || status === 304 ? Buffer.alloc(0) : readBody(rest, headers, isClosed)
  if (sent === null) return null
  const body = DECODERS[headers.get('content-encoding') ?? '']?.(sent) ?? sent
  return { status, headers, bytes: body, json: () => parse(body) }
}

function readHeaders(lines: readonly string[]): Map<string, string> {
  const headers = new Map<string, string>()
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    const value = line.slice(colon + 1).trim()
    const before = headers.get(name)
    headers.set(name, before === undefined ? value : `${before}, ${value}`)
  }
  return headers
}

function readBody(bytes: Buffer, headers: ReadonlyMap<string, string>, isClosed: boolean): Buffer | null {
  if (headers.get('transfer-encoding') === 'chunked') return readChunks(bytes)
  const length = headers.get('content-length')
  if (length === undefined) return isClosed ? bytes : null
  return bytes.length < Number(length) ? null : bytes.subarray(0, Number(length))
}

function readChunks(bytes: Buffer): Buffer | null {
  const chunks: Buffer[] = []
  for (let at = 0; ; ) {
    const end = bytes.indexOf('\r\n', at)
    if (end < 0) return null
    const size = Number.parseInt(bytes.subarray(at, end).toString('latin1'), 16)
    const start = end + 2
    if (bytes.length < start + size + 2) return null
    if (size === 0) return Buffer.concat(chunks)
    chunks.push(bytes.subarray(start, start + size))
    at = start + size + 2
  }
}

function parse(body: Buffer): unknown {
  if (!isUtf8(body)) return null
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return null
  }
}
