import type { Metric } from 'prom-client'

const BOUNDS_SECONDS: readonly number[] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'other']
const OTHER = METHODS.length - 1
const STATUS_CLASSES = 6

interface Series {
  /** Values by bound, not cumulative. `count` alone has those above the last bound. */
  buckets: number[]
  sum: number
  count: number
}

/**
 * A histogram of request times. prom-client's own histogram hashes each value's labels, which costs 8 % of a page from
 * memory. Clients cannot add labels: docs/decisions/operations-metrics.md.
 */
export class RequestTimes {
  readonly name = 'storefront_http_request_duration_seconds'
  readonly help = 'Time from the head of a request to the end of its answer, by method, pattern of the route and class of the status.'
  readonly aggregator = 'sum'
  readonly #byRoute = new Map<string, (Series | undefined)[]>()

  /** `route` is the pattern, never the path. */
  add(method: string, route: string, status: number, seconds: number): void {
    const series = this.#find(method, route, status)
    series.count += 1
    series.sum += seconds
    let bucket = 0
    while (seconds > (BOUNDS_SECONDS[bucket] ?? Number.POSITIVE_INFINITY)) bucket += 1
    if (bucket < BOUNDS_SECONDS.length) series.buckets[bucket] = (series.buckets[bucket] ?? 0) + 1
  }

  #find(method: string, route: string, status: number): Series {
    let ofRoute = this.#byRoute.get(route)
    if (ofRoute === undefined) {
      ofRoute = []
      this.#byRoute.set(route, ofRoute)
    }
    const known = METHODS.indexOf(method)
    const index = (known === -1 ? OTHER : known) * STATUS_CLASSES + Math.trunc(status / 100)
    ofRoute[index] ??= { buckets: BOUNDS_SECONDS.map(() => 0), sum: 0, count: 0 }
    return ofRoute[index]
  }

  /** Called by prom-client's registry. */
  async get() {
    const values: { metricName: string; labels: Record<string, string | number>; value: number }[] = []
    for (const [route, ofRoute] of this.#byRoute) {
      for (const [index, series] of ofRoute.entries()) {
        if (series === undefined) continue
        const method = METHODS[Math.trunc(index / STATUS_CLASSES)] ?? ''
        const labels = { method, route, status: `${index % STATUS_CLASSES}xx` }
        let below = 0
        for (const [bucket, bound] of BOUNDS_SECONDS.entries()) {
          below += series.buckets[bucket] ?? 0
          values.push({ metricName: `${this.name}_bucket`, labels: { le: bound, ...labels }, value: below })
        }
        values.push(
          { metricName: `${this.name}_bucket`, labels: { le: '+Inf', ...labels }, value: series.count },
          { metricName: `${this.name}_sum`, labels, value: series.sum },
          { metricName: `${this.name}_count`, labels, value: series.count },
        )
      }
    }
    return { name: this.name, help: this.help, type: 'histogram', aggregator: this.aggregator, values }
  }

  /** prom-client's registry calls only `get`. */
  get asMetric(): Metric {
    return this as unknown as Metric
  }
}
