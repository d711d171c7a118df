import type { Kind, Settings, Unset } from './settings.ts'

const PROTOCOLS = ['http/protobuf', 'http/json'] as const
const COMPRESSIONS = ['none', 'gzip'] as const
const SAMPLERS = [
  ...(['parentbased_always_on', 'parentbased_always_off', 'parentbased_traceidratio'] as const),
  ...(['always_on', 'always_off', 'traceidratio'] as const),
] as const
const DEFAULT_ENDPOINT = 'http://localhost:4318'

export type TracesConfig = NonNullable<ReturnType<typeof readTraces>>

/**
 * Reads the trace settings. Headers and endpoints may contain secrets and must not be logged. Settings:
 * https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
 */
export function readTraces(read: Settings) {
  const { setting, oneOf, integer, optional, isSet, problems } = read
  const isDisabled = oneOf('OTEL_SDK_DISABLED', ['true', 'false'], 'false') === 'true'
  const exporter = setting<'otlp' | 'none'>(
    'OTEL_TRACES_EXPORTER',
    { mustBe: 'one of otlp, none', parse: (text) => (text === 'otlp' || text === 'none' ? text : undefined) },
    { value: null, documented: 'otlp if an endpoint is set' },
  )
  const base = read.url('OTEL_EXPORTER_OTLP_ENDPOINT', ['http:', 'https:'], DEFAULT_ENDPOINT)
  const endpoint = read.url('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', ['http:', 'https:'], 'OTEL_EXPORTER_OTLP_ENDPOINT and /v1/traces')
  const headers = {
    ...setting('OTEL_EXPORTER_OTLP_HEADERS', HEADERS, { value: {}, documented: '' }),
    ...setting('OTEL_EXPORTER_OTLP_TRACES_HEADERS', HEADERS, { value: {}, documented: '' }),
  }
  const protocol = forTraces<(typeof PROTOCOLS)[number]>(
    'PROTOCOL',
    (name, unset) => setting(name, choice(PROTOCOLS), unset),
    'http/protobuf',
  )
  const compression = forTraces<(typeof COMPRESSIONS)[number]>(
    'COMPRESSION',
    (name, unset) => setting(name, choice(COMPRESSIONS), unset),
    'none',
  )
  const timeoutMs = forTraces('TIMEOUT', (name, unset) => setting(name, milliseconds(600_000), unset), 10_000)
  const caFile = forTraces<string | null>(
    'CERTIFICATE',
    (name, { value, documented }) => optional(name, 'a PEM file', documented || 'the authorities that Node.js knows') ?? value,
    null,
  )
  const serviceName = optional('OTEL_SERVICE_NAME', 'any text', 'storefront')
  const attributes = setting('OTEL_RESOURCE_ATTRIBUTES', LIST, { value: {}, documented: '' })
  const sampler = oneOf('OTEL_TRACES_SAMPLER', SAMPLERS, 'parentbased_always_on')
  const ratio = setting('OTEL_TRACES_SAMPLER_ARG', RATIO, { value: 1, documented: '1' })
  const batch = {
    delayMs: integer('OTEL_BSP_SCHEDULE_DELAY', 5_000, 1, 600_000),
    timeoutMs: integer('OTEL_BSP_EXPORT_TIMEOUT', 30_000, 1, 600_000),
    maxQueue: integer('OTEL_BSP_MAX_QUEUE_SIZE', 2_048, 1, 65_536),
    maxSpans: integer('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', 512, 1, 65_536),
  }
  if (batch.maxSpans > batch.maxQueue) problems.push('OTEL_BSP_MAX_EXPORT_BATCH_SIZE must not be greater than OTEL_BSP_MAX_QUEUE_SIZE')
  const isOn = exporter === 'otlp' || (exporter === null && (base !== null || endpoint !== null) && !isSet('OTEL_TRACES_EXPORTER'))
  if (isDisabled || !isOn) return null
  return Object.freeze({
    ...{ url: endpoint ?? below(base ?? DEFAULT_ENDPOINT), headers, protocol, compression, timeoutMs, caFile },
    ...{ serviceName: serviceName ?? attributes['service.name'] ?? 'storefront', attributes, sampler, ratio, batch },
  })
}

function forTraces<T>(name: string, read: (name: string, unset: Unset<T>) => T, fallback: T): T {
  const general = read(`OTEL_EXPORTER_OTLP_${name}`, { value: fallback, documented: fallback === null ? '' : String(fallback) })
  return read(`OTEL_EXPORTER_OTLP_TRACES_${name}`, { value: general, documented: `OTEL_EXPORTER_OTLP_${name}` })
}

function choice<T extends string>(allowed: readonly T[]) {
  return { mustBe: `one of ${allowed.join(', ')}`, parse: (text: string) => allowed.find((value) => value === text) }
}

function milliseconds(max: number) {
  const parse = (text: string) => (/^[1-9]\d{0,8}$/.test(text) && Number(text) <= max ? Number(text) : undefined)
  return { mustBe: `a whole number from 1 to ${max}`, parse }
}

const RATIO = {
  mustBe: 'a number from 0 to 1',
  parse: (text: string) => (/^\d*\.?\d+(e-?\d+)?$/i.test(text) && Number(text) <= 1 ? Number(text) : undefined),
}

const LIST: Kind<Record<string, string>> = {
  mustBe: 'pairs such as deployment.environment.name=live, separated by commas, percent-encoded',
  parse: parseList,
}

// The grammar of RFC 9110 §5.6.2 and §5.5.
const HEADER_NAME = /^[!#$%&'*+.^_`|~A-Za-z0-9-]+$/
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
const HEADERS: Kind<Record<string, string>> = {
  secrecy: 'secret',
  mustBe: 'pairs such as api-key=secret, separated by commas, percent-encoded',
  parse(text: string) {
    const headers = parseList(text)
    const isHeader = ([name, value]: [string, string]) => HEADER_NAME.test(name) && HEADER_VALUE.test(value)
    return headers !== undefined && Object.entries(headers).every(isHeader) ? headers : undefined
  },
}

function parseList(text: string): Record<string, string> | undefined {
  const pairs = text.split(',').flatMap((pair) => pair.trim() || [])
  try {
    const entries = pairs.map((pair) => {
      const [name = '', ...value] = pair.split('=')
      return [decodeURIComponent(name.trim()), value.length === 0 ? null : decodeURIComponent(value.join('=').trim())] as const
    })
    return entries.every(([name, value]) => name !== '' && value !== null)
      ? (Object.fromEntries(entries) as Record<string, string>)
      : undefined
  } catch {
    return undefined
  }
}

function below(endpoint: string): string {
  const url = new URL(endpoint)
  url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/traces`
  return url.href
}
