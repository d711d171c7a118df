import assert from 'node:assert/strict'
import { test } from 'node:test'
import { now, tableEvents } from '../../../test/conformance/lake-table-conformance.ts'
import { writeFiles } from '../../../test/lake-harness.ts'
import { watchSteps } from '../../../test/lake-steps.ts'
import { makeLocalLake } from '../../../test/lake-stores.ts'
import { commitOrderEvents } from './commit-order-events.ts'
import { examineTable } from './examine-table.ts'
import { expireSnapshots } from './expire-snapshots.ts'
import { ORDER_EVENTS } from './lake-table.ts'
import { MAX_PREVIOUS_METADATA } from './table-metadata.ts'
import { TableStore } from './table-store.ts'

test('an expiry that pauses until its version is free again deletes no file of a later snapshot', async (t) => {
  const lake = await makeLocalLake(t)
  const ids = await writeFiles(t, lake.store, [3])
  await commitOrderEvents(lake.store, { now })
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
  await commitOrderEvents(committing, { now })
  const table = new TableStore(lake.store, ORDER_EVENTS.name)
  const { newest } = await table.read()
  assert.equal(newest?.version, 2)
  // As the last of a hundred commits.
  assert.ok(await table.commit(newest.version + MAX_PREVIOUS_METADATA + 1, newest.metadata))
  woken.resolve()
  await expiry
  assert.equal(puts, 2)
  assert.deepEqual([await tableEvents(lake), (await examineTable(lake.store, ORDER_EVENTS)).faults], [ids, []])
})
