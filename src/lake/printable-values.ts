import {
  DuckDBArrayValue,
  DuckDBListValue,
  DuckDBMapValue,
  DuckDBStructType,
  DuckDBStructValue,
  DuckDBTimestampTZValue,
  type DuckDBType,
  type DuckDBValue,
} from '@duckdb/node-api'

/**
 * Throws for structs with fields that the objects of DuckDB's client would lose. These are `__proto__`, and all unnamed
 * fields except one.
 */
export function assertPrintable(names: readonly string[], types: readonly DuckDBType[]): void {
  for (const [index, type] of types.entries()) {
    // A loop replaces recursion, because the SQL text decides how deep the type is.
    const waiting: unknown[] = [type]
    while (waiting.length > 0) {
      const part = waiting.pop()
      if (typeof part !== 'object' || part === null) continue
      if (part instanceof DuckDBStructType && !hasOwnNames(part.entryNames)) {
        throw new Error(`The struct in the column ${names[index]} has unnamed fields: name them, or cast it to json`)
      }
      waiting.push(...Object.values(part))
    }
  }
}

function hasOwnNames(names: readonly string[]): boolean {
  return new Set(names).size === names.length && !names.includes('__proto__')
}

/** Large integers and decimals become exact text, lists and structs JSON text, and timestamps RFC 3339 UTC. */
export function toPrintable(value: DuckDBValue): null | boolean | number | string {
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value
  if (value instanceof DuckDBTimestampTZValue) return toRfc3339(value)
  return NESTED.some((type) => value instanceof type) ? toJson(value) : String(value)
}

const NESTED = [DuckDBListValue, DuckDBArrayValue, DuckDBStructValue, DuckDBMapValue]

// JSON.stringify does not support bigint, and an amount must stay a number in the JSON.
function toJson(value: DuckDBValue): string {
  if (value instanceof DuckDBListValue || value instanceof DuckDBArrayValue) return `[${value.items.map(toJson).join(',')}]`
  if (value instanceof DuckDBStructValue) return toJsonObject(Object.entries(value.entries))
  if (value instanceof DuckDBMapValue) return toJsonObject(value.entries.map(({ key, value }) => [String(toPrintable(key)), value]))
  return typeof value === 'bigint' ? String(value) : JSON.stringify(toPrintable(value))
}

function toJsonObject(entries: [string, DuckDBValue][]): string {
  return `{${entries.map(([key, value]) => `${JSON.stringify(key)}:${toJson(value)}`).join(',')}}`
}

function toRfc3339(value: DuckDBTimestampTZValue): string {
  const microseconds = ((value.micros % 1_000n) + 1_000n) % 1_000n
  const date = new Date(Number((value.micros - microseconds) / 1_000n))
  if (!value.isFinite || Number.isNaN(date.getTime())) return String(value)
  return microseconds === 0n ? date.toISOString() : date.toISOString().replace('Z', `${String(microseconds).padStart(3, '0')}Z`)
}

export function toOneLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  const [text = ''] = message.split(/\n\s*LINE \d+:/)
  return text.replace(/\s+/g, ' ').trim()
}
