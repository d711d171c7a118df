// An import of products beside orders at a steady rate, to see whether it delays their events. Options: --products
// 100000 --orders 200 --topic postgres|nats
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { withCleanup } from '../test/cleanup.ts'
import { eventually } from '../test/eventually.ts'
import { runStorefront } from '../test/store-process.ts'
import type { WriterLoad, WriterReport } from './pipeline/order-writer.ts'
import { startChild } from './rig/child.ts'
import { nowMs } from './rig/clock.ts'
import { summarise } from './rig/measurement.ts'
import { openStore, type TopicKind } from './rig/store.ts'
import { type Row, readOptions } from './row.ts'

const CONNECTIONS = 8
const WINDOW_SECONDS = 5
const PATIENCE_MS = 600_000
const GENERATOR = fileURLToPath(new URL('generate-products.ts', import.meta.url))

/**
 * Measures the time from an order's commit to its message at a subscriber, first without and then with an import of new
 * products.
 */
export async function run(args: string[]): Promise<Row[]> {
  const { isQuick, more } = readOptions(args, { products: '', orders: '200', topic: 'postgres' })
  const products = Number(more.products || (isQuick ? 10_000 : 100_000))
  const rows: Row[] = []
  await withCleanup(async (cleanup) => {
    const store = await openStore(cleanup, { topic: more.topic as TopicKind })
    const file = await generate(store.dataDir, products)
    await store.start('stream')
    const seenAtMs = new Map<string, number>()
    const reader = store.topic.subscribe('bench', async (messages) => {
      const at = nowMs()
      for (const { event } of messages) seenAtMs.set(event.subject, at)
    })
    await reader.start()
    const writer = startChild(cleanup, 'pipeline/order-writer.ts')
    const load: WriterLoad = {
      ...{ url: store.url, connections: CONNECTIONS, perSecond: Number(more.orders) },
      ...{ warmUpSeconds: 0, seconds: WINDOW_SECONDS },
    }
    const measure = async () => {
      const { orders } = await writer.ask<WriterReport>(load)
      await eventually(async () => orders.every(({ id }) => seenAtMs.has(id)), { what: 'every message', timeoutMs: PATIENCE_MS })
      return orders.map(({ id, sentAtMs }) => (seenAtMs.get(id) ?? Number.NaN) - sentAtMs)
    }
    // The first run warms up connections and plans, and is not counted.
    await measure()
    const alone = [...(await measure()), ...(await measure())]
    const beganAt = nowMs()
    let seconds: number | null = null
    const importing = runStorefront(cleanup, ['catalogue', 'import', file], { env: store.settings }).then(({ status, stderr }) => {
      if (status !== 0) throw new Error(`the import ended with ${status}: ${stderr}`)
      seconds = (nowMs() - beganAt) / 1_000
    })
    const beside: number[] = []
    while (seconds === null) beside.push(...(await measure()))
    await importing
    // A new product has one event, and one without stock has another.
    const counts = async () => {
      const { rows } = await store.pool.query<{ recorded: number; published: number }>(
        `select (select count(*) from product_events)::integer as recorded, (select count(*) from catalogue_messages)::integer as published`,
      )
      return rows[0] ?? { recorded: 0, published: 0 }
    }
    const { recorded } = await counts()
    if (more.topic === 'postgres')
      await eventually(async () => (await counts()).published >= recorded, {
        what: 'every event of the catalogue',
        timeoutMs: PATIENCE_MS,
        pauseMs: 500,
      })
    const drainedSeconds = (nowMs() - beganAt) / 1_000
    await reader.stop()
    const [quiet, loaded] = [summarise(alone, 1), summarise(beside, 1)]
    const perSecond = (count: number, inSeconds: number) => Math.round(count / inSeconds).toLocaleString('en')
    rows.push({
      work: `commit → message of an order, ${more.topic}, ${more.orders} orders/s beside an import of ${products.toLocaleString('en')} new products, p99`,
      goal: { atMost: 100, isRatio: false },
      heldAgainst: 'the same without the import',
      unit: 'ms',
      rounds: [{ value: loaded.p99, floor: quiet.p99 }],
      note:
        `p50 ${loaded.p50.toFixed(1)} (alone ${quiet.p50.toFixed(1)}), the longest ${loaded.max.toFixed(0)} ms (alone ${quiet.max.toFixed(0)}), ` +
        `of ${beside.length.toLocaleString('en')} orders; import ${perSecond(products, seconds ?? Number.NaN)} products/s; ` +
        `${recorded.toLocaleString('en')} events of the catalogue, the last one published ${(drainedSeconds - (seconds ?? 0)).toFixed(1)} s after the end of the import.`,
    })
  })
  return rows
}

async function generate(folder: string, products: number): Promise<string> {
  const file = join(folder, 'products.ndjson')
  const output = openSync(file, 'w')
  const [code] = await once(spawn(process.execPath, [GENERATOR, String(products)], { stdio: ['ignore', output, 'inherit'] }), 'exit')
  closeSync(output)
  if (code !== 0) throw new Error(`products were not generated: ${code}`)
  return file
}
