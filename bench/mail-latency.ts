// The time from an order to its mail at the mail server, with one process for all roles, at a steady rate: an open
// loop. Options: --per-second 200
import { withCleanup } from '../test/cleanup.ts'
import { eventually } from '../test/eventually.ts'
import { startChild } from './rig/child.ts'
import { loadHttp } from './rig/load-http.ts'
import { median, summarise } from './rig/measurement.ts'
import { placing, startWholeStore } from './rig/whole-store.ts'
import { type Row, readOptions } from './row.ts'

const WARM_UP_SECONDS = 3
const PATIENCE_MS = 60_000

export async function run(args: string[]): Promise<Row[]> {
  const { rounds, isQuick, more } = readOptions(args, { 'per-second': '200' })
  const perSecond = Number(more['per-second'])
  const seconds = isQuick ? 3 : 12
  const all: { p50: number; p99: number; max: number; answeredP99: number }[] = []
  await withCleanup(async (cleanup) => {
    const whole = await startWholeStore(cleanup)
    const client = startChild(cleanup, 'rig/http-load.ts')
    const load = {
      port: whole.running.port,
      status: 201,
      warmUpSeconds: WARM_UP_SECONDS,
      seconds,
      perSecond,
      isTraced: true,
      connections: placing(whole),
    }
    // The first seconds do not count, so every round starts with an equally warm process.
    await loadHttp(client, { ...load, seconds: 3 })
    for (let round = 0; round < rounds; round++) {
      await whole.sink({ isTraced: true })
      const { trace, p99: answeredP99 } = await loadHttp(client, load)
      const isDone = async () => {
        const { mails, orders } = await whole.progress()
        return mails >= orders
      }
      await eventually(isDone, { what: 'every mail', timeoutMs: PATIENCE_MS })
      const { traced } = await whole.sink({ isTraced: false })
      // An event's id consists of the order's id and version.
      const acceptedMs = new Map(traced.map((mail) => [mail.eventId.split('.')[0], mail.acceptedMs]))
      const latencies = trace.map(({ dueMs, location }) => (acceptedMs.get(location.split('/').at(-1)) ?? Number.NaN) - dueMs)
      if (latencies.some(Number.isNaN)) throw new Error('an order has no mail')
      all.push({ ...summarise(latencies, seconds), answeredP99 })
    }
  })
  const of = (value: (round: (typeof all)[number]) => number) => median(all.map(value)).toFixed(0)
  return [
    {
      work: `order → mail accepted, ${perSecond} orders/s, p99`,
      goal: { atMost: 1_000 },
      unit: 'ms',
      rounds: all.map(({ p99 }) => ({ value: p99 })),
      note: `from when the request was due, so with placing and committing, which take ${of(({ answeredP99 }) => answeredP99)} ms at p99 until the answer; p50 ${of(({ p50 }) => p50)} ms, longest ${of(({ max }) => max)} ms.`,
    },
  ]
}
