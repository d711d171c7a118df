import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { onCleanup } from '../../../test/cleanup.ts'
import { eventually } from '../../../test/eventually.ts'
import { queryFolder } from '../../../test/lake-harness.ts'
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
    test('the restore is detected, numbers and versions continue with unused ones, and a replay makes topic and lake agree', async (t) => {
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
      // The lake's subscriber is on standby while its files are repaired.
      await eventually(async () => (await restored.failing()).length === 0, { what: 'ready again' })
      const report = await restored.verify()
      assert.deepEqual(report.findings, [])
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
      assert.deepEqual((await compactLake({ store: lake, isWanted: () => true })).failures, [])
      assert.deepEqual((await restored.verify()).findings, [])
      await restored.stop()

      // The restore is detected once, and the next start reports nothing.
      const again = await store.start()
      assert.deepEqual(await again.failing(), [])
      const { rows } = await again.pool.query('select from database_incarnations')
      assert.equal(rows.length, 2)
      await again.stop()
    })

    test('a restore that has lost only product changes is detected, and their events and the lake get the restored state again', async (t) => {
      const store = createRestorableStore(t, await open(t))
      const lake = await openLakeStore({ bucket: null, directory: dataFolder(store.dataDir).lake, dataDir: store.dataDir })
      onCleanup(t, () => lake.close())
      type Running = Awaited<ReturnType<typeof store.start>>
      const create = async ({ call, operator }: Running, sku: string) => {
        const body = { sku, name: 'As it was', category: 'lamps', price: { amount: 500, currency: 'EUR' }, stock: 3 }
        const { status, json, text } = await call('POST', '/admin/products', { token: operator, body })
        assert.equal(status, 201, text)
        return String(json.id)
      }
      const rename = async ({ call, operator }: Running, id: string, name: string) => {
        const { status, text } = await call('PATCH', `/admin/products/${id}`, {
          ...{ token: operator, body: { name }, headers: { 'if-match': '*' } },
        })
        assert.equal(status, 200, text)
      }
      const rows = async (select: string) => (await queryFolder(dataFolder(store.dataDir).lake, select)).rows
      const untilInLake = (running: Running) =>
        eventually(
          async () => {
            const { catalogue, findings, undecided } = await running.verify()
            const { rows: recorded } = await running.pool.query<{ id: string }>(
              `select concat_ws('.', product_id, nullif(stream, 'product'), version) as id from product_events`,
            )
            const inLake = new Set((await rows('select event_id from catalogue_events').catch(() => [])).map(([id]) => id))
            return findings.length + undecided.length === 0 && catalogue?.waiting === 0 && recorded.every(({ id }) => inLake.has(id))
          },
          { what: 'the events of products everywhere' },
        )
      const before = await store.start()
      const [renamed, untouched] = [await create(before, 'RENAMED'), await create(before, 'UNTOUCHED')]
      await untilInLake(before)
      await before.stop()
      const putBack = store.copyDatabase()

      const ids: string[] = []
      for (const attempt of [1, 2]) {
        const losing = await store.start()
        // The backup does not contain the replay after the first restore.
        if (attempt === 2) await losing.replay()
        await rename(losing, renamed, `Lost name ${attempt}`)
        await rename(losing, renamed, `Lost again ${attempt}`)
        const { text } = await losing.call('PUT', `/admin/products/${renamed}/stock`, {
          ...{ token: losing.operator, body: { stock: 0 }, headers: { 'if-match': '*' } },
        })
        assert.match(text, /"available":0/)
        const lost = await create(losing, 'LOST')
        await untilInLake(losing)
        assert.equal(await losing.maintainLake(), 0)
        assert.equal((await rows(`select name from products where product_id = '${lost}'`)).length, 1)
        await losing.stop()
        putBack()

        const restored = await store.start()
        const failing = await restored.failing()
        assert.match(failing.join(), /restore: the database was restored to an earlier state .*storefront replay/)
        assert.deepEqual(summarise(await restored.verify()), ['database restored 1'])
        const printed = (await restored.replay()).join('\n')
        assert.match(printed, new RegExp(`product ${lost} is lost`))
        assert.match(printed, new RegExp(`product ${renamed} has lost changes .*its present state is published`))
        // The second restore loses the change that this product got after the first one.
        assert.equal(printed.includes(untouched), attempt === 2)
        await eventually(async () => (await restored.failing()).length === 0, { what: 'ready again' })
        await rename(restored, untouched, `Renamed after restore ${attempt}`)
        await untilInLake(restored)
        assert.deepEqual(
          await rows(`select name, is_current from products where product_id = '${renamed}' order by version desc limit 1`),
          [['As it was', true]],
        )
        const stock = `select available from stock_events where product_id = '${renamed}' order by version desc limit 1`
        assert.deepEqual(await rows(stock), [['3']])
        const all = await rows('select event_id, sequence from catalogue_events')
        for (const column of [0, 1]) assert.equal(new Set(all.map((row) => String(row[column]))).size, all.length)
        ids.push(...all.map(([id]) => String(id)))
        await restored.stop()
      }
      assert.ok(ids.length > 0)
      const again = await store.start()
      assert.deepEqual(await again.failing(), [])
      await again.stop()
    })
  })
}
