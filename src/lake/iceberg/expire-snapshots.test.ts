import assert from 'node:assert/strict'
import { cp, truncate } from 'node:fs/promises'
import { test } from 'node:test'
import { now, tableEvents } from '../../../test/conformance/lake-table-conformance.ts'
import { writeFiles } from '../../../test/lake-harness.ts'
import { watchSteps } from '../../../test/lake-steps.ts'
import { makeLocalLake } from '../../../test/lake-stores.ts'
import { OperatorError } from '../../errors.ts'
import { commitEvents } from './commit-events.ts'
import { examineTable } from './examine-table.ts'
import { endLostSnapshots, expireSnapshots } from './expire-snapshots.ts'
import { ORDER_EVENTS } from './lake-table.ts'
import { MAX_PREVIOUS_METADATA } from './table-metadata.ts'
import { TableStore } from './table-store.ts'

test('an expiry that pauses until its version is free again deletes no file of a later snapshot', async (t) => {
  const lake = await makeLocalLake(t)
  const ids = await writeFiles(t, lake.store, [3])
  await commitEvents(lake.store, { now })
  ids.push(...(await writeFiles(t, lake.store, [2], { from: 4 })))
  const paused = Promise.withResolvers<void>()
  const woken = Promise.withResolvers<void>()
  let puts = 0
  const slow = watchSteps(lake.store, async (step, name) => {
    if (step !== 'before put' || !name.endsWith('.metadata.json') || puts++ > 0) return
    paused.resolve()
    await woken.promise
  })
  let expiry: Promise<unknown> | undefined
  // It lists the files of this commit before they are in a snapshot.
  const committing = watchSteps(lake.store, async (step, name) => {
    if (step !== 'before put' || !name.endsWith('.metadata.json') || expiry !== undefined) return
    expiry = expireSnapshots(new TableStore(slow, ORDER_EVENTS.name), now(), now())
    await paused.promise
  })
  await commitEvents(committing, { now })
  const table = new TableStore(lake.store, ORDER_EVENTS.name)
  const { newest } = await table.read()
  assert.equal(newest?.version, 2)
  // This stands for the last of a hundred commits.
  assert.ok(await table.commit(newest.version + MAX_PREVIOUS_METADATA + 1, newest.metadata))
  woken.resolve()
  await expiry
  assert.equal(puts, 2)
  assert.deepEqual([await tableEvents(lake), (await examineTable(lake.store, ORDER_EVENTS)).faults], [ids, []])
})

test('an expiry changes nothing while a snapshot that stays cannot be read, until the tables are written again', async (t) => {
  const lake = await makeLocalLake(t)
  const { store } = lake
  const table = new TableStore(store, ORDER_EVENTS.name)
  const ids = await writeFiles(t, store, [3])
  for (const first of [4, 5, 6]) {
    await commitEvents(store, { now })
    ids.push(...(await writeFiles(t, store, [1], { from: first })))
  }
  await commitEvents(store, { now })
  const [, second, , fourth] = (await table.read()).newest?.metadata.snapshots ?? []
  for (const lost of [second, fourth]) {
    await truncate(lake.pathOf(table.nameAt(lost?.['manifest-list'] ?? '') ?? ''), 60)
    const before = await store.list('iceberg/')
    const refused = (error: unknown) => error instanceof OperatorError && /storefront lake tables/.test(error.message)
    await assert.rejects(expireSnapshots(table, new Date(0), now()), refused)
    assert.deepEqual(await store.list('iceberg/'), before)
    await commitEvents(store, { now })
    await endLostSnapshots(store, ORDER_EVENTS)
    assert.deepEqual([await tableEvents(lake), (await examineTable(store, ORDER_EVENTS)).faults], [ids, []])
    if (lost === second) assert.equal((await table.read()).newest?.metadata.snapshots.length, 3)
  }
  await expireSnapshots(table, new Date(0), now())
})

test('metadata of another place are recognised, and an expiry there changes nothing', async (t) => {
  const lake = await makeLocalLake(t)
  const ids = await writeFiles(t, lake.store, [3])
  await commitEvents(lake.store, { now })
  const moved = await makeLocalLake(t)
  await cp(lake.pathOf(''), moved.pathOf(''), { recursive: true, preserveTimestamps: true })
  const { movedFrom, faults } = await examineTable(moved.store, ORDER_EVENTS)
  assert.deepEqual([movedFrom, faults], [`file://${lake.pathOf('iceberg/order_events')}`, []])
  await assert.rejects(expireSnapshots(new TableStore(moved.store, ORDER_EVENTS.name), now(), now()), OperatorError)
  await commitEvents(moved.store, { now })
  const after = await examineTable(moved.store, ORDER_EVENTS)
  assert.deepEqual([await tableEvents(moved), after.movedFrom, after.faults], [ids, null, []])
})
