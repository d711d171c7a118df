import type { IncomingMessage } from 'node:http'
import type { FastifyRequest } from 'fastify'
import type { RequestSpan, Tracing } from '../operations/tracing.ts'
import { newTraceparent, readTraceparent, traceIdOf } from '../traceparent.ts'
import type { HttpServer } from './http-server.ts'

const CONTEXT = Symbol('traceparent')
const SPAN = Symbol('span')

interface Traced {
  headers: IncomingMessage['headers']
  [CONTEXT]?: string
  [SPAN]?: RequestSpan
}

/** The span's context, otherwise the caller's if it is valid, otherwise a new trace. */
export function traceparentOf({ raw }: Pick<FastifyRequest, 'raw'>): string {
  return contextOf(raw)
}

export function traceIdOfRequest(raw: IncomingMessage): string {
  return traceIdOf(contextOf(raw))
}

function contextOf(raw: Traced): string {
  raw[CONTEXT] ??= readTraceparent(raw.headers.traceparent) ?? newTraceparent()
  return raw[CONTEXT]
}

export type RequestTracing = Pick<Tracing, 'startRequest'>

export function addTracing(server: HttpServer, tracing: RequestTracing): void {
  server.addHook('onRequest', ({ raw }, _reply, done) => {
    startSpan(raw, tracing)
    done()
  })
  server.addHook('onResponse', ({ raw, method, routeOptions }, reply, done) => {
    const { [SPAN]: span } = raw as Traced
    span?.end({ method, route: routeOptions.url, status: reply.statusCode })
    done()
  })
}

export function startSpan(raw: Traced, tracing: RequestTracing, startTime?: number): RequestSpan {
  const span = tracing.startRequest(readTraceparent(raw.headers.traceparent), startTime)
  raw[SPAN] = span
  raw[CONTEXT] = span.traceparent
  return span
}
