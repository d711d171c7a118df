import { randomUUID } from 'node:crypto'
import {
  type Context,
  DiagLogLevel,
  diag,
  ROOT_CONTEXT,
  type Span as SdkSpan,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { defaultResource, resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'
import packageJson from '../../package.json' with { type: 'json' }
import type { TracesConfig } from '../config/traces.ts'
import { isSampled, isTraceparent, newTraceparent, readTraceparent, spanIdOf, traceIdOf } from '../traceparent.ts'
import { withinMs } from '../within-ms.ts'
import { createSpanExporter } from './span-exporter.ts'
import { type RequestSpan, SPANS, type Span, type SpanAttributes, type TracedPart, type Tracing } from './tracing.ts'

/** The most spans of one batch, and therefore the most links of its first span. */
const MAX_PARTS = 256
const STOP_MS = 2_000
const KINDS = {
  server: SpanKind.SERVER,
  internal: SpanKind.INTERNAL,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
}
// The methods of RFC 9110 and RFC 5789. A client could send any other word, and each would be a new value.
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'CONNECT', 'TRACE'])
const WARNING_INTERVAL_MS = 60_000

/** Global state is only where the SDK logs, so two stores of a process have their own tracing. */
export function createTracing(config: TracesConfig, logger: Logger): Tracing {
  const { batch, serviceName, attributes } = config
  const exporter = createSpanExporter(config, logger)
  const provider = new TracerProvider({
    sampler: samplerOf(config),
    resource: defaultResource().merge(
      resourceFromAttributes({
        ...{ 'service.version': packageJson.version, 'service.instance.id': randomUUID() },
        ...attributes,
        'service.name': serviceName,
      }),
    ),
    spanLimits: { attributeCountLimit: 32, attributeValueLengthLimit: 256, linkCountLimit: MAX_PARTS, eventCountLimit: 0 },
    spanProcessors: [
      new BatchSpanProcessor({
        exporter,
        maxQueueSize: batch.maxQueue,
        maxExportBatchSize: batch.maxSpans,
        scheduledDelayMillis: batch.delayMs,
        exportTimeoutMillis: batch.timeoutMs,
      }),
    ],
  })
  const warn = warnSparsely(logger)
  diag.setLogger({ error: warn, warn, info() {}, debug() {}, verbose() {} }, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
  const tracer = provider.getTracer('storefront', packageJson.version)
  let stopped: Promise<void> | undefined

  function begin(
    type: keyof typeof SPANS,
    context: Context,
    options: { attributes?: SpanAttributes; startTime?: number; links?: SpanContext[] },
  ) {
    const { name, kind, fixed } = SPANS[type]
    const { startTime, links = [] } = options
    return tracer.startSpan(
      name,
      {
        kind: KINDS[kind],
        attributes: { ...fixed, ...options.attributes },
        links: links.map((link) => ({ context: link })),
        ...(startTime === undefined ? {} : { startTime }),
      },
      context,
    )
  }

  return {
    startRequest(caller, startTime): RequestSpan {
      const span = begin('request', below(caller), startTime === undefined ? {} : { startTime: epochOf(startTime) })
      return {
        traceparent: format(span.spanContext()),
        end({ method, route, status }) {
          if (!span.isRecording()) return
          const known = METHODS.has(method) ? method : '_OTHER'
          span.updateName([known === '_OTHER' ? 'HTTP' : known, ...(route === undefined ? [] : [route])].join(' '))
          span.setAttributes({
            'http.request.method': known,
            ...(route === undefined ? {} : { 'http.route': route }),
            'http.response.status_code': status,
          })
          finish(span, status >= 500 ? String(status) : null)
        },
      }
    },
    start(type, parent, attributes = {}): Span {
      const context = readTraceparent(parent)
      if (context === null) return { traceparent: newTraceparent(), end() {} }
      if (!isSampled(context)) return { traceparent: context, end() {} }
      const span = begin(type, below(context), { attributes })
      return {
        traceparent: format(span.spanContext()),
        end(error = null, later = {}) {
          span.setAttributes(later)
          finish(span, error)
        },
      }
    },
    startBatch(type, parts, attributes = {}, startTime = performance.now()) {
      const sampled = sampledOf(parts)
      const size =
        parts.length === 1 ? {} : { [type === 'storeOrders' ? 'db.operation.batch.size' : 'messaging.batch.message_count']: parts.length }
      return (error = null) => {
        // Both times use one offset. The SDK would convert each time with another one.
        const endTime = Date.now()
        const since = endTime - (performance.now() - startTime)
        const others = sampled.slice(1).map(({ traceparent }) => contextOf(traceparent))
        let first: SpanContext | undefined
        for (const { id, traceparent } of sampled) {
          const span = begin(type, below(traceparent), {
            attributes: { ...size, ...attributes, ...(id === undefined ? {} : { 'messaging.message.id': id }) },
            ...{ startTime: since, links: first === undefined ? others : [first] },
          })
          first ??= span.spanContext()
          finish(span, error, endTime)
        }
      }
    },
    stop() {
      stopped ??= shutDown()
      return stopped
    },
  }

  async function shutDown(): Promise<void> {
    await withinMs(
      STOP_MS,
      provider.shutdown().catch(() => {}),
      null,
    )
    exporter.abort()
    diag.disable()
  }
}

function epochOf(time: number): number {
  return Date.now() - (performance.now() - time)
}

function sampledOf(parts: readonly TracedPart[]) {
  const sampled: { id: string | undefined; traceparent: string }[] = []
  for (const { id, traceparent } of parts) {
    if (isTraceparent(traceparent) && isSampled(traceparent)) sampled.push({ id, traceparent })
    if (sampled.length === MAX_PARTS) break
  }
  return sampled
}

function finish(span: SdkSpan, error: unknown, endTime?: number): void {
  if (error !== null) span.setAttribute('error.type', errorTypeOf(error)).setStatus({ code: SpanStatusCode.ERROR })
  span.end(endTime)
}

/** An error's code or class, because its message may contain anything. */
function errorTypeOf(error: unknown): string {
  if (typeof error === 'string') return error
  if (!(error instanceof Error)) return '_OTHER'
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? code : error.name
}

/** The context of `parent`. For null, the root context. */
function below(parent: string | null): Context {
  return parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, contextOf(parent))
}

