import assert from 'node:assert/strict'
import { copyFile, rm, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { later, now } from '../../../test/conformance/lake-table-conformance.ts'
import { readEvents, writeFiles } from '../../../test/lake-harness.ts'
import { makeLocalLake } from '../../../test/lake-stores.ts'
import { OperatorError } from '../../errors.ts'
import { examineTable } from './examine-table.ts'
import { expireSnapshots } from './expire-snapshots.ts'
import { ORDER_EVENTS } from './lake-table.ts'
import { TableStore } from './table-store.ts'

test('if a file cannot be stored, only the call rejects, and no other promise does', async (t) => {
  const { store } = await makeLocalLake(t)
  store.put = async () => {
    throw new Error('the disk is full')
  }
  const unhandled: unknown[] = []
  const note = (reason: unknown) => void unhandled.push(reason)
  process.on('unhandledRejection', note)
  t.after(() => process.off('unhandledRejection', note))
  await assert.rejects(new TableStore(store, 'order_events').putFile('iceberg/order_events/data/a.parquet', Buffer.from('a')), /full/)
  await setImmediate()
  assert.deepEqual(unhandled, [])
})

test('metadata of a version that no commit has written are ignored, reported, and deleted with old snapshots', async (t) => {
  const lake = await makeLocalLake(t)
  const { store, pathOf } = lake
  const ids = await writeFiles(t, store, [3])
  const folder = 'iceberg/order_events/metadata'
  await copyFile(pathOf(`${folder}/v1.metadata.json`), pathOf(`${folder}/v999999999999999.metadata.json`))
  for (const first of [4, 6]) ids.push(...(await writeFiles(t, store, [2], { from: first })))
  const { newest, faults } = await examineTable(store, ORDER_EVENTS)
  assert.deepEqual([newest?.version, faults.length], [4, 1])
  assert.match(faults[0] ?? '', /v999999999999999\.metadata\.json: .*: delete it$/)
  assert.deepEqual(await readEvents(store), ids)
  await expireSnapshots(store, ORDER_EVENTS, now(), later())
  assert.deepEqual([await readEvents(store), (await examineTable(store, ORDER_EVENTS)).faults], [ids, []])

  await copyFile(pathOf(`${folder}/v5.metadata.json`), pathOf(`${folder}/v2147483647.metadata.json`))
  await assert.rejects(writeFiles(t, store, [1], { from: 8 }), (error) => {
    return error instanceof OperatorError && /v2147483647\.metadata\.json .*: delete it$/.test(error.message)
  })
})

test('damaged metadata with a higher version remove no earlier metadata', async (t) => {
  const { store, pathOf } = await makeLocalLake(t)
  const ids = await writeFiles(t, store, [3, 2])
  const stray = pathOf('iceberg/order_events/metadata/v500.metadata.json')
  await writeFile(stray, 'half of a file')
  const table = new TableStore(store, 'order_events')
  await table.renewHint()
  const { newest } = await table.read()
  assert.ok(newest !== null)
  assert.equal(await table.commit(newest.version + 1, newest.metadata), false)
  await rm(stray)
  assert.equal((await table.read()).newest?.version, newest.version + 1)
  assert.deepEqual(await readEvents(store), ids)
})
