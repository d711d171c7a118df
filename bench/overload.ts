// A mix of orders, lists and searches. First its peak by a closed loop, then a multiple of that rate for some time,
// then a low rate until the answers are as before. Then lists while clients keep connections open on which they have
// sent half a header. Options: --seconds 60 --times 5 --clients 64 --connections 1000 --mix 50,30,20 (orders, lists,
// searches) --half-open 2000 --only overload|half-open
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { type Cleanup, withCleanup } from '../test/cleanup.ts'
import type { HalfOpen } from './overload/half-open.ts'
import type { Kind, KindResult, MixedLoad, Phase, PhaseResult } from './overload/mixed-load.ts'
import { type Child, startChild } from './rig/child.ts'
import { median, table } from './rig/measurement.ts'
import { registerCustomers } from './rig/shop.ts'
import { openStore, type Running, type Store } from './rig/store.ts'

const PRODUCTS = 2_000
const ACCOUNTS = 64
const WORDS = ['lamp', 'chair', 'table', 'shelf', 'bench', 'rug', 'sofa', 'stool', 'clock', 'vase']
const SPREAD = 200
const PEAK_SECONDS = 10
const QUIET_SECONDS = 10
/** The share of the peak rate that is sent before and after the overload. */
const QUIET_SHARE = 0.1
const LISTS_PER_SECOND = 200

export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      seconds: { type: 'string', default: '60' },
      times: { type: 'string', default: '5' },
      clients: { type: 'string', default: '64' },
      connections: { type: 'string', default: '1000' },
      mix: { type: 'string', default: '50,30,20' },
      'half-open': { type: 'string', default: '2000' },
      only: { type: 'string', default: '' },
    },
  })
  const [seconds, times, clients, connections] = [values.seconds, values.times, values.clients, values.connections].map(Number) as [
    number,
    number,
    number,
    number,
  ]
  const halfOpen = Number(values['half-open'])
  await withCleanup(async (cleanup: Cleanup) => {
    const store = await openStore(cleanup)
    const api = await store.start('api')
    const load = startChild(cleanup, 'overload/mixed-load.ts')
    console.log(
      `${availableParallelism()} cores shared by PostgreSQL, the store and the process that loads it: what the load takes, they lack.\n`,
    )
    const kinds = await prepare(store, api, values.mix.split(',').map(Number))
    const offer = (atOnce: number, ...phases: Phase[]) =>
      load.ask<PhaseResult[]>({ port: api.port, connections: atOnce, kinds, phases } satisfies MixedLoad)
    await offer(clients, { seconds: 5, perSecond: null })
    if (values.only !== 'half-open') await overload(offer, { seconds, times, clients, connections })
    if (values.only !== 'overload')
      await compareHalfOpen({ api, load, holder: startChild(cleanup, 'overload/half-open.ts'), kinds, connections: halfOpen })
  })
}

async function prepare(store: Store, { port }: Running, weights: readonly number[]): Promise<Kind[]> {
  const tokens = (await registerCustomers(port, ACCOUNTS)).map(({ token }) => token)
  const { rows } = await store.pool.query<{ id: string }>(
    `with added as (
      insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
      select gen_random_uuid(), 'SKU-' || n, 'A ' || ($2::text[])[1 + n % 10] || ' ' || n, 'bench', 1000 + n, 'EUR', true from generate_series(1, $1) as n
      returning id
    )
    insert into inventory (product_id, available) select id, 1000000000 from added returning product_id as id`,
    [PRODUCTS, WORDS],
  )
  await store.pool.query('analyze products, inventory')
  const pick = <T>(values: readonly T[]) => values[Math.floor(Math.random() * values.length)] as T
  const order = () => {
    const body = JSON.stringify({ items: [{ product_id: pick(rows).id, quantity: 1 }] })
    const head = `POST /orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nauthorization: Bearer ${pick(tokens)}`
    return `${head}\r\nidempotency-key: "{unique}"\r\ncontent-length: ${body.length}\r\n\r\n${body}`
  }
  const list = () => `GET /orders?limit=20 HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${pick(tokens)}\r\n\r\n`
  const search = (i: number) => `GET /products?q=${pick(WORDS)}&min_price=${1000 + i} HTTP/1.1\r\nhost: localhost\r\n\r\n`
  const make = (one: (i: number) => string, count: number) => Array.from({ length: count }, (_, i) => one(i))
  // There are more searches than the cache can keep.
  return [
    { name: 'orders', weight: weights[0] ?? 0, requests: make(order, SPREAD * 10) },
    { name: 'lists', weight: weights[1] ?? 0, requests: make(list, SPREAD) },
    { name: 'searches', weight: weights[2] ?? 0, requests: make(search, 20_000) },
  ]
}

