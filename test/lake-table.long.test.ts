import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { runDemo } from '../src/demo/run-demo.ts'
import { commitEvents } from '../src/lake/iceberg/commit-events.ts'
import { expireSnapshots } from '../src/lake/iceberg/expire-snapshots.ts'
import type { Snapshot } from '../src/lake/iceberg/table-metadata.ts'
import { TableStore } from '../src/lake/iceberg/table-store.ts'
import { writeDerivedTables } from '../src/lake/iceberg/write-derived-tables.ts'
import { listLake } from '../src/lake/list-files.ts'
import { readWithIcebird, watchEvents } from './iceberg-reader.ts'
import { queryFolder } from './lake-harness.ts'
import { farFromMidnight } from './midnight.ts'
import { type AuditedStore, startAuditedStore, summarise } from './pipeline-audit.ts'
import { silent } from './stream-harness.ts'

const PROCESS = fileURLToPath(new URL('lake-table-process.ts', import.meta.url))
const ROUNDS = [
  ['before data', 'before link'],
  ['after data', 'before metadata'],
  ['before metadata', 'after metadata'],
  ['after metadata', 'before delete'],
  ['before data', 'after delete'],
] as const

await farFromMidnight()

/** Runs work of lake-table-process.ts until it kills itself. */
async function die(directory: string, work: 'commit' | 'compact', step: string): Promise<void> {
  const child = spawn(process.execPath, [PROCESS, directory, work, step], { stdio: ['ignore', 'inherit', 'inherit'] })
  const [, signal] = await once(child, 'exit')
  assert.equal(signal, 'SIGKILL', `${work} was over before it died ${step}`)
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

test('the tables agree with PostgreSQL after the demo, five kills of the writer and of the merge, expiries and a reader beside them', async (t) => {
  const store = await startAuditedStore(t)
  const { lakeStore: lake, lake: directory, pool } = store
  const stop = await store.startPipeline()
  await placeDemoOrders(store, 6)
  await store.untilDelivered()
  await commitEvents(lake)
  const stopWatching = watchEvents(t, lakeOf(store))
  for (const [writerStep, mergeStep] of ROUNDS) {
    await placeDemoOrders(store, 4)
    await store.untilDelivered()
    await die(directory, 'commit', writerStep)
    await placeDemoOrders(store, 2)
    await store.untilDelivered()
    await die(directory, 'compact', mergeStep)
    await expireSnapshots(new TableStore(lake, 'order_events'), new Date(Date.now() - 1_000))
  }
  await store.untilDelivered()
  await stop()
  assert.ok((await stopWatching()) > ROUNDS.length)

  await commitEvents(lake)
  const before = await eventIds(store)
  const { newest: unmerged } = await new TableStore(lake, 'order_events').read()
  await writeDerivedTables(lake)
  const files = (await listLake(lake)).length
  const merged = spawn(process.execPath, [PROCESS, directory, 'compact'], { stdio: 'inherit' })
  assert.deepEqual(await once(merged, 'exit'), [0, null])
  assert.ok((await listLake(lake)).length < files, 'there was something to merge')
  const { newest } = await new TableStore(lake, 'order_events').read()
  const old = newest?.metadata.snapshots.find(({ 'snapshot-id': id }) => id === unmerged?.metadata['current-snapshot-id'])
  assert.ok(old && newest?.metadata.snapshots.at(-1)?.summary.operation === 'replace')
  assert.deepEqual((await eventIds(store, old)).toSorted(), before.toSorted(), 'time travel to before the merge')

  const { rows } = await pool.query(
    'select id, number::text, version, status, json_array_length(items) as lines from orders order by number',
  )
  assert.deepEqual(summarise(await store.verify()), [])
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
