import type { IncomingMessage, ServerResponse } from 'node:http'
import { findHostFault } from './host.ts'
import type { HttpServer } from './http-server.ts'
import type { RequestLog } from './request-log.ts'
import type { OnAnswered } from './server.ts'
import { type RequestTracing, startSpan, traceIdOfRequest } from './trace-context.ts'

/** Returns the route's pattern and the status, or null if it sent nothing. Fastify then handles the request. */
export type Shortcut = (
  request: IncomingMessage,
  response: ServerResponse,
  headers: readonly string[],
) => { route: string; status: number } | null

export interface ShortcutOptions {
  requestLog: RequestLog
  requestIdOf: (request: IncomingMessage) => string
  headers?: readonly string[]
  onAnswered?: OnAnswered
  tracing?: RequestTracing
}

/** An unread body would precede the next request of the connection. Fastify reads it to its end. */
function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] !== undefined && headers['content-length'] !== '0')
}

/** Answers requests before Fastify does, without its hooks. See docs/decisions/catalogue-version.md. */
export function addShortcut(
  server: HttpServer,
  shortcut: Shortcut,
  { requestLog, requestIdOf, headers = [], onAnswered, tracing }: ShortcutOptions,
): void {
  const listeners = server.server.listeners('request') as ((request: IncomingMessage, response: ServerResponse) => void)[]
  let isOpen = true
  // While the server stops, Fastify answers with `connection: close`.
  server.addHook('preClose', async () => {
    isOpen = false
  })
  server.server.removeAllListeners('request')
  server.server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    if (!isOpen || !answer(request, response)) for (const listener of listeners) listener(request, response)
  })

  function answer(request: IncomingMessage, response: ServerResponse): boolean {
    const { method } = request
    if ((method !== 'GET' && method !== 'HEAD') || hasBody(request) || findHostFault(request) !== null) return false
    const beganAt = performance.now()
    const id = requestIdOf(request)
    const sent = shortcut(request, response, ['x-request-id', id, 'x-content-type-options', 'nosniff', ...headers])
    if (sent === null) return false
    const ms = performance.now() - beganAt
    onAnswered?.(method, sent.route, sent.status, ms)
    if (tracing !== undefined) startSpan(request, tracing, beganAt).end({ method, ...sent })
    requestLog.add({ method, ...sent, ms }, () => ({ request_id: id, trace_id: traceIdOfRequest(request) }))
    return true
  }
}
