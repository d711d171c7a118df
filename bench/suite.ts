/**
 * A benchmark of `npm run bench` without a name. `minutes` is its time in five rounds on two cores, and `quickMinutes`
 * its time with `--quick`.
 */
export interface Benchmark {
  name: string
  minutes: number
  quickMinutes: number
}

/** The benchmarks of a whole run. Each is bench/<name>.ts, which exports `run`. */
export const SUITE: readonly Benchmark[] = [
  { name: 'products', minutes: 1, quickMinutes: 0.3 },
  { name: 'uncached', minutes: 5, quickMinutes: 1 },
  { name: 'orders', minutes: 3.5, quickMinutes: 1 },
  { name: 'processes', minutes: 1.5, quickMinutes: 0.5 },
  { name: 'logins', minutes: 1.5, quickMinutes: 0.5 },
  { name: 'first-answer', minutes: 2, quickMinutes: 1 },
  { name: 'whole-path', minutes: 9, quickMinutes: 1 },
  { name: 'mails', minutes: 5, quickMinutes: 1 },
  { name: 'mail-latency', minutes: 2, quickMinutes: 0.5 },
  { name: 'pipeline', minutes: 6, quickMinutes: 1.5 },
  { name: 'order-bytes', minutes: 2, quickMinutes: 0.5 },
  { name: 'idle', minutes: 2, quickMinutes: 0.7 },
  { name: 'soak', minutes: 11, quickMinutes: 1.5 },
]

/** Benchmarks that run only by name, because they print more about one subject. */
export const OTHERS: readonly string[] = [
  'beside',
  'capacity',
  'greedy',
  'import-beside-orders',
  'large-catalogue',
  'login-timing',
  'overload',
  'paused-api',
  'size',
  'stalls',
]
