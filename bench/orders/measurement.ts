/** What came of a load. Latencies are milliseconds. */
export interface Measurement {
  perSecond: number
  p50: number
  p95: number
  p99: number
  /** Answers that were not the expected ones; a figure with any of these is worth nothing. */
  failures: number
}

export function summarise(latenciesMs: number[], seconds: number, failures: number): Measurement {
  const sorted = Float64Array.from(latenciesMs).sort()
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  return { perSecond: sorted.length / seconds, p50: at(0.5), p95: at(0.95), p99: at(0.99), failures }
}

/** The run in the middle by throughput. */
export function median(runs: readonly Measurement[]): Measurement {
  const middle = runs.toSorted((a, b) => a.perSecond - b.perSecond)[Math.floor(runs.length / 2)]
  if (middle === undefined) throw new RangeError('no runs')
  return middle
}

export function printTable(header: readonly string[], rows: readonly (string | number)[][]): void {
  console.log(`| ${header.join(' | ')} |`)
  console.log(`|${header.map(() => '---|').join('')}`)
  for (const row of rows) console.log(`| ${row.join(' | ')} |`)
}
