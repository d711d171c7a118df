import assert from 'node:assert/strict'
import { copyFile, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { examineTables } from '../src/app/doctor/examine-tables.ts'
import { catalogueSlotOf } from '../src/app/prepare-database.ts'
import { repairLake } from '../src/audit/replay/repair-lake.ts'
import type { TablesRead } from '../src/audit/verify/compare-tables.ts'
import { formatReport } from '../src/audit/verify/format-report.ts'
import { compareCatalogue } from '../src/audit/verify/verify.ts'
import type { CatalogueEvent } from '../src/catalogue/catalogue-event.ts'
import { sql } from '../src/db/sql.ts'
import { CATALOGUE_COLUMNS, toCatalogueRow } from '../src/lake/catalogue-row.ts'
import { commitEvents } from '../src/lake/iceberg/commit-events.ts'
import { commitSnapshot, readBase } from '../src/lake/iceberg/commit-snapshot.ts'
import { CATALOGUE_EVENTS } from '../src/lake/iceberg/lake-table.ts'
import { TableStore } from '../src/lake/iceberg/table-store.ts'
import { writeDerivedTables } from '../src/lake/iceberg/write-derived-tables.ts'
import { parquetRows } from '../src/lake/lake-database.ts'
import { findLakeEnd } from '../src/lake/lake-end.ts'
import { nameOf, parseName } from '../src/lake/lake-names.ts'
import { writeParquet } from '../src/lake/parquet-writer.ts'
import { queryDuckDB } from '../src/lake/query-duckdb.ts'
import { CATALOGUE } from '../src/topic/partitions.ts'
import { createPostgresTopic } from '../src/topic/postgres/postgres-topic.ts'
import type { Topic, TopicMessage } from '../src/topic/topic.ts'
import { eventually } from './eventually.ts'
import { readWithIcebird } from './iceberg-reader.ts'
import { queryFolder } from './lake-harness.ts'
import { type AuditedStore, startAuditedStore } from './pipeline-audit.ts'
import { registerOperator } from './register-operator.ts'
import { silent } from './stream-harness.ts'

test('what operators do to products, and customers to stock, is in the lake once, as product_events has it', async (t) => {
  const store = await startAuditedStore(t)
  const { token } = await registerOperator(store)
  const customer = await store.register()
  const stop = await store.startPipeline()
  const product = await store.addProduct({ stock: 2 })
  const patch = async (body: object) => {
    const { headers } = await store.call('GET', `/admin/products/${product.id}`, { token })
    const { status, text } = await store.call('PATCH', `/admin/products/${product.id}`, {
      ...{ token, body, headers: { 'if-match': String(headers.etag) } },
    })
    assert.equal(status, 200, text)
  }
  await patch({ price: { amount: 777, currency: store.config.currency } })
  await patch({ name: 'Another name' })
  const items = [{ product_id: product.id, quantity: 2 }]
  assert.equal((await store.call('POST', '/orders', { token: customer.token, body: { items } })).status, 201)
  const recorded = async () => {
    const { rows } = await store.pool.query<{ id: string }>(
      `select product_id || case stream when 'stock' then '.stock.' else '.' end || version as id from product_events`,
    )
    return rows.map(({ id }) => id).toSorted()
  }
  const inLake = async () =>
    (await queryFolder(store.lake, 'select event_id from catalogue_events')).rows.map(([id]) => String(id)).toSorted()
  await eventually(async () => (await inLake()).length >= (await recorded()).length, { what: 'the events in the lake', timeoutMs: 60_000 })
  await stop()
  assert.deepEqual(await inLake(), await recorded())
  const { rows: stored } = await store.pool.query(
    `select stored_sequence = (select max(sequence) from catalogue_messages) as is_end from topic_subscribers where name = 'catalogue-lake'`,
  )
  assert.deepEqual(stored, [{ is_end: true }])
  const of = `where product_id = '${product.id}'`
  const names = await queryFolder(store.lake, `select name, price_amount, is_current from products ${of} order by version`)
  assert.deepEqual(names.rows.at(-1), ['Another name', '777', true])
  assert.equal(names.rows.length, 3)
  assert.equal((await queryFolder(store.lake, `select * from prices ${of}`)).rows.length, 2)
  const stock = await queryFolder(store.lake, `select event_type, available, previous_available from stock_events ${of}`)
  assert.deepEqual(stock.rows, [['storefront.stock.depleted', '0', '2']])

  await commitEvents(store.lakeStore)
  await writeDerivedTables(store.lakeStore)
  const lake = { store: store.lakeStore, pathOf: (name: string) => store.lakeStore.locate(name) }
  assert.deepEqual((await readWithIcebird(lake, 'catalogue_events')).map(({ event_id }) => String(event_id)).toSorted(), await recorded())
  assert.deepEqual(
    (await readWithIcebird(lake, 'products')).filter(({ product_id }) => product_id === product.id).map(({ name }) => name),
    names.rows.map(([name]) => name),
  )
})

/** What `verify` reports of the catalogue in the lake, without what it finds in the topic. */
async function compareLake(store: AuditedStore, topic: Topic<CatalogueEvent>, tableDueBefore = 0, written: TablesRead['written'] = []) {
  const { pool, addresses, lakeStore: lake } = store
  const options = {
    pool,
    streamUrl: addresses.stream,
    topic,
    slotName: catalogueSlotOf(store.url),
    lake,
    now: () => new Date(),
    patienceMs: 0,
  }
  const dueBefore = { mails: 0, lake: Date.now(), table: tableDueBefore }
  const { catalogueLake, findings, undecided } = await compareCatalogue(options, dueBefore, written)
  const ofLake = findings.filter(({ place }) => place === 'catalogue in the lake' || place === 'tables')
  return { ...catalogueLake, findings: ofLake, isOverdue: undecided.includes('catalogue in the lake') }
}

test('verify finds what the files of the catalogue lack, have twice or have damaged, and a repair mends it', async (t) => {
  const store = await startAuditedStore(t)
  const topic = createPostgresTopic(CATALOGUE, { pool: store.pool, url: store.url, logger: silent })
  const compare = async () => {
    const report = await compareLake(store, topic)
    return { ...report, findings: report.findings.map(({ kind, examples }) => [kind, examples]) }
  }
  const stop = await store.startPipeline()
  for (const [stock, events] of [
    [0, 3],
    [null, 4],
  ] as const) {
    await store.addProduct({ stock })
    await eventually(async () => (await compare()).events >= events, { what: 'the events in the lake', timeoutMs: 60_000 })
  }
  await stop()
  const whole = await compare()
  assert.deepEqual([whole.waiting, whole.isOverdue, whole.findings], [0, false, []])
  assert.equal((await store.verify()).findings.length, 0)

  const ids = (await queryFolder(store.lake, 'select event_id from catalogue_events')).rows.map(([id]) => String(id)).toSorted()
  const folder = join(store.lake, 'catalogue')
  const [name = ''] = (await readdir(folder, { recursive: true })).filter((file) => file.endsWith('.parquet'))
  const path = join(folder, name)
  const bytes = await readFile(path)
  const twice = join(path, '..', '0000000000000900-0000000000000901.parquet')
  await copyFile(path, twice)
  const misnamed = (await compare()).findings
  assert.deepEqual(
    misnamed.map(([kind]) => kind),
    ['doubled', 'corrupt'],
    'a file under another name',
  )
  const repair = () => repairLake({ ...store, store: store.lakeStore, catalogueTopic: topic, now: () => new Date() })
  const counted = async () => {
    const { quarantined, written, later, lost } = await repair()
    return { quarantined: quarantined.length, written, lost, ...(later === 0 ? {} : { later }) }
  }
  assert.deepEqual(await counted(), { quarantined: 1, written: 0, lost: [] })
  assert.deepEqual((await compare()).findings, [])
  assert.equal(await findLakeEnd(store.lakeStore, 'catalogue'), await topic.newestSequence(), 'the end of the lake is that of its events')

  // A lake without an event of an order has tables, too.
  await commitEvents(store.lakeStore)
  await writeFile(path, Buffer.concat([bytes.subarray(0, 50), Buffer.from([Number(bytes[50]) ^ 1]), bytes.subarray(51)]))
  const damaged = (await compare()).findings
  assert.deepEqual(
    damaged.map(([kind]) => kind),
    ['missing', 'corrupt', 'corrupt'],
    'the file, and the same bytes in the table',
  )
  assert.deepEqual(await counted(), { quarantined: 1, written: damaged[0]?.[1]?.length, lost: [] })
  assert.deepEqual((await compare()).findings, [])

  const [current = assert.fail()] = await store.lakeStore.list('catalogue/')
  await rewriteWithout(store.lakeStore.locate(current.name))
  assert.match(
    String((await compare()).findings.find(([kind]) => kind === 'corrupt')?.[1]),
    /it is cut off, or the store has not written it/,
  )
  assert.equal((await counted()).quarantined, 1)
  assert.deepEqual((await compare()).findings, [])

  const [message = assert.fail()] = await topic.read(0, 1)
  const sequence = (await topic.newestSequence()) + 100
  const { event } = message as TopicMessage<CatalogueEvent>
  const again = nameOf({ dataset: 'catalogue', ingestDate: new Date().toISOString().slice(0, 10), first: sequence, last: sequence })
  await store.lakeStore.withWorkspace(async (workspace) => {
    const lines = [JSON.stringify(toCatalogueRow({ sequence, event }, new Date().toISOString()))]
    await writeParquet(join(workspace, 'file'), lines, again, CATALOGUE_COLUMNS)
    await store.lakeStore.put(again, join(workspace, 'file'))
  })
  assert.deepEqual((await compare()).findings, [['doubled', [event.id]]])
  assert.deepEqual(await counted(), { quarantined: 1, written: 0, lost: [] })
  assert.deepEqual((await compare()).findings, [])

  // The last one has no row any more.
  for (const { name } of (await store.lakeStore.list('catalogue/')).slice(-2)) await store.lakeStore.delete(name)
  const { rows: left } = await queryFolder(store.lake, 'select event_id from catalogue_events')
  const gone = ids.filter((id) => !left.flat().includes(id))
  assert.ok(left.length > 0 && gone.length > 0)
  assert.deepEqual((await compare()).findings, [['missing', gone]], 'the newest file is gone')
  assert.deepEqual(await counted(), { quarantined: 0, written: 0, lost: [], later: gone.length }, 'the sink writes them')
  const stopAgain = await store.startPipeline()
  await eventually(async () => (await compare()).findings.length === 0, { what: 'the events again', timeoutMs: 60_000 })
  await stopAgain()
  const inLake = async () =>
    (await queryFolder(store.lake, 'select event_id from catalogue_events')).rows.map(([id]) => String(id)).toSorted()
  assert.deepEqual(await inLake(), ids)

  // Events that the topic has lost, too, are made from the database.
  const files = await store.lakeStore.list('catalogue/')
  const last = files.at(-1)?.name ?? ''
  const kept = await queryFolder(store.lake, `select event_id from catalogue_events where sequence < ${parseName(last)?.first}`)
  await store.pool.query('delete from catalogue_messages where not id = any($1)', [kept.rows.map(([id]) => String(id))])
  await damage(store.lakeStore.locate(last))
  assert.deepEqual(await counted(), { quarantined: 1, written: ids.length - kept.rows.length, lost: [] })
  assert.deepEqual(await inLake(), ids)
  const [remade] = (await store.lakeStore.list('catalogue/')).filter(({ name }) => parseName(name)?.first === parseName(last)?.first)
  const [lost = ''] = ids.filter((id) => !kept.rows.flat().includes(id))
  await store.pool.query(
    `delete from product_events where product_id || case stream when 'stock' then '.stock.' else '.' end || version = $1`,
    [lost],
  )
  await damage(store.lakeStore.locate(remade?.name ?? ''))
  assert.deepEqual(await counted(), { quarantined: 1, written: ids.length - kept.rows.length - 1, lost: [lost] })
})

/** Rewrites the file like a foreign program would, with other prices. */
async function rewriteWithout(path: string): Promise<void> {
  await queryDuckDB(
    sql`copy (select * replace (price_amount + 777 as price_amount) from ${parquetRows([path])}) to ${`${path}.new`} (format parquet)`,
  )
  await rename(`${path}.new`, path)
}

/** Damages the checksum: the keys of the rows stay readable. */
async function damage(path: string): Promise<void> {
  const bytes = await readFile(path)
  bytes[bytes.length - 60] = (bytes.at(-60) ?? 0) ^ 4
  await writeFile(path, bytes)
}

test('verify and doctor name what the Iceberg table of the catalogue lacks, has twice, or has and nothing else', async (t) => {
  const store = await startAuditedStore(t)
  const { lakeStore: lake } = store
  const topic = createPostgresTopic(CATALOGUE, { pool: store.pool, url: store.url, logger: silent })
  const compare = (tableDueBefore = 0, written: TablesRead['written'] = []) => compareLake(store, topic, tableDueBefore, written)
  const tableFindings = async (tableDueBefore = 0) =>
    (await compare(tableDueBefore)).findings
      .filter(({ place }) => place === 'tables')
      .map(({ kind, examples }) => [kind, examples.toSorted()])
  const untilStored = (count: number) =>
    eventually(async () => (await compare()).events >= count, { what: `${count} events in the lake`, timeoutMs: 60_000 })
  const stop = await store.startPipeline()
  const ids = [`${(await store.addProduct({ stock: null })).id}.1`]
  await untilStored(2)
  await commitEvents(lake)
  ids.push(`${(await store.addProduct({ stock: null })).id}.1`)
  await untilStored(3)
  await stop()
  const late = Date.now() + 60_000
  const young = await compare()
  const written = [
    { name: 'products', dataset: 'catalogue', upTo: 3, events: 2 },
    { name: 'prices', dataset: 'catalogue', upTo: 2, events: 2 },
    { name: 'orders', dataset: 'orders', upTo: 3, events: 0 },
  ] as const
  assert.deepEqual((await compare(0, [...written])).findings, [
    { place: 'tables', kind: 'missing', count: 1, examples: ['products: it was made of 2 of the 3 events up to sequence 3'] },
  ])
  assert.deepEqual([young.findings, young.table], [[], { events: 2, waiting: 1 }])
  const report = await store.verify()
  assert.match(
    formatReport({ ...report, catalogueLake: young }),
    /\nlake {4}3 events of the catalogue in 2 files\ntables {2}1 table, 0 events in order_events, 2 events in catalogue_events; 1 on the way\n/,
  )
  assert.deepEqual(await tableFindings(late), [['missing', [`catalogue_events: ${ids[1]}`]]])
  const doctor = await examineTables(store.config, 60_000, () => Date.now() + 3_600_000)
  assert.match(doctor.map(({ found }) => found).join(), /^catalogue_events lacks 1 file of the lake, such as catalogue\//)

  const table = new TableStore(lake, 'catalogue_events')
  await commitEvents(lake)
  assert.deepEqual(await tableFindings(late), [])
  const base = await readBase(table)
  const [first, second] = base.manifests
    .flatMap(({ entries }) => entries)
    .toSorted((a, b) => a.data_file.record_count - b.data_file.record_count)
  assert.ok(first && second)
  const added = { operation: 'append', added: [first.data_file], removed: new Set<string>() } as const
  assert.ok(await commitSnapshot(table, CATALOGUE_EVENTS, base, added, new Date()))
  assert.deepEqual(await tableFindings(), [['doubled', [`catalogue_events: ${ids[1]}`]]])
  await commitEvents(lake)
  assert.deepEqual(await tableFindings(), [])
  await store.pool.query('delete from catalogue_messages where id = $1', [ids[1]])
  await store.pool.query(`delete from product_events where product_id || '.1' = $1`, [ids[1]])
  for (const { name } of await lake.list('catalogue/')) if (name.includes('0003-')) await rm(lake.locate(name))
  assert.deepEqual(await tableFindings(), [['unknown', [`catalogue_events: ${ids[1]}`]]])
})
