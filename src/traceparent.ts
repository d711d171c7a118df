import { randomUUID } from 'node:crypto'

// The form of https://www.w3.org/TR/trace-context/#traceparent-header, in which all-zero ids are invalid.
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/
const SAMPLED = 1

export function isTraceparent(text: unknown): text is string {
  return typeof text === 'string' && TRACEPARENT.test(text)
}

/** The version that the store implements, with only the sampling flag. Null unless it is valid. */
export function readTraceparent(text: unknown): string | null {
  return isTraceparent(text) ? `00${text.slice(2, 53)}${isSampled(text) ? '01' : '00'}` : null
}

/** The trace is not sampled. Parts of UUIDv4s, which the runtime generates in batches, cannot be zero. */
export function newTraceparent(): string {
  const span = randomUUID()
  return `00-${newTraceId()}-${span.slice(0, 8)}${span.slice(9, 13)}${span.slice(14, 18)}-00`
}

export function newTraceId(): string {
  return randomUUID().replaceAll('-', '')
}

export function traceIdOf(traceparent: string): string {
  return traceparent.slice(3, 35)
}

export function spanIdOf(traceparent: string): string {
  return traceparent.slice(36, 52)
}

export function isSampled(traceparent: string): boolean {
  return (Number.parseInt(traceparent.slice(53, 55), 16) & SAMPLED) === SAMPLED
}

/** The trace id for a log line. Empty without a valid trace context. */
export function traceField(traceparent: unknown): { trace_id?: string } {
  return isTraceparent(traceparent) ? { trace_id: traceIdOf(traceparent) } : {}
}
