import assert from 'node:assert/strict'
import { truncate } from 'node:fs/promises'
import { test } from 'node:test'
import { later, now, tableEvents } from '../../../test/conformance/lake-table-conformance.ts'
import { writeFiles } from '../../../test/lake-harness.ts'
import { watchSteps } from '../../../test/lake-steps.ts'
import { makeLocalLake } from '../../../test/lake-stores.ts'
import { OperatorError } from '../../errors.ts'
import { compactLake } from '../compact-lake.ts'
import { examineTable } from './examine-table.ts'
import { endLostSnapshots, expireSnapshots, type UnusedFiles } from './expire-snapshots.ts'
import { ORDER_EVENTS } from './lake-table.ts'
import { MAX_PREVIOUS_METADATA } from './table-metadata.ts'
import { TableStore } from './table-store.ts'

test('an expiry that pauses until its version is free again deletes no file of a later snapshot', async (t) => {
  const lake = await makeLocalLake(t)
  const ids = await writeFiles(t, lake.store, [3])
  const [asleep, woken] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let puts = 0
  const slow = watchSteps(lake.store, async (step, name) => {
    if (step !== 'before put' || !name.endsWith('.metadata.json') || puts++ > 0) return
    asleep.resolve()
    await woken.promise
  })
  let expiry: Promise<unknown> | undefined
  // The expiry lists the file of this commit before any snapshot has the file.
  const committing = watchSteps(lake.store, async (step, name) => {
    if (step !== 'before put' || !name.endsWith('.metadata.json') || expiry !== undefined) return
    expiry = expireSnapshots(slow, ORDER_EVENTS, now(), later())
    await asleep.promise
  })
  ids.push(...(await writeFiles(t, committing, [2], { from: 4 })))
  const table = new TableStore(lake.store, ORDER_EVENTS.name)
  const { newest } = await table.read()
  // This stands for the last of a hundred commits.
  assert.ok(newest && (await table.commit(newest.version + MAX_PREVIOUS_METADATA + 1, newest.metadata)))
  woken.resolve()
  await expiry
  assert.equal(puts, 2)
  assert.deepEqual([await tableEvents(lake), (await examineTable(lake.store, ORDER_EVENTS)).faults], [ids, []])
})

test('an expiry changes nothing while a remaining snapshot cannot be read, until that snapshot is ended', async (t) => {
  const lake = await makeLocalLake(t)
  const { store } = lake
  const table = new TableStore(store, ORDER_EVENTS.name)
  const ids = await writeFiles(t, store, [3, 1, 1, 1])
  const [, second] = (await table.read()).newest?.metadata.snapshots ?? []
  await truncate(lake.pathOf(table.nameAt(second?.['manifest-list'] ?? '') ?? ''), 60)
  const before = await store.list('')
  const refused = (error: unknown) => error instanceof OperatorError && /storefront lake repair/.test(error.message)
  await assert.rejects(expireSnapshots(store, ORDER_EVENTS, new Date(0), later()), refused)
  assert.deepEqual(await store.list(''), before)
  assert.equal(await endLostSnapshots(store, ORDER_EVENTS), 1)
  assert.deepEqual([await tableEvents(lake), (await examineTable(store, ORDER_EVENTS)).faults], [ids, []])
  await expireSnapshots(store, ORDER_EVENTS, new Date(0), later())
  assert.deepEqual(await tableEvents(lake), ids)
})

test('an expiry that remembers unused files deletes a file an hour after it found it unused, however old the file is', async (t) => {
  const lake = await makeLocalLake(t)
  await writeFiles(t, lake.store, [3, 1])
  await compactLake({ store: lake.store, isWanted: () => true })
  const unused: UnusedFiles = new Map()
  const at = later().getTime()
  const expire = (ms: number) => expireSnapshots(lake.store, ORDER_EVENTS, later(), new Date(at + ms), unused)
  assert.deepEqual([(await expire(0)).files, (await expire(3_599_999)).files], [0, 0])
  assert.ok((await expire(3_600_000)).files >= 2)
})

test('an expiry that remembers nothing keeps files for an hour after the newest snapshot no longer has them', async (t) => {
  const lake = await makeLocalLake(t)
  await writeFiles(t, lake.store, [3, 1])
  const merged = later().getTime()
  await compactLake({ store: lake.store, isWanted: () => true, now: () => new Date(merged) })
  const expire = (ms: number) => expireSnapshots(lake.store, ORDER_EVENTS, new Date(merged), new Date(merged + ms))
  const { snapshots } = await expire(600_000)
  assert.ok(snapshots > 0)
  const expected = [3, 3, 1]
  for (const [index, ms] of [600_000, 3_599_999, 3_600_000].entries()) {
    await expire(ms)
    assert.equal((await lake.store.list('orders/')).length, expected[index])
  }
})
