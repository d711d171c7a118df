import type { Cleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { startChild } from '../rig/child.ts'
import { nowMs } from '../rig/clock.ts'
import { median, percentile, summarise } from '../rig/measurement.ts'
import { openStore, type TopicKind } from '../rig/store.ts'
import type { Row } from '../row.ts'
import type { WriterLoad, WriterReport } from './order-writer.ts'

const PER_SECOND = 500
const CONNECTIONS = 8
const WARM_UP_SECONDS = 2
const PATIENCE_MS = 60_000

/** Measures the time from an order's commit to its message at a subscriber of the topic. */
export async function measureLatency(
  cleanup: Cleanup,
  kind: TopicKind,
  { seconds, rounds }: { seconds: number; rounds: number },
): Promise<Row> {
  const store = await openStore(cleanup, { topic: kind })
  await store.start('stream')
  const seenAtMs = new Map<string, number>()
  const reader = store.topic.subscribe('bench', async (messages) => {
    const at = nowMs()
    for (const { event } of messages) seenAtMs.set(event.data.order.id, at)
  })
  await reader.start()
  const writer = startChild(cleanup, 'pipeline/order-writer.ts')
  const load: WriterLoad = { url: store.url, connections: CONNECTIONS, perSecond: PER_SECOND, warmUpSeconds: WARM_UP_SECONDS, seconds }
  const all = []
  const lateMs: number[] = []
  for (let round = 0; round < rounds; round++) {
    const { orders, latestMs } = await writer.ask<WriterReport>(load)
    await eventually(async () => orders.every(({ id }) => seenAtMs.has(id)), { what: 'every message', timeoutMs: PATIENCE_MS })
    const counted = orders.filter(({ isWarmUp }) => !isWarmUp)
    all.push(
      summarise(
        counted.map(({ id, sentAtMs }) => (seenAtMs.get(id) ?? Number.NaN) - sentAtMs),
        seconds,
      ),
    )
    lateMs.push(latestMs)
  }
  await reader.stop()
  return {
    work: `commit → message at a subscriber, ${kind}, ${PER_SECOND} orders/s, p99`,
    goal: { atMost: 50 },
    unit: 'ms',
    rounds: all.map(({ p99 }) => ({ value: p99 })),
    note: `from when the statement that commits was sent; p50 ${median(all.map(({ p50 }) => p50)).toFixed(1)} ms, the longest ${percentile(
      all.map(({ max }) => max),
      1,
    ).toFixed(0)} ms; the load was at most ${Math.max(...lateMs).toFixed(0)} ms late.`,
  }
}
