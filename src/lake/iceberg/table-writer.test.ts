import assert from 'node:assert/strict'
import { rm, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { pino } from 'pino'
import { onCleanup } from '../../../test/cleanup.ts'
import { eventually } from '../../../test/eventually.ts'
import { readWithIcebird } from '../../../test/iceberg-reader.ts'
import { writeFiles } from '../../../test/lake-harness.ts'
import { makeLocalLake } from '../../../test/lake-stores.ts'
import { TableWriter } from './table-writer.ts'

test('adds new files to the table and reports a damaged one once', async (t) => {
  const lake = await makeLocalLake(t)
  const lines: { level: number; reason?: string }[] = []
  const logger = pino({ level: 'warn' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const writer = new TableWriter({ store: lake.store, seconds: 0.05, logger })
  onCleanup(t, () => writer.stop())
  await writer.start()
  const rows = () => readWithIcebird(lake, 'order_events').catch(() => [])
  await writeFiles(t, lake.store, [3])
  await eventually(async () => (await rows()).length === 3)
  await writeFile(lake.pathOf('orders/ingest_date=2026-03-01/0000000000000004-0000000000000005.parquet'), 'half of a file')
  await eventually(async () => lines.length > 0)
  await writeFiles(t, lake.store, [2], { from: 6 })
  await eventually(async () => (await rows()).length === 5)
  await writer.stop()
  assert.equal(lines.length, 1)
  assert.match(lines[0]?.reason ?? '', /\/orders\/.*0004-\d+\.parquet: it cannot be read.*; run storefront lake repair$/)
})

test('reports a file that is gone, once and also beside a damaged one', async (t) => {
  const lake = await makeLocalLake(t)
  const lines: { file?: string; reason?: string; msg: string }[] = []
  const logger = pino({ level: 'warn' }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const writer = new TableWriter({ store: lake.store, seconds: 0.05, logger })
  onCleanup(t, () => writer.stop())
  await writeFiles(t, lake.store, [3, 2])
  await writer.start()
  const rows = async () => (await readWithIcebird(lake, 'order_events').catch(() => [])).length
  await eventually(async () => (await rows()) === 5)
  const [gone = assert.fail()] = await lake.store.list('orders/')
  await writeFile(lake.pathOf('orders/ingest_date=2026-03-01/0000000000000006-0000000000000006.parquet'), 'half of a file')
  await rm(lake.pathOf(gone.name))
  await eventually(async () => (await rows()) === 2 && lines.length === 2)
  await writeFiles(t, lake.store, [1], { from: 7 })
  await eventually(async () => (await rows()) === 3)
  const [first] = lines.filter(({ file }) => file !== undefined)
  assert.deepEqual([lines.length, first?.file], [2, lake.store.locate(gone.name)])
  assert.match(first?.msg ?? '', /^a file of the lake is gone, .*: run storefront lake repair$/)
})

test('reports every ten minutes that the table cannot be written and for how long, and continues when it can', async (t) => {
  const lake = await makeLocalLake(t)
  const lines: string[] = []
  const put = lake.store.put.bind(lake.store)
  let [isFull, failures, at] = [true, 0, Date.now()]
  lake.store.put = async (name, path) => {
    if (!name.startsWith('iceberg/') || !isFull) return put(name, path)
    failures += 1
    throw new Error('the disk is full')
  }
  await writeFiles(t, lake.store, [3])
  const logger = pino({ level: 'warn' }, { write: (line: string) => void lines.push(JSON.parse(line).reason) })
  const writer = new TableWriter({ store: lake.store, seconds: 0.05, logger, now: () => at })
  onCleanup(t, () => writer.stop())
  assert.equal(writer.overdueSeconds, 0)
  await writer.start()
  await eventually(async () => failures > 3)
  assert.deepEqual(lines, ['the disk is full'])
  at += 660_000
  assert.equal(Math.round(writer.overdueSeconds), 660)
  await eventually(async () => lines.length > 1)
  const before = failures
  await eventually(async () => failures > before + 3)
  assert.deepEqual(lines, ['the disk is full', 'the disk is full'])
  isFull = false
  await eventually(async () => writer.overdueSeconds === 0)
  assert.equal((await readWithIcebird(lake, 'order_events')).length, 3)
})
