import { randomUUID } from 'node:crypto'
import type { FastifyRequest } from 'fastify'

// https://www.w3.org/TR/trace-context/#traceparent-header; all-zero ids are invalid.
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

/** The W3C trace context of a request: the caller's if it sent a valid one, else a new trace. */
export function traceparentOf(request: FastifyRequest): string {
  const sent = request.headers.traceparent
  if (typeof sent === 'string' && TRACEPARENT.test(sent)) return sent
  return newTraceparent()
}

/** A new trace, not sampled. Its ids are parts of UUIDv4s, which the runtime generates in batches; neither can be zero. */
export function newTraceparent(): string {
  const [trace, span] = [randomUUID(), randomUUID()]
  return `00-${trace.replaceAll('-', '')}-${span.slice(0, 8)}${span.slice(9, 13)}${span.slice(14, 18)}-00`
}
