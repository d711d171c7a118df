import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { decodeTraceRequest } from './otlp-protobuf.ts'

export interface OtlpReceiver {
  /** The value of OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly url: string
  /** The file of JSON lines, one for each export, as the collector's file exporter writes them. */
  readonly file: string
  /** The requests so far, also those that were refused. */
  readonly requests: { path: string; headers: IncomingHttpHeaders }[]
  /** Sets how exports are answered from now on; initially they are taken. */
  answer(how: number | ((response: ServerResponse) => void)): void
  /** Ends it; the port is free then. Idempotent. */
  stop(): Promise<void>
}

/**
 * A receiver of OTLP over HTTP (https://opentelemetry.io/docs/specs/otlp/#otlphttp), in protobuf and in JSON,
 * compressed or not. It stands for a collector with the receiver `otlp` and the exporter `file`.
 */
export async function startOtlpReceiver(t: Cleanup, port = 0): Promise<OtlpReceiver> {
  const folder = mkdtempSync(join(tmpdir(), 'storefront-test-'))
  const file = join(folder, 'traces.jsonl')
  writeFileSync(file, '')
  const requests: OtlpReceiver['requests'] = []
  let respond: (response: ServerResponse) => void = () => {}
  let isTaking = true
  const server = createServer((request, response) => {
    read(request).then(
      (body) => {
        requests.push({ path: request.url ?? '', headers: request.headers })
        if (!isTaking) return respond(response)
        const contentType = request.headers['content-type'] ?? ''
        const bytes = request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body
        const isJson = contentType === 'application/json'
        if (request.url !== '/v1/traces' || !(isJson || contentType === 'application/x-protobuf')) return response.writeHead(400).end()
        appendFileSync(file, `${JSON.stringify(isJson ? JSON.parse(bytes.toString()) : decodeTraceRequest(bytes))}\n`)
        return response.writeHead(200, { 'content-type': contentType }).end(isJson ? '{}' : '')
      },
      () => {},
    )
  })
  const { promise, resolve } = Promise.withResolvers<void>()
  server.listen(port, '127.0.0.1', resolve)
  await promise
  const { port: bound } = server.address() as { port: number }
  const stop = async () => {
    server.closeAllConnections()
    server.close()
  }
  onCleanup(t, async () => {
    await stop()
    rmSync(folder, { recursive: true, force: true })
  })
  return {
    url: `http://127.0.0.1:${bound}`,
    file,
    requests,
    answer(how) {
      isTaking = false
      respond = typeof how === 'number' ? (response) => void response.writeHead(how).end() : how
      if (how === 200) isTaking = true
    },
    stop,
  }
}

async function read(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

/** A span as it is in the file, with the service that sent it. */
export interface ReceivedSpan {
  service: string
  traceId: string
  spanId: string
  parentSpanId: string
  name: string
  kind: string
  attributes: Record<string, string | number | boolean>
  links: { traceId: string; spanId: string }[]
  /** Milliseconds since 1970. */
  start: number
  end: number
  isError: boolean
}

interface Value {
  stringValue?: string
  intValue?: string | number
  doubleValue?: number
  boolValue?: boolean
}

interface Line {
  resourceSpans: {
    resource: { attributes: { key: string; value: Value }[] }
    scopeSpans: { spans: Record<string, never>[] }[]
  }[]
}

const KINDS = ['unspecified', 'internal', 'server', 'client', 'producer', 'consumer']

/** The spans of a file of OTLP JSON lines, in the order of their begin. */
export function readSpans(file: string): ReceivedSpan[] {
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean)
  const spans = lines.flatMap((line) =>
    (JSON.parse(line) as Line).resourceSpans.flatMap(({ resource, scopeSpans }) => {
      const service = String(toAttributes(resource.attributes)['service.name'])
      return scopeSpans.flatMap((scope) => scope.spans.map((span) => toSpan(service, span)))
    }),
  )
  return spans.toSorted((a, b) => a.start - b.start)
}

// biome-ignore lint/suspicious/noExplicitAny: the JSON of OTLP
function toSpan(service: string, span: any): ReceivedSpan {
  return {
    service,
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentSpanId ?? '',
    name: span.name,
    kind: KINDS[span.kind] ?? '',
    attributes: toAttributes(span.attributes ?? []),
    links: (span.links ?? []).map(({ traceId, spanId }: { traceId: string; spanId: string }) => ({ traceId, spanId })),
    start: Number(span.startTimeUnixNano) / 1e6,
    end: Number(span.endTimeUnixNano) / 1e6,
    isError: span.status?.code === 2,
  }
}

function toAttributes(list: { key: string; value: Value }[]): Record<string, string | number | boolean> {
  return Object.fromEntries(
    list.map(({ key, value }) => [
      key,
      value.stringValue ?? value.boolValue ?? value.doubleValue ?? (value.intValue === undefined ? '' : Number(value.intValue)),
    ]),
  )
}
