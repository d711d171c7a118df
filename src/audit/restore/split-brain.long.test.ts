import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { eventually } from '../../../test/eventually.ts'
import { createRestorableStore, readLakeRows } from '../../../test/restorable-store.ts'
import { makeTestFolder } from '../../../test/test-folder.ts'
import { LakeAhead } from '../../lake/lake-files.ts'
import { formatReport } from '../verify/format-report.ts'

test('the lake refuses an old database that still runs after its backup was restored elsewhere, and verify finds no fault', async (t) => {
  const parent = makeTestFolder(t, 'storefront-backup-')
  const store = createRestorableStore(t)
  const old = await store.start()
  await old.place()
  await old.untilDelivered()
  await old.backUp(join(parent, 'backup'))
  const lostBefore = await old.place()
  await old.untilDelivered()

  const restoredStore = store.another()
  await restoredStore.restore(join(parent, 'backup'))
  const lostAfterwards = await old.place()
  await old.untilDelivered()
  const restored = await restoredStore.start()
  const fresh = await restored.place()
  await restored.untilDelivered()
  // The tables that the old store may have made name its place.
  assert.equal(await restored.maintainLake(), 0)
  const report = await restored.verify()
  assert.deepEqual([report.findings, report.undecided, report.lake.lostEvents], [[], [], 2])

  const refused = await old.place()
  const failing = await eventually(async () => (await old.failing()).find((line) => line.startsWith('lake:')), { what: 'a refusal' })
  assert.match(failing, /^lake: .*another database/)
  const rows = await readLakeRows(store.dataDir)
  const inLake = [lostBefore, lostAfterwards, fresh, refused].map(({ id }) => rows.some(({ orderId }) => orderId === id))
  assert.deepEqual(inLake, [true, true, true, false])
  const outdated = formatReport(await old.verify())
  assert.match(outdated, /^lake: \d+ missing \(the lake has sequence \d+ of another database, .*stop the outdated store\)$/m)
  assert.doesNotMatch(outdated, /storefront lake repair/)
  await assert.rejects(old.repairLake(), LakeAhead)
  assert.deepEqual(await readLakeRows(store.dataDir), rows)
  await old.stop()
  assert.deepEqual(await restored.failing(), [])
  assert.deepEqual((await restored.verify()).findings, [])

  // The store that started last wins, until the operator stops it and runs a replay.
  const restarted = await store.start()
  const strayed = await restarted.place()
  const isInLake = async ({ id }: { id: string }) => (await readLakeRows(store.dataDir)).some(({ orderId }) => orderId === id)
  await eventually(() => isInLake(strayed), { what: 'an order of the restarted store in the lake' })
  const waiting = await restored.place()
  await eventually(async () => (await restored.failing()).some((line) => line.startsWith('lake:')), { what: 'a refusal' })
  await restarted.stop()
  await restored.replay()
  await restored.untilDelivered()
  assert.ok(await isInLake(waiting))
  assert.deepEqual((await restored.verify()).findings, [])
  await restored.stop()
})
