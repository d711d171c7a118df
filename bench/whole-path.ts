// Orders placed over HTTP, published as events, mailed and stored in the lake, by one process with all roles, beside
// bare `pg` that writes only the orders. Options: --seconds 60
import pino from 'pino'
import { prepareDatabase } from '../src/app/prepare-database.ts'
import { oneRole } from '../src/db/addresses.ts'
import { createPool } from '../src/db/pool.ts'
import { COMMAND_BOUNDS } from '../src/db/session-settings.ts'
import { type Cleanup, withCleanup } from '../test/cleanup.ts'
import type { BareOrdersLoad } from './orders/bare-pg-orders.ts'
import { startChild } from './rig/child.ts'
import { nowMs } from './rig/clock.ts'
import { loadHttp } from './rig/load-http.ts'
import { type Measurement, median } from './rig/measurement.ts'
import { makeBaskets } from './rig/shop.ts'
import type { Store } from './rig/store.ts'
import { CLIENTS, LINES, type Progress, placing, startWholeStore, type WholeStore } from './rig/whole-store.ts'
import { type Row, readOptions } from './row.ts'

const POOL_SIZE = 10
const WARM_UP_SECONDS = 5
/** The wait after the load. The backlog is estimated from the rest at its end. */
const PATIENCE_SECONDS = 10
const FLOOR_DATABASE = 'floor'

interface RoundResult {
  floorPerSecond: number
  acceptedPerSecond: number
  finishedPerSecond: number
  backlogSeconds: number
  processorMs: number
  /** The rates in the second half of the load. */
  late: { mailsPerSecond: number; ordersPerSecond: number }
}

export async function run(args: string[]): Promise<Row[]> {
  const { rounds, isQuick, more } = readOptions(args, { seconds: '' })
  const seconds = Number(more.seconds || (isQuick ? 12 : 60))
  const all: RoundResult[] = []
  // Each round has a new store, so the remains of one are no load for the next.
  for (let round = 0; round < rounds; round++)
    await withCleanup(async (cleanup) => void all.push(await measureRound(cleanup, seconds, isQuick ? 3 : 10)))
  const work = `orders of ${LINES} lines, ${CLIENTS} clients, ${seconds} s`
  const accepted = median(all.map((result) => result.acceptedPerSecond))
  return [
    {
      work: `whole path: ${work}; mailed and in the lake`,
      heldAgainst: 'bare `pg`, one transaction each, only the order',
      goal: { atLeast: 0.5 },
      unit: 'orders/s',
      rounds: all.map((result) => ({ value: result.finishedPerSecond, floor: result.floorPerSecond })),
      note: `one process with all roles, LAKE_FLUSH_SECONDS=1, closed loop; what was mailed and in the lake within the time counts. The API accepted ${accepted.toFixed(0)} orders/s.`,
    },
    {
      work: 'whole path: processor time of an order, in store and PostgreSQL',
      goal: { atMost: 2 },
      unit: 'ms',
      rounds: all.map((result) => ({ value: result.processorMs })),
      note: 'all of it until the last mail, divided by the mailed orders; without mail server and load.',
    },
    {
      work: 'whole path: time until the last order of the load is mailed and in the lake',
      goal: { atMost: 5 },
      unit: 's',
      rounds: all.map((result) => ({ value: result.backlogSeconds })),
      note: `after ${PATIENCE_SECONDS} s it is estimated from the rate of these ${PATIENCE_SECONDS} s.`,
    },
    {
      work: 'whole path: mails while orders come in, second half of the load',
      heldAgainst: 'orders that the API accepts meanwhile',
      goal: { atLeast: 1 },
      unit: '/s',
      rounds: all.map(({ late }) => ({ value: late.mailsPerSecond, floor: late.ordersPerSecond })),
    },
  ]
}

async function measureRound(cleanup: Cleanup, seconds: number, floorSeconds: number): Promise<RoundResult> {
  let floorPerSecond = Number.NaN
  const whole = await startWholeStore(cleanup, async (store) => {
    floorPerSecond = await measureFloor(cleanup, store, floorSeconds)
  })
  const client = startChild(cleanup, 'rig/http-load.ts')
  const common = { port: whole.running.port, status: 201, warmUpSeconds: 0, connections: placing(whole) }
  await loadHttp(client, { ...common, seconds: WARM_UP_SECONDS })
  const before = await whole.progress()
  const beganMs = nowMs()
  const [{ perSecond }, half] = await Promise.all([loadHttp(client, { ...common, seconds }), progressAfter(whole, seconds / 2)])
  const end = await whole.progress()
  const loadedSeconds = (nowMs() - beganMs) / 1_000
  const { backlogSeconds, last } = await untilFinished(whole, end)
  const finished = Math.min(end.mails - before.mails, end.inLake - before.inLake)
  const lateSeconds = loadedSeconds - seconds / 2
  return {
    floorPerSecond,
    acceptedPerSecond: perSecond,
    finishedPerSecond: finished / loadedSeconds,
    backlogSeconds,
    processorMs: ((last.processorSeconds - before.processorSeconds) / (last.mails - before.mails)) * 1_000,
    late: { mailsPerSecond: (end.mails - half.mails) / lateSeconds, ordersPerSecond: (end.orders - half.orders) / lateSeconds },
  }
}

async function progressAfter(whole: WholeStore, seconds: number): Promise<Progress> {
  await new Promise((resolve) => setTimeout(resolve, seconds * 1_000))
  return whole.progress()
}

async function untilFinished(whole: WholeStore, end: Progress): Promise<{ backlogSeconds: number; last: Progress }> {
  const beganMs = nowMs()
  for (;;) {
    const last = await whole.progress()
    const spentSeconds = (nowMs() - beganMs) / 1_000
    const left = end.orders - Math.min(last.mails, last.inLake)
    if (left <= 0) return { backlogSeconds: spentSeconds, last }
    const done = Math.min(last.mails, last.inLake) - Math.min(end.mails, end.inLake)
    if (spentSeconds > PATIENCE_SECONDS) return { backlogSeconds: spentSeconds + (left * spentSeconds) / done, last }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Measures the floor. Its database is on the same server, and no slot decodes its changes. */
async function measureFloor(cleanup: Cleanup, store: Store, seconds: number): Promise<number> {
  await store.pool.query(`create database ${FLOOR_DATABASE}`)
  const url = Object.assign(new URL(store.url), { pathname: FLOOR_DATABASE }).href
  await prepareDatabase(oneRole(url), pino({ level: 'silent' }))
  const pool = createPool({ url, size: 1, applicationName: 'bench', onError: () => {}, bounds: COMMAND_BOUNDS })
  await pool.query('select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = $1', [FLOOR_DATABASE])
  await pool.end()
  const bare = startChild(cleanup, 'orders/bare-pg-orders.ts')
  const userIds = Array.from({ length: CLIENTS }, () => crypto.randomUUID())
  const products = Array.from({ length: 2_000 }, () => crypto.randomUUID())
  const baskets = makeBaskets(products, { lines: LINES, clients: CLIENTS })
  const load: BareOrdersLoad = {
    url,
    poolSize: POOL_SIZE,
    clients: CLIENTS,
    warmUpSeconds: 1,
    seconds,
    userIds,
    isOrderOnly: true,
    baskets,
  }
  await bare.ask(load)
  const { perSecond } = await bare.ask<Measurement>({})
  await bare.stop()
  return perSecond
}
