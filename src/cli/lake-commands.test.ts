import assert from 'node:assert/strict'
import { copyFile, rm, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { writeCatalogue } from '../../test/catalogue-lake.ts'
import { writeFiles } from '../../test/lake-harness.ts'
import { makeLocalLake } from '../../test/lake-stores.ts'
import { listLake } from '../lake/list-files.ts'
import { updateTables } from './lake-commands.ts'

test('lake tables names each damaged file, and what repairs it', async (t) => {
  const lake = await makeLocalLake(t)
  await writeFiles(t, lake.store, [2])
  await writeCatalogue(t, lake.store)
  const names: string[] = []
  for (const dataset of ['orders', 'catalogue'] as const) {
    const [sound = assert.fail()] = await listLake(lake.store, dataset)
    names.push(`${dataset}/ingest_date=2026-03-01/0000000000009000-0000000000009001.parquet`)
    await copyFile(lake.pathOf(sound.name), lake.pathOf(names.at(-1) ?? ''))
  }
  const [out, err]: [string[], string[]] = [[], []]
  const terminal = { out: (line: string) => void out.push(line), err: (line: string) => void err.push(line), exit: () => assert.fail() }
  assert.equal(await updateTables({ lake: lake.store, terminal }), 1)
  assert.deepEqual(out, ['2 new snapshots of events, 0 tables written again'])
  assert.match(err.pop() ?? '', /^tables of the newest state are not written again: .*: it was written as .*; run storefront lake repair$/)
  assert.equal(err.length, 2)
  for (const [index, line] of err.entries()) {
    const start = `not in the table: ${lake.store.locate(names[index] ?? '')}: it was written as `
    assert.ok(line.startsWith(start) && line.endsWith('; run storefront lake repair'), line)
  }
  await writeFile(lake.pathOf('catalogue/ingest_date=2026-03-01/0000000000009002-0000000000009002.parquet'), 'half of a file')
  err.splice(0)
  assert.equal(await updateTables({ lake: lake.store, terminal }), 1)
  assert.match(err.join('\n'), /^not in the table: .*catalogue\/.*9002\.parquet: it cannot be read: .*; run storefront lake repair$/m)

  // Whole again, but for a file that is in the table and gone.
  for (const name of [...names, 'catalogue/ingest_date=2026-03-01/0000000000009002-0000000000009002.parquet']) await rm(lake.pathOf(name))
  assert.equal(await updateTables({ lake: lake.store, terminal }), 0)
  assert.equal(out.at(-1), '0 new snapshots of events, 5 tables written again')
  const [gone = assert.fail()] = await listLake(lake.store, 'orders')
  await rm(lake.pathOf(gone.name))
  err.splice(0)
  assert.equal(await updateTables({ lake: lake.store, terminal }), 1)
  assert.deepEqual(err, [
    `no more in the table: ${lake.store.locate(gone.name)} is gone, and no other file has its events; run storefront lake repair`,
  ])
})
