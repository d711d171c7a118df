import type { IncomingMessage } from 'node:http'
import { PassThrough, pipeline } from 'node:stream'
import { AppError } from '../errors.ts'
import type { HttpServer } from './http-server.ts'

/** The limit of a route that reads its body as a stream and bounds it itself. */
export const NO_BODY_LIMIT = Number.MAX_SAFE_INTEGER

const WINDOW_CHUNKS = 256
/** 64 bytes a chunk. Clients send buffers of some hundred bytes and more. */
const MIN_WINDOW_BYTES = 16_384

/** Node.js handles up to 300,000 tiny chunks before any other request, so their connection is closed. */
export function limitChunks(server: HttpServer): void {
  server.addHook('preParsing', (request, _reply, payload, done) => {
    if (request.headers['transfer-encoding'] === undefined) return done(null, payload)
    payload.on('data', endAtTinyChunks(request.raw))
    // Reading a stream by its iterator would hide single chunks from the listener.
    const isStreamed = request.routeOptions.bodyLimit === NO_BODY_LIMIT
    done(null, isStreamed ? pipeline(payload, new PassThrough(), () => {}) : payload)
  })
}

export function endAtTinyChunks(raw: IncomingMessage): (chunk: Buffer) => void {
  let chunks = 0
  let bytes = 0
  return ({ length }) => {
    chunks++
    bytes += length
    if (chunks < WINDOW_CHUNKS) return
    if (bytes < MIN_WINDOW_BYTES)
      raw.destroy(new AppError('malformed_request', 'The body comes in chunks that are too small. Send larger ones.'))
    chunks = 0
    bytes = 0
  }
}
