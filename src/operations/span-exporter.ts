import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { OTLPExporterBase } from '@opentelemetry/otlp-exporter-base'
import { createOtlpHttpExportDelegate } from '@opentelemetry/otlp-exporter-base/node-http'
import { JsonTraceSerializer, ProtobufTraceSerializer, TraceExporterMetricsHelper } from '@opentelemetry/otlp-transformer'
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace'
import type { Logger } from 'pino'
import type { TracesConfig } from '../config/traces.ts'
import { OperatorError } from '../errors.ts'
import { every } from '../loop.ts'

// The most exports that wait for the receiver. Each has up to OTEL_BSP_MAX_EXPORT_BATCH_SIZE spans.
const EXPORTS_IN_FLIGHT = 4
const FORMATS = {
  'http/protobuf': { serializer: ProtobufTraceSerializer, contentType: 'application/x-protobuf', component: 'otlp_http_span_exporter' },
  'http/json': { serializer: JsonTraceSerializer, contentType: 'application/json', component: 'otlp_http_json_span_exporter' },
}

/** Exports by OTLP over HTTP. An outage of the receiver causes two log lines, at its beginning and at its end. */
export function createSpanExporter(config: TracesConfig, logger: Logger): SpanExporter & { abort(): void } {
  const { serializer, contentType, component } = FORMATS[config.protocol]
  const agents = { 'http:': new http.Agent({ keepAlive: true }), 'https:': new https.Agent({ keepAlive: true, ...authority(config) }) }
  let isAborted = false
  const sender = new OTLPExporterBase<ReadableSpan[]>(
    createOtlpHttpExportDelegate(
      {
        url: config.url,
        headers: async () => {
          // The SDK calls this before each attempt, and its retries cannot be cancelled otherwise.
          if (isAborted) throw new Error('the process is stopping')
          return { ...config.headers, 'content-type': contentType }
        },
        timeoutMillis: config.timeoutMs,
        concurrencyLimit: EXPORTS_IN_FLIGHT,
        compression: config.compression,
        agentFactory: (protocol) => (protocol === 'https:' ? agents['https:'] : agents['http:']),
      },
      serializer,
      component,
      TraceExporterMetricsHelper,
      undefined,
    ),
  )
  /** The number of spans lost since the first failed export. Null while exports succeed. */
  let lost: number | null = null

  function report(error: Error | undefined, spans: number): void {
    if (error === undefined) {
      if (lost !== null) logger.info({ lost }, 'spans are exported again')
      lost = null
    } else {
      if (lost === null) logger.warn({ reason: reasonOf(error) }, 'spans cannot be exported: they are lost until the receiver takes them')
      lost = (lost ?? 0) + spans
    }
  }

  function cutConnections(): void {
    for (const agent of Object.values(agents)) agent.destroy()
  }

  return {
    export(spans, done) {
      let isLate = false
      // The SDK's own timeout begins again with each byte that arrives. Other exports that this cuts are retried.
      const endDeadline = every(config.timeoutMs, () => {
        isLate = true
        cutConnections()
      })
      sender.export(spans, ({ code, error }) => {
        endDeadline()
        const reason = isLate ? new Error(`no complete answer within ${config.timeoutMs} ms`) : (error ?? new Error('unknown'))
        if (!isAborted) report(code === 0 ? undefined : reason, spans.length)
        // The failure is already logged here. The SDK would log every one.
        done({ code: 0 })
      })
    },
    shutdown: () => sender.shutdown(),
    abort() {
      isAborted = true
      cutConnections()
    },
  }
}

/** The reason in one line, without the answer's body. */
function reasonOf(error: Error): string {
  const { code } = error as { code?: string | number }
  const text = [code, error.message].filter((part) => part !== undefined && part !== '').join(': ')
  return text.replace(/\s+/g, ' ').slice(0, 300)
}

function authority({ caFile }: TracesConfig): { ca?: string } {
  if (caFile === null) return {}
  try {
    return { ca: readFileSync(caFile, 'utf8') }
  } catch (error) {
    const reason = `OTEL_EXPORTER_OTLP_CERTIFICATE: ${caFile} cannot be read (${(error as NodeJS.ErrnoException).code})`
    throw new OperatorError(reason, { cause: error })
  }
}
