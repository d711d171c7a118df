import type { Figures } from './figure-schemas.ts'

/** The requests of one method and route in one step. */
export interface RequestRow {
  method: string
  route: string
  step: number
  requests: number
  clientErrors: number
  serverErrors: number
  buckets: number[]
}

type RouteSeries = Figures['requests'][number]

const BUSIEST = 10
const MS = 1_000

/** The busiest routes as series of `count` steps, the rest as one series, and the errors of all. */
export function requestSeries(
  rows: readonly RequestRow[],
  count: number,
  boundsSeconds: readonly number[],
): { series: RouteSeries[]; clientErrors: number[]; serverErrors: number[] } {
  const routes = [...Map.groupBy(rows, ({ method, route }) => `${method} ${route}`)]
    .map(([name, ofRoute]) => ({ name, ofRoute, requests: ofRoute.reduce((total, row) => total + row.requests, 0) }))
    .toSorted((a, b) => b.requests - a.requests || (a.name < b.name ? -1 : 1))
  const series = routes.slice(0, BUSIEST).map(({ ofRoute }) => toSeries(ofRoute, count, boundsSeconds))
  const rest = routes.slice(BUSIEST).flatMap(({ ofRoute }) => ofRoute)
  if (rest.length > 0) series.push({ ...toSeries(rest, count, boundsSeconds), method: null, route: null })
  const clientErrors = Array<number>(count).fill(0)
  const serverErrors = Array<number>(count).fill(0)
  for (const { step, clientErrors: client, serverErrors: server } of rows) {
    clientErrors[step] = (clientErrors[step] ?? 0) + client
    serverErrors[step] = (serverErrors[step] ?? 0) + server
  }
  return { series, clientErrors, serverErrors }
}

function toSeries(rows: readonly RequestRow[], count: number, boundsSeconds: readonly number[]): RouteSeries {
  const requests = Array<number>(count).fill(0)
  const buckets = Array.from({ length: count }, () => boundsSeconds.map(() => 0))
  for (const row of rows) {
    requests[row.step] = (requests[row.step] ?? 0) + row.requests
    const merged = buckets[row.step] ?? []
    for (const [index, value] of row.buckets.entries()) merged[index] = (merged[index] ?? 0) + value
  }
  const p99 = requests.map((total, step) => {
    const seconds = quantile(0.99, total, buckets[step] ?? [], boundsSeconds)
    return seconds === null ? null : Math.round(seconds * MS * 100) / 100
  })
  return { method: rows[0]?.method ?? null, route: rows[0]?.route ?? null, requests, p99_ms: p99 }
}

/**
 * The value below which a share `q` of `total` values is, from counts by upper bound: linear within a bucket, as Prometheus's
 * `histogram_quantile`. Values above the last bound count as that bound. Null for no value.
 */
export function quantile(q: number, total: number, buckets: readonly number[], bounds: readonly number[]): number | null {
  if (total === 0) return null
  const rank = q * total
  let below = 0
  let lower = 0
  for (const [index, bound] of bounds.entries()) {
    const inBucket = buckets[index] ?? 0
    if (inBucket > 0 && below + inBucket >= rank) return lower + (bound - lower) * ((rank - below) / inBucket)
    below += inBucket
    lower = bound
  }
  return lower
}
