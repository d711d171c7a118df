import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'

const MAX_BODY_BYTES = 2 * 1024 * 1024
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
  return createServer(async (incoming, outgoing) => {
    const call = await readCall(incoming)
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
  })
}

async function readCall(incoming: IncomingMessage): Promise<Call> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of incoming) {
    size += chunk.length
    if (size <= MAX_BODY_BYTES) chunks.push(chunk)
  }
  return { method: incoming.method ?? 'GET', path: incoming.url ?? '/', headers: incoming.headers, body: Buffer.concat(chunks) }
}

function forward(port: number, { method, path, headers, body }: Call): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const { 'transfer-encoding': _chunked, connection: _connection, ...kept } = headers
    const length = body.length > 0 ? { 'content-length': String(body.length) } : {}
    const call = request({ host: '127.0.0.1', port, method, path, headers: { ...kept, ...length }, agent: false, timeout: TIMEOUT_MS })
    call.on('error', reject)
    call.on('timeout', () => call.destroy(new Error('the API does not answer')))
    call.on('response', (incoming) => {
      readCall(incoming).then(
        (read) => resolve({ status: incoming.statusCode ?? 502, headers: incoming.headers, body: read.body }),
        (error: unknown) => reject(error),
      )
    })
    call.end(body)
  })
}

function send(outgoing: ServerResponse, { status, headers, body }: Reply): void {
  const { connection: _connection, 'transfer-encoding': _chunked, 'keep-alive': _alive, ...kept } = headers
  outgoing.writeHead(status, kept).end(body)
}
