import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { type TestContext, test } from 'node:test'
import { CatalogueHistory, toMessages } from '../../../test/catalogue-event-factory.ts'
import { assertFresh, tableFiles } from '../../../test/derived-tables.ts'
import { readWithIcebird } from '../../../test/iceberg-reader.ts'
import { NEVER, startSinkOn, writeFiles } from '../../../test/lake-harness.ts'
import { watchSteps } from '../../../test/lake-steps.ts'
import { makeLocalLake } from '../../../test/lake-stores.ts'
import { makeOrderEvent, makeOrderItem } from '../../../test/order-event-factory.ts'
import { SHARE } from '../../../test/share.ts'
import { silent } from '../../../test/stream-harness.ts'
import { Trade } from '../../../test/trade.ts'
import type { TopicMessage } from '../../topic/topic.ts'
import { compactLake } from '../compact-lake.ts'
import { CATALOGUE_DATASET } from '../lake-dataset.ts'
import { LakeSink } from '../lake-sink.ts'
import type { LakeStore } from '../lake-store.ts'
import { commitFiles, readSnapshot } from './event-table.ts'
import { DERIVED_TABLES } from './lake-table.ts'
import { currentSnapshot } from './table-metadata.ts'
import { TableStore } from './table-store.ts'
import { EVENTS, writeDerivedTables } from './write-derived-tables.ts'

const FILE_ROWS = 8
const ORDER_TABLES = DERIVED_TABLES.filter(({ dataset }) => dataset === 'orders').length
const refresh = (store: LakeStore) => writeDerivedTables(store, { fileRows: FILE_ROWS })

async function startOrders(t: TestContext, store: LakeStore) {
  const sink = await startSinkOn(t, store)
  return async (messages: TopicMessage[]) => {
    await sink.handle(messages, NEVER)
    await sink.flush()
  }
}

test('each refresh updates the order tables to the end of the lake, and keeps files without a changed order', async (t) => {
  const { store, ...lake } = await makeLocalLake(t)
  const write = await startOrders(t, store)
  const trade = new Trade()
  let kept = 0
  for (let round = 0; round < 9; round++) {
    await write(trade.batch(round < 4 ? 30 : 3))
    if (round === 6) await compactLake({ store, isWanted: () => true })
    const before = new Set((await tableFiles(store, 'orders')).map(({ file_path }) => file_path))
    assert.equal(await refresh(store), ORDER_TABLES)
    await assertFresh(store)
    kept += (await tableFiles(store, 'orders')).filter(({ file_path }) => before.has(file_path)).length
  }
  assert.equal(await refresh(store), 0)
  const files = await tableFiles(store, 'orders')
  const rows = files.reduce((sum, { record_count }) => sum + record_count, 0)
  assert.ok(files.length >= 6 && files.length <= rows / FILE_ROWS + 3, `${files.length} files of ${rows} rows`)
  assert.ok(kept > 10, `${kept} files stayed`)
  const months = Map.groupBy(files, ({ partition }) => partition.month)
  assert.deepEqual([...months.keys()].toSorted(), [672, 673, 674])
  assert.equal((await readWithIcebird({ ...lake, store }, 'orders')).length, rows)
})

test('a late event of an earlier version changes only the number of events of its order', async (t) => {
  const { store } = await makeLocalLake(t)
  const write = await startOrders(t, store)
  const first = makeOrderEvent()
  const { order } = first.data
  const version = (number: number) =>
    makeOrderEvent({
      order: { ...order, version: number, items: [makeOrderItem({ quantity: number })], updated_at: `2026-03-02T0${number}:00:00.000Z` },
    })
  await write([
    { sequence: 1, event: first },
    { sequence: 2, event: version(3) },
  ])
  await refresh(store)
  await write([{ sequence: 3, event: version(2) }])
  assert.equal(await refresh(store), ORDER_TABLES)
  await assertFresh(store)
  // A replay publishes it again, and the lake leaves it out.
  await write([{ sequence: 4, event: version(2) }])
  assert.equal(await refresh(store), ORDER_TABLES)
  await assertFresh(store)
})

