import assert from 'node:assert/strict'
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import type { DuckDBConnection } from '@duckdb/node-api'
import { writeCatalogue } from '../../test/catalogue-lake.ts'
import { createTestDatabase } from '../../test/database.ts'
import { assertFresh } from '../../test/derived-tables.ts'
import { readWithIcebird } from '../../test/iceberg-reader.ts'
import { writeFiles } from '../../test/lake-harness.ts'
import { watchSteps } from '../../test/lake-steps.ts'
import { makeLocalLake } from '../../test/lake-stores.ts'
import { silent } from '../../test/stream-harness.ts'
import { readTables } from '../audit/verify/compare-tables.ts'
import { DERIVED_TABLES } from './iceberg/lake-table.ts'
import { TableStore } from './iceberg/table-store.ts'
import { makeSpillPath, withDuckDB } from './lake-database.ts'
import { withTablesLock } from './lake-lock.ts'
import { listLake } from './list-files.ts'
import { LakeMaintenance, maintainLake, pauseAfter } from './maintain-lake.ts'

test('maintenance names a damaged lake file and the command that repairs it', async (t) => {
  const lake = await makeLocalLake(t)
  await writeFiles(t, lake.store, [2])
  await writeCatalogue(t, lake.store)
  const { failures, written } = await maintainLake({ store: lake.store })
  assert.deepEqual([failures, written], [[], DERIVED_TABLES.length])
  await writeFiles(t, lake.store, [2], { from: 3 })
  const file = (await listLake(lake.store, 'orders')).at(-1) ?? assert.fail()
  await writeFile(lake.pathOf(file.name), 'half of a file')
  const damaged = await maintainLake({ store: lake.store })
  assert.deepEqual([damaged.failures.length, damaged.written], [2, 0])
  assert.match(damaged.failures[1] ?? '', /^tables of the newest state: .*: it cannot be read: .*; run storefront lake repair$/)
})

test('a disk that is full while tables are written does not stop the other steps, and the tables are retried in the next hour', async (t) => {
  const { store } = await makeLocalLake(t)
  const { url } = await createTestDatabase(t)
  await writeFiles(t, store, [2, 2])
  let attempts = 0
  const full = watchSteps(store, (step, name) => {
    if (step !== 'before put' || !name.startsWith('iceberg/orders/')) return
    attempts += 1
    throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
  })
  const { failures, merged, snapshots } = await maintainLake({ store: full, keepHours: 0 })
  assert.deepEqual([merged, failures.length, snapshots > 1], [1, 1, true])
  assert.match(failures[0] ?? '', /^tables of the newest state: no space left/)
  let now = new Date('2026-03-01T00:10:00Z')
  const maintenance = new LakeMaintenance({ store: full, url, logger: silent, now: () => now })
  for (let round = 0; round < 3; round++) await maintenance.round()
  assert.equal(attempts, 2)
  now = new Date('2026-03-01T01:00:00Z')
  await maintenance.round()
  assert.equal(attempts, 3)
})

test('a stop ends the maintenance at its next step, and ends the query in flight', async (t) => {
  const lake = await makeLocalLake(t)
  await writeFiles(t, lake.store, [2, 2])
  const stopping = new AbortController()
  const steps: string[] = []
  const store = watchSteps(lake.store, (step) => {
    steps.push(step)
    if (step === 'before withCopies') stopping.abort()
  })
  const { signal } = stopping
  await assert.rejects(maintainLake({ store, signal }), { name: 'AbortError' })
  assert.deepEqual(
    steps.filter((step) => step !== 'before list' && step !== 'after list'),
    ['before withCopies'],
  )
  const late = new AbortController()
  const endless = async (connection: DuckDBConnection) => {
    const query = connection.run('select count(*) from range(10000000000) a, range(10000000000) b')
    setImmediate(() => late.abort())
    await query
  }
  await assert.rejects(withDuckDB(makeSpillPath(), endless, {}, late.signal), /[Ii]nterrupt/)
})

test('if two processes refresh the tables at once, one writes them, and none writes while the lake is unchanged', async (t) => {
  const { store } = await makeLocalLake(t)
  const { url } = await createTestDatabase(t)
  await writeFiles(t, store, [3, 2])
  await writeCatalogue(t, store)
  const both = [0, 1].map(() => new LakeMaintenance({ store, url, logger: silent }))
  const version = async () => (await new TableStore(store, 'orders').read()).newest?.version
  for (const expected of [1, 1, 2]) {
    if (expected === 2) await writeFiles(t, store, [2], { from: 6 })
    await Promise.all(both.map((each) => each.refresh()))
    assert.equal(await version(), expected)
    await assertFresh(store)
  }
})

test('a refresh skips its round while another process writes the tables', { timeout: 30_000 }, async (t) => {
  const { store } = await makeLocalLake(t)
  const { url } = await createTestDatabase(t)
  await writeFiles(t, store, [3])
  let fresh = 0
  const onFresh = () => {
    fresh += 1
  }
  const maintenance = new LakeMaintenance({ store, url, logger: silent, onFresh })
  await withTablesLock(url, () => maintenance.refresh())
  assert.equal(fresh, 0)
  for (const expected of [1, 2]) {
    await maintenance.refresh()
    assert.equal(fresh, expected)
  }
  await assertFresh(store)
})

