import { AggregatorRegistry, type MetricObjectWithValues, type MetricValue } from 'prom-client'

/** The values of one process, in a form that a channel between processes can carry. */
export type ProcessMetrics = MetricObjectWithValues<MetricValue<string>>[]

export interface NumberedMetrics {
  /** 1 is the process that answers. */
  process: number
  /** It is null where the process does not run or answer. */
  metrics: ProcessMetrics | null
}

/** The state of each process. Prometheus's own `up` shows only whether the first process answers. */
export const PROCESS_UP = 'storefront_process_up'

/**
 * Merges the metrics of several processes. Each series gets the label `process`, because a sum would hide which process
 * is slow. A process without metrics is down.
 */
export function mergeMetrics(processes: readonly NumberedMetrics[]): Promise<string> {
  const up = processes.flatMap(({ metrics }) => metrics ?? []).find(({ name }) => name === PROCESS_UP)
  const down = up === undefined ? [] : [{ ...up, values: up.values.map((value) => ({ ...value, value: 0 })) }]
  const labelled = processes.map(({ process, metrics }) =>
    (metrics ?? down).map((metric) => ({
      ...metric,
      // The label distinguishes the series of different processes, so there is nothing to add up.
      aggregator: 'first',
      values: metric.values.map((value) => ({ ...value, labels: { ...value.labels, process } })),
    })),
  )
  return AggregatorRegistry.aggregate(labelled).metrics()
}
