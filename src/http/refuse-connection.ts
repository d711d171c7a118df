import { randomUUIDv7 } from 'node:crypto'
import type { Logger } from 'pino'
import { newTraceId } from '../traceparent.ts'
import { PROBLEMS, REALM } from './problem.ts'

interface ParserError extends Error {
  code?: string
  /** The bytes that the parser read. Fastify declares them as JSON. */
  rawPacket?: unknown
}

interface Connection {
  writable: boolean
  destroyed: boolean
  /** The answer that Node.js is sending, or undefined between requests. */
  _httpMessage?: { headersSent: boolean } | null
  end(text: string): void
  destroy(): void
}

// A token of at least half of Node's limit for all header fields.
const LONG_TOKEN = /\r\nauthorization:[^\r\n]{8192}/i

/** Answers and logs bytes that Node's parser could not read, for which no reply object exists. */
export function refuseConnection(error: ParserError, socket: Connection, { baseUrl, logger }: { baseUrl: string; logger: Logger }): void {
  // After the start of an answer, these bytes would become part of it.
  const hasBegun = socket._httpMessage?.headersSent === true
  if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable || hasBegun) {
    socket.destroy()
    return
  }
  const { status, phrase, code, detail, headers } = refusalFor(error)
  const ids = { request_id: randomUUIDv7(), trace_id: newTraceId() }
  const { title } = PROBLEMS[code]
  const problem = JSON.stringify({
    type: `${baseUrl}/problems/${code}`,
    title,
    status,
    detail,
    code,
    ...ids,
  })
  logger.info({ ...ids, status, reason: error.code }, 'request')
  const head = [
    `HTTP/1.1 ${status} ${phrase}`,
    'content-type: application/problem+json',
    'content-language: en',
    `content-length: ${Buffer.byteLength(problem)}`,
    `x-request-id: ${ids.request_id}`,
    'cache-control: no-store',
    ...headers,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${problem}`)
}

function refusalFor({ code, rawPacket }: ParserError) {
  if (code === 'HPE_HEADER_OVERFLOW' && Buffer.isBuffer(rawPacket) && LONG_TOKEN.test(rawPacket.toString('latin1'))) {
    const headers = [`www-authenticate: ${REALM}, error="invalid_token"`]
    return {
      status: 401,
      phrase: 'Unauthorized',
      code: 'invalid_token',
      detail: 'The text is too long for an access token.',
      headers,
    } as const
  }
  const refusal = { code: 'malformed_request', headers: [] } as const
  if (code === 'HPE_HEADER_OVERFLOW') {
    return { ...refusal, status: 431, phrase: 'Request Header Fields Too Large', detail: 'The headers are too large.' }
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return { ...refusal, status: 408, phrase: 'Request Timeout', detail: 'The request took too long to arrive.' }
  }
  return { ...refusal, status: 400, phrase: 'Bad Request', detail: 'The request could not be read.' }
}
