/** The result of a load. Latencies are in milliseconds. */
export interface Measurement {
  perSecond: number
  p50: number
  p95: number
  p99: number
  max: number
  /** The number of unexpected answers. A measurement with any of these is worthless. */
  failures: number
}

export function summarise(latenciesMs: readonly number[], seconds: number, failures = 0): Measurement {
  const sorted = Float64Array.from(latenciesMs).sort()
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  return { perSecond: sorted.length / seconds, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1), failures }
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  return ((sorted[Math.floor(middle)] ?? Number.NaN) + (sorted[Math.ceil(middle) - 1] ?? Number.NaN)) / 2
}

/** A Markdown table. */
export function table(header: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  return [header, header.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |\n`).join('')
}
