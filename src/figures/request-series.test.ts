import assert from 'node:assert/strict'
import { test } from 'node:test'
import { quantile, requestSeries } from './request-series.ts'

const BOUNDS = [0.1, 0.5, 1]

test('interpolates within the bucket, and values above the last bound count as that bound', () => {
  assert.equal(quantile(0.5, 4, [4, 0, 0], BOUNDS), 0.05)
  assert.equal(quantile(1, 4, [2, 2, 0], BOUNDS), 0.5)
  assert.equal(quantile(0.99, 10, [0, 0, 0], BOUNDS), 1)
  assert.equal(quantile(0.99, 0, [0, 0, 0], BOUNDS), null)
})

test('shows the ten busiest routes, and the others as one series', () => {
  const rows = Array.from({ length: 12 }, (_, index) => ({
    ...{ method: 'GET', route: `/${index}`, step: index % 2, requests: 100 - index },
    ...{ clientErrors: 1, serverErrors: index, buckets: [100 - index, 0, 0] },
  }))
  const { series, clientErrors, serverErrors } = requestSeries(rows, 2, BOUNDS)
  assert.deepEqual(
    series.map(({ route }) => route),
    [...rows.slice(0, 10).map(({ route }) => route), null],
  )
  assert.deepEqual(series.at(-1), { method: null, route: null, requests: [90, 89], p99_ms: [99, 99] })
  assert.deepEqual(clientErrors, [6, 6])
  assert.deepEqual(serverErrors, [30, 36])
})