type Offer = (connections: number, ...phases: Phase[]) => Promise<PhaseResult[]>
interface OverloadOptions {
  seconds: number
  times: number
  clients: number
  connections: number
}

async function overload(offer: Offer, { seconds, times, clients, connections }: OverloadOptions): Promise<void> {
  const [peak] = await offer(clients, { seconds: PEAK_SECONDS, perSecond: null })
  const peakPerSecond = goodOf(peak)
  const quiet = { seconds: QUIET_SECONDS, perSecond: QUIET_SHARE * peakPerSecond }
  const [before] = await offer(connections, quiet)
  const [during, after] = await offer(connections, { seconds, perSecond: times * peakPerSecond }, { ...quiet, seconds: 2 * QUIET_SECONDS })
  const header = ['phase', 'requests', 'offered/s', 'good/s', 'p50 ms', 'p99', 'by status', '503 without Retry-After']
  console.log(
    table(header, [
      ...rowsOf(`peak: ${clients} clients`, peak, PEAK_SECONDS),
      ...rowsOf(`${100 * QUIET_SHARE} % of it`, before, QUIET_SECONDS),
      ...rowsOf(`${times} × the peak, ${connections} connections`, during, seconds),
      ...rowsOf('then', after, 2 * QUIET_SECONDS),
    ]),
  )
  const share = goodOf(during) / peakPerSecond
  const usual = Math.max(...(before?.kinds ?? []).map(({ p99 }) => p99))
  console.log(`\nGoodput ${(100 * share).toFixed(0)} % of the peak, ${peakPerSecond.toFixed(0)} a second.`)
  console.log(
    `Usual again ${usualAgainAfter(after, 2 * usual).toFixed(1)} s after it: nothing refused, and no half second whose median is above twice the p99 from before the load (${usual.toFixed(0)} ms).\n`,
  )
}

/**
 * Seconds until the end of the last half second in which a request was refused, or half of the requests took longer
 * than `slowMs`.
 */
function usualAgainAfter(after: PhaseResult | undefined, slowMs: number): number {
  const windows = Map.groupBy(after?.timeline ?? [], ([dueAt]) => Math.floor(dueAt / 500))
  const bad = [...windows].filter(
    ([, answers]) => answers.some(([, , status]) => !(status >= 200 && status < 300)) || median(answers.map(([, ms]) => ms)) > slowMs,
  )
  return Math.max(0, ...bad.map(([index]) => (index + 1) / 2))
}

async function compareHalfOpen(options: { api: Running; load: Child; holder: Child; kinds: Kind[]; connections: number }): Promise<void> {
  const { api, load, holder, kinds, connections } = options
  const page = 'GET /products?limit=20 HTTP/1.1\r\nhost: localhost\r\n\r\n'
  const lists: Kind[] = [
    { name: 'warm page', weight: 1, requests: [page] },
    ...kinds.filter(({ name }) => name === 'lists').map((kind) => ({ ...kind, weight: 1 })),
  ]
  const measure = async () => {
    const phases = [{ seconds: QUIET_SECONDS, perSecond: LISTS_PER_SECOND }]
    const [result] = await load.ask<PhaseResult[]>({ port: api.port, connections: 64, kinds: lists, phases } satisfies MixedLoad)
    return result
  }
  await measure()
  const idle = await measure()
  await holder.ask<number>({ port: api.port, connections } satisfies HalfOpen)
  const held = await measure()
  const header = ['half-open connections', 'requests', 'offered/s', 'good/s', 'p50 ms', 'p99', 'by status', '503 without Retry-After']
  console.log(table(header, [...rowsOf('0', idle, QUIET_SECONDS), ...rowsOf(String(connections), held, QUIET_SECONDS)]))
  const ratios = lists.map(({ name }, i) => `${name} ${((held?.kinds[i]?.p99 ?? 0) / (idle?.kinds[i]?.p99 ?? 0)).toFixed(2)}`)
  console.log(`\np99 with half-open connections, as a multiple of that without: ${ratios.join(', ')}`)
}

const goodOf = (result: PhaseResult | undefined) => (result?.kinds ?? []).reduce((sum, { perSecond }) => sum + perSecond, 0)

function rowsOf(name: string, result: PhaseResult | undefined, seconds: number): (string | number)[][] {
  return (result?.kinds ?? []).map((kind: KindResult) => [
    name,
    kind.name,
    (kind.offered / seconds).toFixed(0),
    kind.perSecond.toFixed(0),
    kind.p50.toFixed(1),
    kind.p99.toFixed(1),
    Object.entries(kind.statuses)
      .map(([status, count]) => `${status}: ${count}`)
      .join(', '),
    kind.withoutRetryAfter,
  ])
}
