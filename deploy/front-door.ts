import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'

/** Twice the longest body that a call of the API takes, except imports of catalogues. */
const MAX_REQUEST_BYTES = 16 * 1024 * 1024
const TIMEOUT_MS = 15_000

interface Call {
  method: string
  path: string
  headers: IncomingHttpHeaders
  body: Buffer
}

interface Reply {
  status: number
  headers: IncomingHttpHeaders
  body: Buffer
}

/**
 * One address for several API processes, in turn. A call whose process dies goes to the next one when repeating it is
 * harmless (reads, and orders with an Idempotency-Key), or when no process received it; otherwise the caller gets 503
 * and decides.
 */
export function createFrontDoor(ports: readonly number[], onReply: (call: Call, status: number) => void): Server {
  let turn = 0
  async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const body = await readBody(incoming, MAX_REQUEST_BYTES)
    if (body === null) {
      outgoing.writeHead(413).end()
      return
    }
    const call = { method: incoming.method ?? 'GET', path: incoming.url ?? '/', headers: incoming.headers, body }
    for (let attempt = 0; attempt < ports.length * 2; attempt++) {
      const port = ports[turn++ % ports.length] ?? 0
      try {
        const reply = await forward(port, call)
        onReply(call, reply.status)
        send(outgoing, reply)
        return
      } catch (error) {
        const wasRefused = (error as NodeJS.ErrnoException).code === 'ECONNREFUSED'
        const isSafe = ['GET', 'HEAD'].includes(call.method) || call.headers['idempotency-key'] !== undefined
        if (!wasRefused && !isSafe) break
      }
    }
    outgoing.writeHead(503, { 'retry-after': '1' }).end()
  }
  // Reading fails when the caller goes away.
  return createServer((incoming, outgoing) => void answer(incoming, outgoing).catch(() => outgoing.destroy()))
}

/** Returns null for a longer body, which is read to its end, because the caller reads no answer before that. */
async function readBody(message: IncomingMessage, maxBytes: number): Promise<Buffer | null> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of message) {
    size += chunk.length
    if (size <= maxBytes) chunks.push(chunk)
  }
  return size > maxBytes ? null : Buffer.concat(chunks)
}

function forward(port: number, { method, path, headers, body }: Call): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const { 'transfer-encoding': _chunked, connection: _connection, ...kept } = headers
    const length = body.length > 0 ? { 'content-length': String(body.length) } : {}
    const call = request({ host: '127.0.0.1', port, method, path, headers: { ...kept, ...length }, agent: false, timeout: TIMEOUT_MS })
    call.on('error', reject)
    call.on('timeout', () => call.destroy(new Error('the API does not answer')))
    call.on('response', (incoming) => {
      buffer(incoming).then((read) => resolve({ status: incoming.statusCode ?? 502, headers: incoming.headers, body: read }), reject)
    })
    call.end(body)
  })
}

function send(outgoing: ServerResponse, { status, headers, body }: Reply): void {
  const { connection: _connection, 'transfer-encoding': _chunked, 'keep-alive': _alive, ...kept } = headers
  outgoing.writeHead(status, kept).end(body)
}
