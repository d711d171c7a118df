import assert from 'node:assert/strict'
import { appendFileSync, existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { onCleanup } from '../../../test/cleanup.ts'
import { eventually } from '../../../test/eventually.ts'
import { createRestorableStore, type PlacedOrder } from '../../../test/restorable-store.ts'
import { dataFolder } from './data-folder.ts'

test('a backup of a selling store is complete, and its restore leaves orders, topic, lake and mails in agreement', async (t) => {
  const store = createRestorableStore(t)
  const running = await store.start()
  const before = [await running.place(), await running.place()]
  await running.untilDelivered()
  const target = `${store.dataDir}-backup`
  onCleanup(t, () => rmSync(target, { recursive: true, force: true }))
  const during: PlacedOrder[] = []
  let isSelling = true
  const selling = (async () => {
    // The number stays below the limit of pending orders of an account.
    while (isSelling && during.length < 20) during.push(await running.place())
  })()
  await running.backUp(target)
  isSelling = false
  await selling
  const lost = [await running.place(), await running.place()]
  const [kept] = before
  assert.ok(kept)
  assert.equal(await running.cancel(kept), 2)
  await running.untilDelivered()
  await assert.rejects(running.backUp(target), /is there already/)
  await running.stop()
  assert.equal(statSync(target).mode & 0o077, 0)

  const printed = (await store.restore(target)).join('\n')
  for (const { number } of lost) assert.match(printed, new RegExp(`order ${number} is lost`))
  assert.match(printed, new RegExp(`order ${kept.id} has lost changes`))
  const restored = await store.start()
  await eventually(async () => (await restored.failing()).length === 0, { what: 'a store whose stream has a slot' })
  const { rows } = await restored.pool.query<{ id: string }>('select id from orders order by number')
  const present = rows.map(({ id }) => id)
  // The copy contains the first of the orders placed meanwhile without a gap, so the store once had this state.
  assert.deepEqual(
    present,
    [...before, ...during].slice(0, present.length).map(({ id }) => id),
  )
  assert.ok(present.length >= before.length)
  assert.ok((await restored.cancel(kept)) > 1_000)
  assert.ok((await restored.place()).number > Math.max(...lost.map(({ number }) => number)))
  await restored.untilDelivered()
  assert.deepEqual((await restored.verify()).findings, [])
  await restored.stop()
  assert.equal(readdirSync(store.dataDir).filter((name) => name.startsWith('postgres.replaced-')).length, 1)

  // A backup with an additional byte is refused before anything in the store changes.
  appendFileSync(join(target, 'postgres', 'PG_VERSION'), ' ')
  const { cluster } = dataFolder(store.dataDir)
  const control = readFileSync(join(cluster, 'global', 'pg_control'))
  await assert.rejects(store.restore(target), /PG_VERSION is damaged/)
  assert.deepEqual(readFileSync(join(cluster, 'global', 'pg_control')), control)
  assert.ok(existsSync(join(target, 'secret')))
})
