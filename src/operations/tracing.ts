import { QUEUE_SUBSCRIBERS, type QueueSubscriber } from '../subscribers.ts'

export interface SpanDefinition {
  name: string
  kind: 'server' | 'internal' | 'client' | 'producer' | 'consumer'
  /** Attributes with the same value in every span. */
  fixed: Readonly<Record<string, string>>
  others: readonly string[]
}

const ofTopic = (operation: string, type: string) => ({
  'messaging.destination.name': 'orders',
  'messaging.operation.name': operation,
  'messaging.operation.type': type,
})
const ATTEMPTS = Object.fromEntries(
  QUEUE_SUBSCRIBERS.map(({ name }): [string, SpanDefinition] => [
    name,
    {
      ...{ name: `process ${name}`, kind: 'consumer', others: ['messaging.message.id', 'error.type'] },
      fixed: {
        'messaging.system': 'postgresql',
        'messaging.destination.name': name,
        'messaging.operation.name': 'process',
        'messaging.operation.type': 'process',
      },
    },
  ]),
) as Readonly<Record<QueueSubscriber, SpanDefinition>>
const PART_OF_BATCH = ['messaging.message.id', 'messaging.batch.message_count', 'error.type']

/**
 * The spans, by OpenTelemetry's semantic conventions 1.45. A test compares them with docs/operate/traces.md. No
 * attribute may contain personal data: docs/decisions/operations-traces.md.
 */
export const SPANS = {
  request: {
    ...{ name: '{method} {route}', kind: 'server', fixed: {} },
    others: ['http.request.method', 'http.route', 'http.response.status_code', 'error.type'],
  },
  placeOrder: { name: 'place order', kind: 'internal', fixed: {}, others: ['error.type'] },
  storeOrders: {
    ...{ name: 'SELECT place_orders', kind: 'client' },
    fixed: { 'db.system.name': 'postgresql', 'db.query.summary': 'SELECT place_orders' },
    others: ['db.operation.batch.size', 'error.type'],
  },
  publish: { name: 'send orders', kind: 'producer', fixed: ofTopic('send', 'send'), others: ['messaging.system', ...PART_OF_BATCH] },
  ...ATTEMPTS,
  smtp: { name: 'send mail', kind: 'client', fixed: {}, others: ['error.type'] },
  post: {
    ...{ name: 'POST', kind: 'client', fixed: { 'http.request.method': 'POST' } },
    others: ['server.address', 'server.port', 'http.response.status_code', 'error.type'],
  },
  lake: {
    ...{ name: 'process orders', kind: 'consumer' },
    fixed: { ...ofTopic('process', 'process'), 'messaging.consumer.group.name': 'lake' },
    others: ['messaging.system', ...PART_OF_BATCH],
  },
} as const satisfies Record<string, SpanDefinition>

export type SpanType = Exclude<keyof typeof SPANS, 'request'>
export type SpanAttributes = Readonly<Record<string, string | number>>

export interface Span {
  /** The W3C trace context for work within the span. */
  readonly traceparent: string
  /** Ends the span. `error` is an error, or one of a few words. Null means success. */
  end(error?: unknown, attributes?: SpanAttributes): void
}

export interface RequestSpan {
  readonly traceparent: string
  /** `route` is the pattern, undefined for an unknown address. */
  end(request: { method: string; route: string | undefined; status: number }): void
}

/** The trace context and id of an event. */
export interface TracedPart {
  id?: string
  traceparent?: string | undefined
}

/** Makes spans. Never throws and never waits. A process without one has traces off. */
export interface Tracing {
  /** `caller` is the request's trace context, or null. The sampler decides. `startTime` is by `performance.now`. */
  startRequest(caller: string | null, startTime?: number): RequestSpan
  /** Starts a span, which is recorded if `parent` is. An invalid trace context counts as no parent. */
  start(type: SpanType, parent: string | null | undefined, attributes?: SpanAttributes): Span
  /**
   * Starts a span in the trace of each part, at most 256, with links between the first and the others. `startTime` is
   * by `performance.now`. Call the result once the work has ended.
   */
  startBatch(type: SpanType, parts: readonly TracedPart[], attributes?: SpanAttributes, startTime?: number): (error?: unknown) => void
  /** Exports the remaining spans for at most two seconds. Idempotent. */
  stop(): Promise<void>
}
