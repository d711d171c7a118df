import assert from 'node:assert/strict'
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { writeCatalogue } from '../../test/catalogue-lake.ts'
import { readWithIcebird } from '../../test/iceberg-reader.ts'
import { writeFiles } from '../../test/lake-harness.ts'
import { makeLocalLake } from '../../test/lake-stores.ts'
import { readTables } from '../audit/verify/compare-tables.ts'
import { listLake } from './list-files.ts'
import { maintainLake } from './maintain-lake.ts'

test('maintaining names a damaged file of the lake, and what repairs it', async (t) => {
  const lake = await makeLocalLake(t)
  await writeFiles(t, lake.store, [2])
  await writeCatalogue(t, lake.store)
  const { failures, written } = await maintainLake({ store: lake.store })
  assert.deepEqual([failures, written], [[], 5])
  await writeFiles(t, lake.store, [2], { from: 3 })
  const file = (await listLake(lake.store, 'orders')).at(-1) ?? assert.fail()
  await writeFile(lake.pathOf(file.name), 'half of a file')
  const damaged = await maintainLake({ store: lake.store })
  assert.deepEqual([damaged.failures.length, damaged.written], [2, 0])
  assert.match(damaged.failures[1] ?? '', /^tables of the newest state: .*: it cannot be read: .*; run storefront lake repair$/)
})

test('verify finds each damaged file of the tables, and each table that is gone; maintaining writes them again', async (t) => {
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