test('a late event between the cancellation and the newest version keeps who cancelled the order, and why', async (t) => {
  const { store } = await makeLocalLake(t)
  const write = await startOrders(t, store)
  const first = makeOrderEvent()
  const { order } = first.data
  const cancelled = (version: number, type: 'customer' | 'admin', reason: string) => {
    const entries = [{ status: 'cancelled' as const, at: '2026-03-02T10:00:00.000Z', actor: { type, id: order.user_id }, reason }]
    return makeOrderEvent({ order: { ...order, version, status: 'cancelled', status_history: [...order.status_history, ...entries] } })
  }
  await write([
    { sequence: 1, event: first },
    { sequence: 2, event: cancelled(2, 'customer', 'too late') },
    { sequence: 3, event: cancelled(4, 'admin', 'refunded') },
  ])
  await refresh(store)
  await write([{ sequence: 4, event: cancelled(3, 'admin', 'a note') }])
  await refresh(store)
  await assertFresh(store)
})

test('an order whose creation time was changed is in its tables once', async (t) => {
  const { store } = await makeLocalLake(t)
  const write = await startOrders(t, store)
  const trade = new Trade()
  const first = trade.batch(40)
  await write(first)
  await refresh(store)
  const { order } = (first.at(-1) ?? assert.fail()).event.data
  for (const created_at of ['2025-06-01T10:00:00.000Z', '2026-03-31T10:00:00.000Z']) {
    const version = order.version + (created_at < '2026' ? 1 : 2)
    await write([{ sequence: 39 + version - order.version + 1, event: makeOrderEvent({ order: { ...order, created_at, version } }) }])
    assert.equal(await refresh(store), ORDER_TABLES)
    await assertFresh(store)
  }
})

test('after a lake was restored without its last events, and has passed their sequences, no table has their orders', async (t) => {
  const { store } = await makeLocalLake(t)
  const trade = new Trade()
  await (await startOrders(t, store))(trade.batch(20))
  const events = new TableStore(store, 'order_events')
  const backup = await events.read()
  await refresh(store)
  await (await startOrders(t, store))(trade.batch(4))
  await refresh(store)
  const { newest } = await events.read()
  assert.ok(newest && newest.version === backup.nextVersion)
  await store.delete(newest.name)
  const other = Array.from({ length: 6 }, (_, index) => ({ sequence: 21 + index, event: makeOrderEvent() }))
  await (await startOrders(t, store))(other)
  await refresh(store)
  await assertFresh(store)
})

test('a table is rewritten as a whole if it has another number of events than the lake', async (t) => {
  const { store } = await makeLocalLake(t)
  const write = await startOrders(t, store)
  const trade = new Trade()
  await write(trade.batch(20))
  await refresh(store)
  const table = new TableStore(store, 'orders')
  const { newest, nextVersion } = await table.read()
  assert.ok(newest)
  const snapshots = newest.metadata.snapshots.map(({ summary, ...each }) => ({ ...each, summary: { ...summary, [EVENTS]: '19' } }))
  assert.ok(await table.commit(nextVersion, { ...newest.metadata, snapshots }))
  await write(trade.batch(1))
  await refresh(store)
  const state = await table.read()
  assert.equal(currentSnapshot(state.newest?.metadata ?? assert.fail()).summary[EVENTS], '21')
})

test('after the last file of a lake was removed, its tables are empty', async (t) => {
  const { store } = await makeLocalLake(t)
  const trade = new Trade()
  await (await startOrders(t, store))(trade.batch(20))
  await refresh(store)
  const snapshot = await readSnapshot(store, 'orders')
  assert.ok(await commitFiles(snapshot, { added: [], removed: snapshot.files, endsSnapshots: true }, new Date()))
  assert.equal(await refresh(store), ORDER_TABLES)
  assert.deepEqual(await tableFiles(store, 'orders'), [])
  assert.equal(await refresh(store), 0)
  await (await startOrders(t, store))(trade.batch(2))
  await refresh(store)
  await assertFresh(store)
})

