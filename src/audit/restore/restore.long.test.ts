import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { onCleanup } from '../../../test/cleanup.ts'
import { eventually } from '../../../test/eventually.ts'
import { farFromMidnight } from '../../../test/midnight.ts'
import { NO_NATS, startNatsServer } from '../../../test/nats-server.ts'
import { summarise } from '../../../test/pipeline-audit.ts'
import { createRestorableStore, readLakeRows } from '../../../test/restorable-store.ts'
import { dataFolder } from '../../db/embedded/data-folder.ts'
import { compactLake } from '../../lake/compact-lake.ts'
import { openLakeStore } from '../../lake/open-lake-store.ts'

// Files of two days are not merged.
await farFromMidnight()

const topics = [
  { where: 'PostgreSQL', skip: false, open: async () => ({}) },
  {
    where: 'NATS',
    skip: NO_NATS,
    open: async (t: Parameters<typeof startNatsServer>[0]) => ({ NATS_URL: (await startNatsServer(t)).url }),
  },
]

for (const { where, skip, open } of topics) {
  describe(`a database restored from a copy of its files, with the topic in ${where}`, { skip }, () => {
    test('is detected, continues with unused numbers and versions, and agrees with topic and lake after a replay', async (t) => {
      const store = createRestorableStore(t, await open(t))
      const before = await store.start()
      const kept = [await before.place(), await before.place(), await before.place()]
      await before.untilDelivered()
      assert.deepEqual(await before.failing(), [])
      await before.stop()
      const putBack = store.copyDatabase()

      const lost = await store.start()
      const [first, second, third] = kept
      assert.ok(first && second && third)
      assert.equal(await lost.confirm(first), 2)
      assert.equal(await lost.cancel(second), 2)
      const lostOrders = [await lost.place(), await lost.place()]
      await lost.untilDelivered()
      await lost.stop()
      putBack()

      const restored = await store.start()
      const failing = await restored.failing()
      assert.equal(failing.length, 1)
      assert.match(failing[0] ?? '', /^restore: the database was restored to an earlier state .*storefront replay/)
      const named = await restored.verify()
      assert.deepEqual(summarise(named), ['database restored 1'])
      // The same change as the lost one, another change, and a change of an order without a lost one.
      const versions = [await restored.cancel(first), await restored.confirm(second), await restored.cancel(third)]
      assert.ok(versions.every((version) => version > 1_000))
      const fresh = [await restored.place(), await restored.place(), await restored.place()]
      assert.ok(Math.min(...fresh.map(({ number }) => number)) > Math.max(...lostOrders.map(({ number }) => number)))
      const [newest] = fresh
      assert.ok(newest)
      assert.equal(await restored.cancel(newest), 2)
      await restored.untilDelivered()

      const printed = (await restored.replay()).join('\n')
      for (const { id, number } of lostOrders) assert.match(printed, new RegExp(`order ${number} is lost: .*${id}`))
      assert.match(printed, new RegExp(`order ${first.id} has lost changes`))
      await restored.untilDelivered()
      // The lake's subscriber is on standby while its files are refilled.
      await eventually(async () => (await restored.failing()).length === 0, { what: 'ready again' })
      const report = await restored.verify()
      assert.deepEqual(summarise(report), [])
      assert.deepEqual(report.undecided, [])
      assert.equal(report.lake.lostEvents, 4)

      const lakeRows = await readLakeRows(store.dataDir)
      assert.equal(new Set(lakeRows.map(({ eventId }) => eventId)).size, lakeRows.length)
      assert.equal(new Set(lakeRows.map(({ sequence }) => sequence)).size, lakeRows.length)
      const orders = new Map(lakeRows.map(({ orderId, orderNumber }) => [orderId, orderNumber]))
      assert.equal(new Set(orders.values()).size, orders.size)
      // The lost events are still in the lake, beside the events of the current orders.
      const statusesOf = (id: string) => lakeRows.filter(({ orderId }) => orderId === id).map(({ status }) => status)
      assert.deepEqual(statusesOf(first.id), ['pending', 'confirmed', 'cancelled'])
      assert.deepEqual(statusesOf(second.id), ['pending', 'cancelled', 'confirmed'])
      for (const { id } of lostOrders) assert.deepEqual(statusesOf(id), ['pending'])

      const { rows: mails } = await restored.pool.query('select event_id from email_deliveries')
      assert.equal(mails.length, 3 + 3 + 3 + 1)
      const lake = await openLakeStore({ bucket: null, directory: dataFolder(store.dataDir).lake, dataDir: store.dataDir })
      onCleanup(t, () => lake.close())
      assert.deepEqual((await compactLake({ store: lake, isWanted: () => true, assertAlone: async () => {} })).failures, [])
      assert.deepEqual(summarise(await restored.verify()), [])
      await restored.stop()

      // The restore is detected once, and the next start reports nothing.
      const again = await store.start()
      assert.deepEqual(await again.failing(), [])
      const { rows } = await again.pool.query('select from database_incarnations')
      assert.equal(rows.length, 2)
      await again.stop()
    })
  })
}
