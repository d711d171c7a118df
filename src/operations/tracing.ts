import { QUEUE_SUBSCRIBERS, type QueueSubscriber } from '../subscribers.ts'

export interface SpanDefinition {
  /** `{…}` stands for a value. */
  name: string
  kind: 'server' | 'internal' | 'client' | 'producer' | 'consumer'
  /** Attributes with the same value in every span. */
  fixed: Readonly<Record<string, string>>
  /** The names of the other attributes; a span need not have all of them. */
  others: readonly string[]
}

const ofTopic = (operation: string, type: string) => ({
  'messaging.destination.name': 'orders',
  'messaging.operation.name': operation,
  'messaging.operation.type': type,
})
/** An attempt to deliver, of each subscriber with a queue. */
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
 * Every span of the store, after the semantic conventions 1.45 of OpenTelemetry. docs/operate/traces.md has the same table; a test compares
 * the two with each other and with the spans of an order. No attribute may contain personal data: see
 * docs/decisions/operations-traces.md.
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
  /** The W3C trace context of what happens within it. */
  readonly traceparent: string
  /** `error`: an error, or what failed in a word of few values; null when nothing did. */
  end(error?: unknown, attributes?: SpanAttributes): void
}

export interface RequestSpan {
  readonly traceparent: string
  /** `route` is the pattern, undefined for an unknown address. */
  end(request: { method: string; route: string | undefined; status: number }): void
}

/** A part of a batch: its trace context, and the id of its event. */
export interface TracedPart {
  id?: string
  traceparent?: string | undefined
}

/** Records spans. Never throws and never waits. Rooms get it as an argument; without it traces are off. */
export interface Tracing {
  /** `caller` is the request's own trace context, null for none. The sampler decides. `startTime` is by `performance.now`. */
  startRequest(caller: string | null, startTime?: number): RequestSpan
  /** Recorded if `parent` is. Anything but a trace context is no parent: then nothing is recorded. */
  start(type: SpanType, parent: string | null | undefined, attributes?: SpanAttributes): Span
  /**
   * Work on many orders at once: a span in the trace of each, 256 at most, all with the same times. The first has links to the others, and
   * they have one to it. `startTime` is by `performance.now`. Call the result when the work has ended.
   */
  startBatch(type: SpanType, parts: readonly TracedPart[], attributes?: SpanAttributes, startTime?: number): (error?: unknown) => void
  /** Exports the remaining spans, for two seconds at most. Idempotent. */
  stop(): Promise<void>
}
