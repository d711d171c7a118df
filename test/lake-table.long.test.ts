import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { runDemo } from '../src/demo/run-demo.ts'
import { expireSnapshots } from '../src/lake/iceberg/expire-snapshots.ts'
import { ORDER_EVENTS } from '../src/lake/iceberg/lake-table.ts'
import type { Snapshot } from '../src/lake/iceberg/table-metadata.ts'
import { TableStore } from '../src/lake/iceberg/table-store.ts'
import { writeDerivedTables } from '../src/lake/iceberg/write-derived-tables.ts'
import { listLake } from '../src/lake/list-files.ts'
import { readWithIcebird, watchEvents } from './iceberg-reader.ts'
import { queryFolder } from './lake-harness.ts'
import { farFromMidnight } from './midnight.ts'
import { type AuditedStore, startAuditedStore } from './pipeline-audit.ts'
import { silent } from './stream-harness.ts'

const PROCESS = fileURLToPath(new URL('lake-table-process.ts', import.meta.url))
const STEPS = ['before link', 'after link', 'before metadata', 'after metadata']

await farFromMidnight()

/** Merges until it kills itself. */
async function dieMerging(directory: string, step: string): Promise<void> {
  const child = spawn(process.execPath, [PROCESS, directory, step], { stdio: ['ignore', 'inherit', 'inherit'] })
  const [, signal] = await once(child, 'exit')
  assert.equal(signal, 'SIGKILL', `the merge was over before it died ${step}`)
}

async function placeDemoOrders(store: AuditedStore, orders: number): Promise<void> {
  await runDemo({
    ...{ pool: store.pool, baseUrl: store.config.baseUrl, logger: silent, isFast: true, orders, isForced: true },
    ...{ signal: new AbortController().signal, onOperatorCreated: () => {}, onProgress: () => {} },
  })
}

const lakeOf = ({ lakeStore }: AuditedStore) => ({ store: lakeStore, pathOf: (name: string) => lakeStore.locate(name) })

async function eventIds(store: AuditedStore, snapshot?: Snapshot): Promise<string[]> {
  return (await readWithIcebird(lakeOf(store), 'order_events', snapshot?.['snapshot-id'])).map(({ event_id }) => String(event_id))
}

test('the tables agree with PostgreSQL after the demo, a kill of the merge at each step, expiries and a reader beside them', async (t) => {
  const store = await startAuditedStore(t)
  const { lakeStore: lake, lake: directory, pool } = store
  const stop = await store.startPipeline()
  await placeDemoOrders(store, 6)
  await store.untilDelivered()
  const stopWatching = watchEvents(t, lakeOf(store))
  for (const step of STEPS) {
    for (const count of [4, 2]) {
      await placeDemoOrders(store, count)
      await store.untilDelivered()
    }
    await dieMerging(directory, step)
    await expireSnapshots(lake, ORDER_EVENTS, new Date(Date.now() - 1_000), new Date(Date.now() + 3_700_000))
  }
  await placeDemoOrders(store, 2)
  await store.untilDelivered()
  await stop()
  assert.ok((await stopWatching()) > STEPS.length)

  const before = await eventIds(store)
  const { newest: unmerged } = await new TableStore(lake, 'order_events').read()
  await writeDerivedTables(lake)
  const files = (await listLake(lake)).length
  const merged = spawn(process.execPath, [PROCESS, directory], { stdio: 'inherit' })
  assert.deepEqual(await once(merged, 'exit'), [0, null])
  assert.ok((await listLake(lake)).length < files, 'there was something to merge')
  const { newest } = await new TableStore(lake, 'order_events').read()
  const old = newest?.metadata.snapshots.find(({ 'snapshot-id': id }) => id === unmerged?.metadata['current-snapshot-id'])
  assert.ok(old && newest?.metadata.snapshots.at(-1)?.summary.operation === 'replace')
  assert.deepEqual((await eventIds(store, old)).toSorted(), before.toSorted(), 'time travel to before the merge')

  const { rows } = await pool.query(
    'select id, number::text, version, status, json_array_length(items) as lines from orders order by number',
  )
  assert.deepEqual((await store.verify()).findings, [])
  const versions = rows.reduce((sum, { version }) => sum + version, 0)
  assert.equal(new Set(await eventIds(store)).size, versions)
  const keys = (some: Record<string, unknown>[], ...names: string[]) =>
    some.map((row) => names.map((name) => String(row[name])).join()).toSorted()
  const orders = await readWithIcebird(lakeOf(store), 'orders')
  const inPostgres = keys(rows, 'id', 'version', 'status')
  assert.deepEqual(keys(orders, 'order_id', 'version', 'status'), inPostgres)
  const plain = await queryFolder(directory, 'select order_id, version, status from orders')
  assert.deepEqual(plain.rows.map((row) => row.join()).toSorted(), inPostgres, 'DuckDB on the plain files')
  assert.equal(
    (await readWithIcebird(lakeOf(store), 'order_lines')).length,
    rows.reduce((sum, { lines }) => sum + lines, 0),
  )
})