test('refreshes take at most a twentieth of a processor, and wait at most a quarter of an hour', async (t) => {
  assert.deepEqual([0, 1_500, 4_600, 100_000].map(pauseAfter), [30_000, 30_000, 92_000, 900_000])
  const { store } = await makeLocalLake(t)
  const { url } = await createTestDatabase(t)
  await writeFiles(t, store, [3])
  let isBusy = false
  const busy = watchSteps(store, (step) => {
    if (isBusy || step !== 'before put') return
    isBusy = true
    const before = process.cpuUsage()
    while (process.cpuUsage(before).user < 1_600_000);
  })
  const maintenance = new LakeMaintenance({ store: busy, url, logger: silent })
  const pauses = [await maintenance.refresh(), await maintenance.refresh()]
  assert.ok((pauses[0] ?? 0) >= 32_000, `${pauses[0]} ms`)
  assert.equal(pauses[1], 30_000)
})

test('the catalogue tables are refreshed even if the metadata of orders are damaged', async (t) => {
  const lake = await makeLocalLake(t)
  const { url } = await createTestDatabase(t)
  await writeFiles(t, lake.store, [3])
  await writeCatalogue(t, lake.store)
  const { newest } = await new TableStore(lake.store, 'order_events').read()
  await writeFile(lake.pathOf(newest?.name ?? ''), 'half of it')
  const maintenance = new LakeMaintenance({ store: lake.store, url, logger: silent })
  await assert.rejects(maintenance.refresh(), /storefront lake repair/)
  assert.ok((await readWithIcebird(lake, 'products')).length > 0)
})

test('a day with many files, one of them damaged, is tried once an hour', async (t) => {
  const lake = await makeLocalLake(t)
  const { url } = await createTestDatabase(t)
  await writeFiles(t, lake.store, Array(30).fill(1))
  const [file = assert.fail()] = await listLake(lake.store, 'orders')
  await writeFile(lake.pathOf(file.name), 'half of a file')
  let attempts = 0
  const store = watchSteps(lake.store, (step) => {
    if (step === 'before withCopies') attempts += 1
  })
  let now = new Date('2026-03-01T00:10:00Z')
  const maintenance = new LakeMaintenance({ store, url, logger: silent, now: () => now })
  await maintenance.round()
  const first = attempts
  await maintenance.round()
  assert.equal(attempts, first)
  now = new Date('2026-03-01T01:00:00Z')
  await maintenance.round()
  assert.ok(attempts > first)
})

test('verify finds each damaged file of a table and each missing table, and maintenance writes them again', async (t) => {
  const lake = await makeLocalLake(t)
  await writeFiles(t, lake.store, [3, 2])
  await writeCatalogue(t, lake.store)
  const update = async () => assert.deepEqual((await maintainLake({ store: lake.store })).failures, [])
  const faults = async () => (await readTables(lake.store)).faults
  await update()
  assert.deepEqual(await faults(), [])
  const rows = () => Promise.all(['orders', 'products', 'prices', 'stock_events'].map((name) => readWithIcebird(lake, name)))
  const before = await rows()
  /** Names do not tell: most are random. */
  const newest = async (folder: string, of: RegExp) => {
    const names = (await readdir(lake.pathOf(folder), { recursive: true })).filter((name) => of.test(name))
    const files = await Promise.all(
      names.map(async (name) => ({ path: lake.pathOf(`${folder}/${name}`), at: (await stat(lake.pathOf(`${folder}/${name}`))).mtimeMs })),
    )
    return files.toSorted((a, b) => a.at - b.at).at(-1)?.path ?? assert.fail(folder)
  }
  const damage = async (path: string, change: (bytes: Buffer) => Buffer) => writeFile(path, change(await readFile(path)))
  const flip = (fromEnd: number) => (bytes: Buffer) => {
    const place = bytes.length - fromEnd
    bytes.writeUInt8(bytes.readUInt8(place) ^ 1, place)
    return bytes
  }
  const cases: [string, () => Promise<unknown>][] = [
    ['a file of zeros', async () => damage(await newest('iceberg/products/data', /parquet$/), (bytes) => Buffer.alloc(bytes.length))],
    ['a flipped bit', async () => damage(await newest('iceberg/prices/data', /parquet$/), flip(600))],
    [
      'another name of a column',
      async () =>
        damage(await newest('iceberg/orders/metadata', /json$/), (bytes) =>
          Buffer.from(bytes.toString().replaceAll('total_amount', 't0tal_amount')),
        ),
    ],
    ['bounds in a manifest', async () => damage(await newest('iceberg/products/metadata', /^manifest.*avro$/), flip(62))],
    ['a list of manifests', async () => damage(await newest('iceberg/orders/metadata', /^snap.*avro$/), flip(40))],
    ['a table that is gone', () => rm(lake.pathOf('iceberg/products'), { recursive: true })],
    ['the last of several tables', () => rm(lake.pathOf('iceberg/stock_events'), { recursive: true })],
  ]
  for (const [what, work] of cases) {
    await work()
    assert.ok((await faults()).length > 0, what)
    await update()
    assert.deepEqual(await faults(), [], what)
    assert.deepEqual(await rows(), before, what)
  }
  const hint = lake.pathOf('iceberg/orders/metadata/version-hint.text')
  const right = await readFile(hint, 'utf8')
  await writeFile(hint, '1')
  await update()
  assert.equal(await readFile(hint, 'utf8'), right)
})