function contextOf(traceparent: string): SpanContext {
  return { traceId: traceIdOf(traceparent), spanId: spanIdOf(traceparent), traceFlags: isSampled(traceparent) ? 1 : 0, isRemote: true }
}

function format({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-0${traceFlags & 1}`
}

function samplerOf({ sampler, ratio }: TracesConfig): Sampler {
  const name = sampler.replace('parentbased_', '')
  const root =
    name === 'always_on' ? new AlwaysOnSampler() : name === 'always_off' ? new AlwaysOffSampler() : new TraceIdRatioBasedSampler(ratio)
  return name === sampler ? root : new ParentBasedSampler({ root })
}

/** Logs warnings, such as those of dropped spans, at most once a minute. */
function warnSparsely(logger: Logger): (...parts: unknown[]) => void {
  let next = 0
  return (...parts) => {
    const now = performance.now()
    if (now < next) return
    next = now + WARNING_INTERVAL_MS
    const reason = parts.filter((part) => typeof part === 'string').map(messageOf)
    logger.warn({ reason: reason.join(': ').slice(0, 300) }, 'traces are incomplete; further reasons are left out for a minute')
  }
}

/** The message in the SDK's log line. The SDK logs an error as JSON with its stack. */
function messageOf(text: string): string {
  if (!text.startsWith('{')) return text
  try {
    const { message } = JSON.parse(text) as { message?: unknown }
    return typeof message === 'string' ? message : text
  } catch (error) {
    if (error instanceof SyntaxError) return text
    throw error
  }
}
