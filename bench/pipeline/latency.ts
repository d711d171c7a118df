import type { Cleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { startChild } from '../orders/child.ts'
import { printTable, summarise } from '../orders/measurement.ts'
import { nowMs } from './clock.ts'
import type { WriterLoad, WriterReport, WrittenOrder } from './order-writer.ts'
import { startRig, type TopicKind } from './rig.ts'

const PER_SECOND = 500
const CONNECTIONS = 8
const WARM_UP_SECONDS = 2
const PATIENCE_MS = 60_000

/** Time from an order's commit to its message at a subscriber of the topic. */
export async function measureLatency(cleanup: Cleanup, kind: TopicKind, seconds: number): Promise<void> {
  const rig = await startRig(cleanup, kind)
  const stream = await rig.startRole('stream')
  const seenAtMs = new Map<string, number>()
  const reader = rig.topic.subscribe('bench', async (messages) => {
    const at = nowMs()
    for (const { event } of messages) seenAtMs.set(event.data.order.id, at)
  })
  await reader.start()
  const writer = startChild('../pipeline/order-writer.ts')
  try {
    const load: WriterLoad = { url: rig.url, connections: CONNECTIONS, perSecond: PER_SECOND, warmUpSeconds: WARM_UP_SECONDS, seconds }
    const { orders, latestMs } = await writer.ask<WriterReport>(load)
    await eventually(async () => seenAtMs.size >= orders.length, { what: 'every message', timeoutMs: PATIENCE_MS })
    const counted = orders.filter(({ isWarmUp }) => !isWarmUp)
    console.log(`\n${kind}: commit → message seen by a subscriber, ms; ${counted.length} orders at ${PER_SECOND}/s, one transaction each.`)
    console.log(`The load sent its latest order ${latestMs.toFixed(1)} ms behind its time.\n`)
    const seen = ({ id }: WrittenOrder) => seenAtMs.get(id) ?? Number.NaN
    printTable(
      ['from', 'p50', 'p95', 'p99', 'max'],
      [
        ['statement with the commit sent', ...columns(counted.map((order) => seen(order) - order.sentAtMs))],
        ['commit acknowledged', ...columns(counted.map((order) => seen(order) - order.committedAtMs))],
      ],
    )
  } finally {
    await writer.stop()
    await reader.stop()
    await stream.stop()
  }
}

function columns(latenciesMs: number[]): string[] {
  const { p50, p95, p99 } = summarise(latenciesMs, 1, 0)
  const max = latenciesMs.reduce((most, ms) => Math.max(most, ms), Number.NEGATIVE_INFINITY)
  return [p50, p95, p99, max].map((ms) => ms.toFixed(1))
}