test('the catalogue tables follow each change of a product, a price and the stock', async (t) => {
  const { store } = await makeLocalLake(t)
  const sink = new LakeSink({
    store,
    dataset: CATALOGUE_DATASET,
    flushSeconds: 3_600,
    flushRows: 1_000,
    logger: silent,
    now: () => new Date(),
  })
  await sink.start()
  t.after(() => sink.stop())
  const products = Array.from({ length: 20 }, (_, index) =>
    new CatalogueHistory({ sku: `SKU-${index}`, prices: [{ amount: 5, currency: 'USD', compare_at: null }] }).change(
      'created',
      '2026-01-31T08:00:00.000Z',
    ),
  )
  let sequence = 1
  const write = async (histories: CatalogueHistory[]) => {
    for (const history of histories) {
      const messages = toMessages(history.events.splice(0), sequence)
      sequence += messages.length
      await sink.handle(messages, NEVER)
    }
    await sink.flush()
  }
  await write(products)
  assert.equal(await refresh(store), 3)
  await assertFresh(store)
  const [mug = assert.fail(), cup = assert.fail(), jug = assert.fail()] = products
  for (const changed of [
    mug.reprice('2026-02-01T09:00:00.000Z', 999),
    cup.stock('2026-02-02T09:00:00.000Z', 0, 3),
    mug.change('updated', '2026-02-03T10:00:00.000Z', { name: 'Big mug', prices: [] }),
    jug.change('archived', '2026-03-01T12:00:00.000Z', { archived_at: '2026-03-01T12:00:00.000Z' }),
    mug.change('updated', '2026-03-02T10:00:00.000Z', { prices: [{ amount: 5, currency: 'USD', compare_at: null }] }),
  ]) {
    await write([changed])
    await refresh(store)
    await assertFresh(store)
  }
  assert.ok((await tableFiles(store, 'products')).length > 1)
})

test('a killed refresh leaves complete tables, whatever the step, and the next refresh updates them', async (t) => {
  const lake = await makeLocalLake(t)
  const write = await startOrders(t, lake.store)
  const trade = new Trade()
  await write(trade.batch(30))
  await refresh(lake.store)
  for (let kill = 1 + 13 * SHARE.first, isKilled = true; isKilled; kill += 13 * SHARE.step) {
    await write(trade.batch(2))
    let step = 0
    const dying = watchSteps(lake.store, () => {
      step += 1
      if (step >= kill) throw new Error('killed')
    })
    isKilled = await refresh(dying).then(
      () => false,
      (error: Error) => error.message === 'killed' || assert.fail(error),
    )
    for (const table of ['orders', 'order_lines']) assert.ok((await readWithIcebird(lake, table)).length > 0)
    await refresh(lake.store)
    await assertFresh(lake.store)
  }
})

test('two concurrent writers write the same tables, also during a merge', async (t) => {
  const { store } = await makeLocalLake(t)
  const write = await startOrders(t, store)
  const trade = new Trade()
  await write(trade.batch(20))
  for (let round = 0; round < 3; round++) {
    await Promise.all([refresh(store), refresh(store), compactLake({ store, isWanted: () => true }), write(trade.batch(5))])
    await refresh(store)
    await assertFresh(store)
  }
})

test("a table is rewritten as a whole if its own file is damaged or missing, or if the lake's past has changed", async (t) => {
  const { store, pathOf } = await makeLocalLake(t)
  const write = await startOrders(t, store)
  const trade = new Trade()
  await write(trade.batch(30))
  await refresh(store)
  for (const damage of [
    async (path: string) => {
      const bytes = await readFile(path)
      bytes.writeUInt8(bytes.readUInt8(40) ^ 1, 40)
      await writeFile(path, bytes)
    },
    (path: string) => store.delete(path.slice(path.indexOf('iceberg/'))),
  ]) {
    for (const { file_path } of await tableFiles(store, 'orders')) await damage(pathOf(file_path.slice(file_path.indexOf('iceberg/'))))
    await write(trade.batch(3))
    assert.equal(await refresh(store), ORDER_TABLES)
    await assertFresh(store)
  }
  const snapshot = await readSnapshot(store, 'orders')
  const [first = assert.fail()] = snapshot.files
  assert.ok(await commitFiles(snapshot, { added: [], removed: [first] }, new Date()))
  assert.equal(await refresh(store), ORDER_TABLES)
  await assertFresh(store)
  assert.ok(await commitFiles(await readSnapshot(store, 'orders'), { added: [first.data] }, new Date()))
  assert.equal(await refresh(store), ORDER_TABLES)
  await assertFresh(store)
  await writeFiles(t, store, [1], { from: 1_000 })
  await refresh(store)
  await assertFresh(store)
})
