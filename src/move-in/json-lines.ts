import type { TSchema } from 'typebox'
import type { Validator } from 'typebox/schema'
import { decode, isBlank, splitLines } from '../catalogue/import/byte-lines.ts'
import { InvalidLine, quote } from '../catalogue/import/imported-product.ts'
import { findExcess } from '../http/json-limits.ts'
import { findUnstorableText, UNSTORABLE } from '../http/storable-text.ts'

export type JsonLine = { line: number; value: unknown } | { line: number; error: string }

/** More than an order of 1,000 lines has. */
const MAX_VALUES = 20_000

/** Reads NDJSON in UTF-8. Skips blank lines. Throws only errors of `source`. A line has at most 1 MiB. */
export async function* readJsonLines(source: AsyncIterable<Uint8Array>): AsyncGenerator<JsonLine> {
  for await (const line of splitLines(source, { skipsBlank: true })) {
    if (isBlank(line)) continue
    try {
      yield { line: line.line, value: parse(line.bytes) }
    } catch (error) {
      if (!(error instanceof InvalidLine)) throw error
      yield { line: line.line, error: error.message }
    }
  }
}

function parse(bytes: Buffer | null): unknown {
  const text = decode(bytes)
  const excess = bytes === null ? null : findExcess(bytes, MAX_VALUES)
  if (excess !== null) throw new InvalidLine(`the line ${excess}`)
  try {
    return JSON.parse(text)
  } catch {
    // V8's own message would repeat the line, which contains personal data.
    throw new InvalidLine('the line is not valid JSON')
  }
}

// The error of TypeBox for a property that the schema does not have.
const NOT_IN_SCHEMA = 'schema is false'

/** Checks a line. Throws InvalidLine with the first fault, which names the place and never the value. */
export function checkLine<T>(check: Validator<TSchema, unknown>, value: unknown): T {
  if (check.Check(value)) {
    const [unstorable] = findUnstorableText(value)
    if (unstorable !== undefined) throw new InvalidLine(`${unstorable.join('.')} ${UNSTORABLE}`)
    return value as T
  }
  const [, [error]] = check.Errors(value)
  const { instancePath = '', message = 'is not acceptable' } = error ?? {}
  const path = instancePath.split('/').slice(1)
  const unknown = message === NOT_IN_SCHEMA ? path.pop() : undefined
  const place = path.length === 0 ? 'the line' : path.join('.')
  throw new InvalidLine(unknown === undefined ? `${place} ${message}` : `${place} has the unknown property ${quote(unknown)}`)
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/
const DAY_MS = 86_400_000

/** Reads an RFC 3339 time from 1970 until now. Throws InvalidLine. */
export function readTime(text: string, place: string, now: Date): Date {
  const time = new Date(text)
  if (!TIME.test(text) || Number.isNaN(time.getTime()) || !isDay(text)) {
    throw new InvalidLine(`${place} must be a time such as 2026-03-01T12:00:00Z`)
  }
  if (time.getTime() < DAY_MS) throw new InvalidLine(`${place} is before 1970-01-02`)
  if (time > now) throw new InvalidLine(`${place} is in the future`)
  return time
}

/** `Date` reads 30 February as 2 March. */
function isDay(text: string): boolean {
  const day = text.slice(0, 10)
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day)
}

/** The result has the reason when `read` throws InvalidLine. */
export function interpret<T>(line: JsonLine, read: (value: unknown) => T): { item: T; value: unknown } | { error: string } {
  if ('error' in line) return line
  try {
    return { item: read(line.value), value: line.value }
  } catch (error) {
    if (error instanceof InvalidLine) return { error: error.message }
    throw error
  }
}
