// Ten minutes at 300 orders/s and 500 lists/s on one process with all roles, to see what grows. The second minute is
// compared with the last. Options: --minutes 10
import { readdirSync, readFileSync } from 'node:fs'
import { withCleanup } from '../test/cleanup.ts'
import { startChild } from './rig/child.ts'
import { openInspector } from './rig/inspector.ts'
import { loadHttp } from './rig/load-http.ts'
import { median } from './rig/measurement.ts'
import { gettingConnections } from './rig/shop.ts'
import { placing, startWholeStore, type WholeStore } from './rig/whole-store.ts'
import { type Row, readOptions } from './row.ts'

const ORDERS_PER_SECOND = 300
const PAGES_PER_SECOND = 400
const ORDER_LISTS_PER_SECOND = 100
const SAMPLE_SECONDS = 5
const MIB = 2 ** 20
/** The tolerated growth: uncollected garbage, and memory for a burst. */
const FLAT = 1.1

interface Sample {
  atSeconds: number
  memoryMib: number
  descriptors: number
  connections: number
  slotMib: number
  backlog: number
}

export async function run(args: string[]): Promise<Row[]> {
  const { isQuick, more } = readOptions(args, { minutes: '' })
  const seconds = Number(more.minutes || (isQuick ? 0.7 : 10)) * 60
  // A quick run has four equal parts.
  const part = Math.min(60, seconds / 4)
  const samples: Sample[] = []
  const heapMib: number[] = []
  let latencies = ''
  await withCleanup(async (cleanup) => {
    // A process collects its garbage on request only through the inspector, which needs a port.
    process.env.BENCH_NODE_FLAGS = '--inspect=127.0.0.1:0'
    const whole = await startWholeStore(cleanup)
    const inspector = await openInspector(cleanup, whole.running.inspectorUrl ?? '')
    const [account] = whole.accounts
    const common = { port: whole.running.port, warmUpSeconds: 0, seconds }
    const authorization = `Bearer ${account?.token}`
    const loads = Promise.all([
      loadHttp(startChild(cleanup, 'rig/http-load.ts'), {
        ...common,
        status: 201,
        perSecond: ORDERS_PER_SECOND,
        connections: placing(whole),
      }),
      loadHttp(startChild(cleanup, 'rig/http-load.ts'), {
        ...common,
        status: 200,
        perSecond: PAGES_PER_SECOND,
        connections: gettingConnections(32, '/products?limit=20&sort=name'),
      }),
      loadHttp(startChild(cleanup, 'rig/http-load.ts'), {
        ...common,
        status: 200,
        perSecond: ORDER_LISTS_PER_SECOND,
        connections: gettingConnections(32, '/orders?limit=20', { authorization }),
      }),
    ])
    const beganAt = performance.now()
    const at = () => (performance.now() - beganAt) / 1_000
    while (at() < seconds - SAMPLE_SECONDS) {
      await new Promise((resolve) => setTimeout(resolve, SAMPLE_SECONDS * 1_000))
      samples.push({ atSeconds: at(), ...(await sample(whole)) })
      if (heapMib.length === 0 && at() >= 2 * part) heapMib.push(await inspector.heapAfterCollection())
    }
    heapMib.push(await inspector.heapAfterCollection())
    const results = await loads
    latencies = ['orders', 'pages', 'lists of orders'].map((what, index) => `${what} p99 ${results[index]?.p99.toFixed(0)} ms`).join(', ')
  })
  const window = (from: number, to: number) => samples.filter(({ atSeconds }) => atSeconds >= from && atSeconds <= to)
  const [early, late] = [window(part, 2 * part), window(seconds - part, seconds)]
  // Sample for sample, so the spread is that of the minute.
  const compare = (value: (sample: Sample) => number) => late.map((sample) => ({ value: value(sample), floor: median(early.map(value)) }))
  const heldAgainst = `after the first ${part.toFixed(0)} s`
  const work = `soak of ${(seconds / 60).toFixed(1)} min`
  const slack = (value: (sample: Sample) => number, unit: number) => ({
    atMost: Math.round(FLAT * median(early.map(value)) + unit),
    isRatio: false,
  })
  return [
    {
      work: `${work}: memory of the process`,
      goal: { atMost: 250 },
      unit: 'MiB',
      rounds: late.map(({ memoryMib }) => ({ value: memoryMib })),
      note: `resident set; ${ORDERS_PER_SECOND} orders/s of 3 lines, ${PAGES_PER_SECOND} pages of products/s and ${ORDER_LISTS_PER_SECOND} lists of orders/s in open loops: ${latencies}. Orders that were not mailed yet at the end: ${late.at(-1)?.backlog}.`,
    },
    { work: `${work}: growth of memory`, heldAgainst, goal: { atMost: FLAT }, unit: 'MiB', rounds: compare(({ memoryMib }) => memoryMib) },
    {
      work: `${work}: heap after a collection`,
      heldAgainst,
      goal: { atMost: FLAT },
      unit: 'MiB',
      rounds: [{ value: heapMib[1] ?? Number.NaN, floor: heapMib[0] ?? Number.NaN }],
    },
    {
      work: `${work}: descriptors`,
      heldAgainst,
      goal: slack(({ descriptors }) => descriptors, 5),
      unit: 'descriptors',
      rounds: compare(({ descriptors }) => descriptors),
    },
    {
      work: `${work}: connections of PostgreSQL`,
      heldAgainst,
      goal: slack(({ connections }) => connections, 1),
      unit: 'connections',
      rounds: compare(({ connections }) => connections),
    },
    {
      work: `${work}: log kept by the slot`,
      heldAgainst,
      goal: slack(({ slotMib }) => slotMib, 16),
      unit: 'MiB',
      rounds: compare(({ slotMib }) => slotMib),
      note: 'with one segment of 16 MiB of slack.',
    },
  ]
}

async function sample(whole: WholeStore): Promise<Omit<Sample, 'atSeconds'>> {
  const { pid } = whole.running
  const { rows } = await whole.store.pool.query<{ connections: number; slot: number }>(
    `select (select count(*)::integer from pg_stat_activity where application_name <> 'bench' and backend_type in ('client backend', 'walsender')) as connections,
      (select max(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn))::float8 from pg_replication_slots) as slot`,
  )
  const { orders, mails } = await whole.progress()
  return {
    memoryMib: Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
    connections: rows[0]?.connections ?? Number.NaN,
    slotMib: (rows[0]?.slot ?? Number.NaN) / MIB,
    backlog: orders - mails,
  }
}
