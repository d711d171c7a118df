// Two API workers in one start (WEB_CONCURRENCY) beside one. The load shares the cores with them, so a rate says
// little: a request's processor time shows the cost of the second worker.
import { availableParallelism } from 'node:os'
import { readEnvironment } from '../src/config.ts'
import { withCleanup } from '../test/cleanup.ts'
import { importCatalogue } from './catalogue/import-catalogue.ts'
import { startChild } from './rig/child.ts'
import { loadHttp } from './rig/load-http.ts'
import { median } from './rig/measurement.ts'
import { processorSeconds } from './rig/processor-time.ts'
import { gettingConnections } from './rig/shop.ts'
import { openStore, type Running } from './rig/store.ts'
import { inTurns, type Row, readOptions } from './row.ts'

const SETTING = 'WEB_CONCURRENCY'
const PRODUCTS = 1_000
const CONNECTIONS = 64
const WORKERS = 2

interface Figures {
  perSecond: number
  microseconds: number
}

export async function run(args: string[]): Promise<Row[]> {
  const { rounds, isQuick } = readOptions(args, {})
  const seconds = isQuick ? 2 : 4
  if (!readEnvironment({ [SETTING]: String(WORKERS) }).settings.some(({ name }) => name === SETTING))
    throw new Error(`the store has no setting ${SETTING}`)
  const [one, two]: [Figures[], Figures[]] = [[], []]
  await withCleanup(async (cleanup) => {
    const store = await openStore(cleanup)
    await importCatalogue(cleanup, store, PRODUCTS)
    const client = startChild(cleanup, 'rig/http-load.ts')
    const connections = gettingConnections(CONNECTIONS, '/products?limit=20')
    const measure = async ({ port, pid }: Running): Promise<Figures> => {
      const load = { port, status: 200, warmUpSeconds: 0, connections }
      await loadHttp(client, { ...load, seconds: 0.5 })
      const before = processorSeconds([pid])
      const { perSecond } = await loadHttp(client, { ...load, seconds })
      return { perSecond, microseconds: ((processorSeconds([pid]) - before) / (perSecond * seconds)) * 1e6 }
    }
    const single = await store.start('api')
    const several = await store.start('api', { [SETTING]: String(WORKERS) })
    await measure(single)
    await measure(several)
    const keep = async (all: Figures[], running: Running) => {
      const figures = await measure(running)
      all.push(figures)
      return figures.perSecond
    }
    await inTurns(
      rounds,
      () => keep(two, several),
      () => keep(one, single),
    )
  })
  const zip = (value: (figures: Figures) => number) =>
    two.map((figures, round) => ({ value: value(figures), floor: value(one[round] as Figures) }))
  const work = `\`GET /products\`, a warm page, ${WORKERS} workers`
  return [
    {
      work: `${work}: requests a second of processor time`,
      heldAgainst: 'one worker',
      goal: { atLeast: 0.9 },
      unit: 'requests/s of a core',
      rounds: zip(({ microseconds }) => 1e6 / microseconds),
      note: `load and store share ${availableParallelism()} cores; ${median(two.map(({ microseconds }) => microseconds)).toFixed(0)} µs of a request with ${WORKERS} workers, ${median(one.map(({ microseconds }) => microseconds)).toFixed(0)} with one. N workers on N cores of their own would answer this ratio times N.`,
    },
    {
      work: `${work}: rate`,
      heldAgainst: 'one worker',
      unit: 'requests/s',
      rounds: zip(({ perSecond }) => perSecond),
      note: 'the load takes the cores that a second worker would use: no goal here.',
    },
  ]
}
