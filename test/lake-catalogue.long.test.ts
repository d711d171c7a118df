import assert from 'node:assert/strict'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { catalogueSlotOf } from '../src/app/prepare-database.ts'
import { repairLake } from '../src/audit/replay/repair-lake.ts'
import { compareCatalogue } from '../src/audit/verify/verify.ts'
import type { CatalogueEvent } from '../src/catalogue/catalogue-event.ts'
import { sql } from '../src/db/sql.ts'
import { toCatalogueRow } from '../src/lake/catalogue-row.ts'
import { commitFiles, readSnapshot } from '../src/lake/iceberg/event-table.ts'
import { CATALOGUE_EVENTS } from '../src/lake/iceberg/lake-table.ts'
import { writeDerivedTables } from '../src/lake/iceberg/write-derived-tables.ts'
import { parquetRows } from '../src/lake/lake-database.ts'
import { newName } from '../src/lake/lake-names.ts'
import { listLake } from '../src/lake/list-files.ts'
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
  await eventually(async () => (await inLake()).length >= (await recorded()).length, { what: 'the events in the lake' })
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

  await writeDerivedTables(store.lakeStore)
  const lake = { store: store.lakeStore, pathOf: (name: string) => store.lakeStore.locate(name) }
  assert.deepEqual((await readWithIcebird(lake, 'catalogue_events')).map(({ event_id }) => String(event_id)).toSorted(), await recorded())
  assert.deepEqual(
    (await readWithIcebird(lake, 'products')).filter(({ product_id }) => product_id === product.id).map(({ name }) => name),
    names.rows.map(([name]) => name),
  )
})

/** What `verify` reports of the catalogue in the lake, without what it finds in the topic. */
async function compareLake(store: AuditedStore, topic: Topic<CatalogueEvent>) {
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
  const dueBefore = { mails: 0, lake: Date.now() }
  const { catalogueLake, findings, undecided } = await compareCatalogue(options, dueBefore)
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
    await eventually(async () => (await compare()).events >= events, { what: 'the events in the lake' })
  }
  await stop()
  const whole = await compare()
  assert.deepEqual([whole.waiting, whole.isOverdue, whole.findings], [0, false, []])
  assert.equal((await store.verify()).findings.length, 0)

  const ids = (await queryFolder(store.lake, 'select event_id from catalogue_events')).rows.map(([id]) => String(id)).toSorted()
  const [file = assert.fail()] = await listLake(store.lakeStore, 'catalogue')
  const path = store.lakeStore.locate(file.name)
  const bytes = await readFile(path)
  const repair = () => repairLake({ ...store, store: store.lakeStore, catalogueTopic: topic, now: () => new Date() })
  const counted = async () => {
    const { quarantined, written, later, lost } = await repair()
    return { quarantined: quarantined.length, written, lost, ...(later === 0 ? {} : { later }) }
  }
  await writeFile(path, Buffer.concat([bytes.subarray(0, 50), Buffer.from([Number(bytes[50]) ^ 1]), bytes.subarray(51)]))
  const damaged = (await compare()).findings
  assert.deepEqual(
    damaged.map(([kind]) => kind),
    ['missing', 'corrupt'],
  )
  assert.deepEqual(await counted(), { quarantined: 1, written: damaged[0]?.[1]?.length, lost: [] })
  assert.deepEqual((await compare()).findings, [])

  const [current = assert.fail()] = await listLake(store.lakeStore, 'catalogue')
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
  const snapshot = await readSnapshot(store.lakeStore, 'catalogue')
  const again = newName('catalogue', new Date().toISOString().slice(0, 10), sequence, sequence)
  await store.lakeStore.withWorkspace(async (workspace) => {
    const lines = [JSON.stringify(toCatalogueRow({ sequence, event }, new Date().toISOString()))]
    const target = { path: join(workspace, 'file'), location: snapshot.table.locate(again) }
    const added = [await writeParquet(target, lines, CATALOGUE_EVENTS)]
    await store.lakeStore.put(again, target.path)
    assert.ok(await commitFiles(snapshot, { added }, new Date()))
  })
  assert.deepEqual((await compare()).findings, [['doubled', [event.id]]])
  assert.deepEqual(await counted(), { quarantined: 1, written: 0, lost: [] })
  assert.deepEqual((await compare()).findings, [])

  const [deleted = assert.fail()] = await listLake(store.lakeStore, 'catalogue')
  await store.lakeStore.delete(deleted.name)
  const { findings } = await compare()
  assert.deepEqual(
    findings.map(([kind]) => kind),
    ['missing', 'corrupt'],
    'a file is gone',
  )
  assert.deepEqual(await counted(), { quarantined: 0, written: findings[0]?.[1]?.length, lost: [] })
  assert.deepEqual((await compare()).findings, [])
  const inLake = async () =>
    (await queryFolder(store.lake, 'select event_id from catalogue_events')).rows.map(([id]) => String(id)).toSorted()
  assert.deepEqual(await inLake(), ids)

  // Events that the topic has lost, too, are made from the database.
  const files = await listLake(store.lakeStore, 'catalogue')
  const last = files.at(-1) ?? assert.fail()
  const kept = await queryFolder(
    store.lake,
    `select event_id from catalogue_events where sequence not between ${last.first} and ${last.last}`,
  )
  await store.pool.query('delete from catalogue_messages where not id = any($1)', [kept.rows.map(([id]) => String(id))])
  await damage(store.lakeStore.locate(last.name))
  assert.deepEqual(await counted(), { quarantined: 1, written: ids.length - kept.rows.length, lost: [] })
  assert.deepEqual(await inLake(), ids)
  const remade = (await listLake(store.lakeStore, 'catalogue')).find(({ first }) => first === last.first)
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
