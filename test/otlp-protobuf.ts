/**
 * Decodes `ExportTraceServiceRequest` of OTLP 1.x into its JSON form. The fields and their numbers are those of the
 * definitions at https://github.com/open-telemetry/opentelemetry-proto: collector/trace/v1, trace/v1, resource/v1 and
 * common/v1. As protobuf asks for, unknown fields are skipped.
 */
export function decodeTraceRequest(bytes: Buffer): unknown {
  return decode(bytes, REQUEST)
}

type Read = 'string' | 'hex' | 'fixed64' | 'fixed32' | 'varint' | 'int64' | 'bool' | 'double' | Message
interface Message {
  [field: number]: readonly [name: string, read: () => Read, isList?: 'list']
}

const text = () => 'string' as const
const hex = () => 'hex' as const
const nanoseconds = () => 'fixed64' as const
const count = () => 'varint' as const

const VALUE: Message = {
  1: ['stringValue', text],
  2: ['boolValue', () => 'bool'],
  3: ['intValue', () => 'int64'],
  4: ['doubleValue', () => 'double'],
  5: ['arrayValue', () => VALUES],
}
const VALUES: Message = { 1: ['values', () => VALUE, 'list'] }
const ATTRIBUTE: Message = { 1: ['key', text], 2: ['value', () => VALUE] }
const RESOURCE: Message = { 1: ['attributes', () => ATTRIBUTE, 'list'], 2: ['droppedAttributesCount', count] }
const SCOPE: Message = {
  1: ['name', text],
  2: ['version', text],
  3: ['attributes', () => ATTRIBUTE, 'list'],
  4: ['droppedAttributesCount', count],
}
const EVENT: Message = {
  1: ['timeUnixNano', nanoseconds],
  2: ['name', text],
  3: ['attributes', () => ATTRIBUTE, 'list'],
  4: ['droppedAttributesCount', count],
}
const LINK: Message = {
  1: ['traceId', hex],
  2: ['spanId', hex],
  3: ['traceState', text],
  4: ['attributes', () => ATTRIBUTE, 'list'],
  5: ['droppedAttributesCount', count],
  6: ['flags', () => 'fixed32'],
}
const STATUS: Message = { 2: ['message', text], 3: ['code', count] }
const SPAN: Message = {
  1: ['traceId', hex],
  2: ['spanId', hex],
  3: ['traceState', text],
  4: ['parentSpanId', hex],
  5: ['name', text],
  6: ['kind', count],
  7: ['startTimeUnixNano', nanoseconds],
  8: ['endTimeUnixNano', nanoseconds],
  9: ['attributes', () => ATTRIBUTE, 'list'],
  10: ['droppedAttributesCount', count],
  11: ['events', () => EVENT, 'list'],
  12: ['droppedEventsCount', count],
  13: ['links', () => LINK, 'list'],
  14: ['droppedLinksCount', count],
  15: ['status', () => STATUS],
  16: ['flags', () => 'fixed32'],
}
const SCOPE_SPANS: Message = { 1: ['scope', () => SCOPE], 2: ['spans', () => SPAN, 'list'], 3: ['schemaUrl', text] }
const RESOURCE_SPANS: Message = { 1: ['resource', () => RESOURCE], 2: ['scopeSpans', () => SCOPE_SPANS, 'list'], 3: ['schemaUrl', text] }
const REQUEST: Message = { 1: ['resourceSpans', () => RESOURCE_SPANS, 'list'] }

function decode(bytes: Buffer, message: Message): Record<string, unknown> {
  const result: Record<string, unknown> = {}
  for (let at = 0; at < bytes.length; ) {
    const [tag, afterTag] = varint(bytes, at)
    const [raw, next] = field(bytes, afterTag, Number(tag & 7n))
    at = next
    const known = message[Number(tag >> 3n)]
    if (known === undefined) continue
    const [name, read, isList] = known
    const value = convert(raw, read())
    if (isList === undefined) result[name] = value
    else result[name] = [...((result[name] as unknown[] | undefined) ?? []), value]
  }
  return result
}

/** The wire formats: https://protobuf.dev/programming-guides/encoding/. */
function field(bytes: Buffer, at: number, wireType: number): [bigint | Buffer, number] {
  if (wireType === 0) return varint(bytes, at)
  if (wireType === 1) return [bytes.subarray(at, at + 8), at + 8]
  if (wireType === 5) return [bytes.subarray(at, at + 4), at + 4]
  if (wireType !== 2) throw new Error(`wire type ${wireType}`)
  const [length, start] = varint(bytes, at)
  const end = start + Number(length)
  if (end > bytes.length) throw new Error('the message is cut off')
  return [bytes.subarray(start, end), end]
}

function varint(bytes: Buffer, start: number): [bigint, number] {
  let value = 0n
  for (let at = start; at < Math.min(bytes.length, start + 10); at++) {
    const byte = bytes.readUInt8(at)
    value |= BigInt(byte & 0x7f) << BigInt(7 * (at - start))
    if (byte < 0x80) return [value, at + 1]
  }
  throw new Error('the number is cut off')
}

function convert(raw: bigint | Buffer, read: Read): unknown {
  if (typeof raw === 'bigint') return read === 'bool' ? raw === 1n : read === 'int64' ? String(BigInt.asIntN(64, raw)) : Number(raw)
  if (typeof read === 'object') return decode(raw, read)
  if (read === 'hex') return raw.toString('hex')
  if (read === 'fixed64') return String(raw.readBigUInt64LE())
  if (read === 'fixed32') return raw.readUInt32LE()
  return read === 'double' ? raw.readDoubleLE() : raw.toString()
}
