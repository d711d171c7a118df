// `storefront migrate` of a store of release 0.1.0 beside its customers: orders and lists at two processes before, during and after it.
// Options: --products 200000 --orders 20000 --per-second 5 --seconds 60
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type Cleanup, withCleanup } from '../test/cleanup.ts'
import { openEarlierStore, shopAt, watchLocks } from '../test/earlier-store.ts'
import type { Answer } from '../test/shopping.ts'
import { runStorefront, serve } from '../test/store-process.ts'
import { percentile, table } from './rig/measurement.ts'

export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      products: { type: 'string', default: '200000' },
      orders: { type: 'string', default: '20000' },
      'per-second': { type: 'string', default: '5' },
      seconds: { type: 'string', default: '60' },
    },
  })
  const [products, orders, perSecond, seconds] = [values.products, values.orders, values['per-second'], values.seconds].map(Number)
  await withCleanup((cleanup) => measure(cleanup, { products: products ?? 0, orders: orders ?? 0 }, perSecond ?? 0, (seconds ?? 0) * 1_000))
}

async function measure(t: Cleanup, size: { products: number; orders: number }, perSecond: number, partMs: number): Promise<void> {
  const { server, bin, env, admin } = await openEarlierStore(t, size, { shared_buffers: '512MB', max_wal_size: '4GB' })
  console.log(`made a store of ${size.products} products and ${size.orders} orders`)
  const { shopping, apis } = await shopAt(t, { bin, env }, perSecond)
  await delay(partMs / 6)
  await shopping.takeAnswers()
  const rows: (string | number)[][] = []
  const report = (part: string, answers: readonly Answer[]) => {
    for (const [what, same] of Object.entries(Object.groupBy(answers, (answer) => answer.what))) {
      const times = (same ?? []).map(({ ms }) => ms)
      const refused = (same ?? []).filter(({ isGood }) => !isGood).length
      rows.push([part, what, times.length, refused, ...[0.5, 0.99, 1].map((share) => percentile(times, share).toFixed(0))])
    }
  }
  await delay(partMs)
  report('before', await shopping.takeAnswers())
  const locks = await watchLocks(t, `${server.address}/shop`)
  const beganAt = performance.now()
  const { status, stderr } = await runStorefront(t, ['migrate'], { env })
  const seconds = (performance.now() - beganAt) / 1_000
  report('migrate', await shopping.takeAnswers())
  const longest = await locks.stop()
  if (status !== 0) throw new Error(stderr)
  await shopping.stop()
  for (const api of apis) await api.end('SIGTERM')
  // The new version records the existing products as events, in batches.
  const renewed = await shopAt(t, { env }, perSecond)
  const backfilling = await serve(t, { env, args: ['--role', 'stream'], ready: /./ })
  await delay(partMs / 6)
  await renewed.shopping.takeAnswers()
  const before = await admin.query('select count(*)::integer as events from product_events')
  await delay(partMs)
  report('new version, recording products', await renewed.shopping.takeAnswers())
  const after = await admin.query(
    'select count(*)::integer as events, exists (select from product_event_backfill) as is_at_work from product_events',
  )
  await renewed.shopping.stop()
  await backfilling.end('SIGTERM')
  console.log(`migrate: ${seconds.toFixed(0)} s; ${longest.table} was locked for ${longest.ms.toFixed(0)} ms at most`)
  console.log(
    `recorded ${((after.rows[0].events - before.rows[0].events) / (partMs / 1_000)).toFixed(0)} events/s; ${after.rows[0].is_at_work ? 'still at work' : 'done'}`,
  )
  console.log(`\n${table(['While', 'Request', 'Requests', 'Refused', 'p50 ms', 'p99 ms', 'Longest ms'], rows)}`)
}
