import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import fc from 'fast-check'
import { createTestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { makeOrderEvent } from '../../test/order-event-factory.ts'
import { startStore } from '../../test/store.ts'
import { beforeSlotsAreCreated, insertOrders, silent } from '../../test/stream-harness.ts'
import { catalogueSlotOf, orderSlotOf } from '../app/prepare-database.ts'
import type { Pool } from '../db/pool.ts'
import { ORDERS } from '../topic/partitions.ts'
import { createPostgresTopic } from '../topic/postgres/postgres-topic.ts'
import { ensureReplicationSlot } from './ensure-slot.ts'
import { refillLostSlot } from './refill-slot.ts'
import { findLostReason, readSlotStatus, slotNameFor } from './replication-slot.ts'

async function slotNames(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query('select slot_name from pg_replication_slots where database = current_database()')
  return rows.map((row) => row.slot_name)
}

test("creates an empty store's slot once when several processes ensure it", async (t) => {
  const db = await createTestDatabase(t)
  const slotName = slotNameFor(db.name)
  assert.match((await findLostReason(db.pool, slotName)) ?? '', /does not exist/)
  // Creating the slot waits for this transaction, so the second process comes while the first one creates it.
  const holder = await db.pool.connect()
  await holder.query('begin')
  await holder.query('select pg_current_xact_id()')
  const first = ensureReplicationSlot(db.pool, db.url, slotName)
  await eventually(async () => (await slotNames(db.pool)).length === 1)
  const others = Promise.all(Array.from({ length: 4 }, () => ensureReplicationSlot(db.pool, db.url, slotName)))
  // Until then the slot may miss an order from a process that believes it ready.
  const state = await Promise.race([others, delay(400, 'not ready')])
  await holder.query('commit')
  holder.release()
  assert.equal(state, 'not ready')
  assert.deepEqual([await first, ...(await others)], ['created', 'ready', 'ready', 'ready', 'ready'])
  await db.pool.query('select pg_drop_replication_slot($1)', [slotName])
  for (let round = 0; round < 5; round++) {
    const states = await Promise.all(Array.from({ length: 8 }, () => ensureReplicationSlot(db.pool, db.url, slotName)))
    assert.deepEqual(states.toSorted(), ['created', ...Array(7).fill('ready')])
    if (round < 4) await db.pool.query('select pg_drop_replication_slot($1)', [slotName])
  }
  assert.equal(await ensureReplicationSlot(db.pool, db.url, slotName), 'ready')
  assert.equal(await findLostReason(db.pool, slotName), null)
  const { rows } = await db.pool.query(`select plugin, temporary, failover from pg_replication_slots where slot_name = $1`, [slotName])
  assert.deepEqual(rows, [{ plugin: 'pgoutput', temporary: false, failover: true }])
})

test('reports how much WAL a slot retains, and that a missing slot is lost', async (t) => {
  const db = await createTestDatabase(t)
  const slotName = slotNameFor(db.name)
  assert.deepEqual(await readSlotStatus(db.pool, slotName), {
    active: false,
    retainedBytes: null,
    lagBytes: null,
    lostReason: `the replication slot ${slotName} does not exist`,
  })
  await ensureReplicationSlot(db.pool, db.url, slotName)
  const before = await readSlotStatus(db.pool, slotName)
  await insertOrders(db.pool, 10)
  const after = await readSlotStatus(db.pool, slotName)
  assert.equal(after.lostReason, null)
  assert.equal(after.active, false)
  assert.ok(Number(after.lagBytes) > Number(before.lagBytes))
  assert.ok(Number(after.retainedBytes) >= Number(after.lagBytes))
})

test('reports a lost slot, and creates none, if there are already orders', async (t) => {
  const db = await createTestDatabase(t)
  await insertOrders(db.pool, 2)
  for (let attempt = 0; attempt < 2; attempt++) assert.equal(await ensureReplicationSlot(db.pool, db.url, slotNameFor(db.name)), 'lost')
  assert.deepEqual(await slotNames(db.pool), [])
})

test('reports a lost slot if the topic has messages, even if every order is gone', async (t) => {
  const db = await createTestDatabase(t)
  const topic = createPostgresTopic(ORDERS, { pool: db.pool, url: db.url, logger: silent })
  await topic.publish([{ position: '1/0000000000000001', event: makeOrderEvent() }])
  assert.equal(await ensureReplicationSlot(db.pool, db.url, slotNameFor(db.name)), 'lost')
  assert.deepEqual(await slotNames(db.pool), [])
})

test('a store without its slot is not ready until the stream has recreated it, and the public port names no slot', async (t) => {
  const store = await startStore(t, { roles: ['api', 'stream'] })
  for (const [name, slotName] of [
    ['change_stream', orderSlotOf(store.url)],
    ['catalogue_stream', catalogueSlotOf(store.url)],
  ] as const) {
    await eventually(async () => (await store.call('GET', '/readyz')).status === 200, { what: 'a ready store' })
    await beforeSlotsAreCreated(store.pool, async () => {
      await eventually(async () => {
        await store.pool.query('select pg_terminate_backend(active_pid, 5000) from pg_replication_slots where slot_name = $1', [slotName])
        return store.pool.query('select pg_drop_replication_slot($1)', [slotName]).then(
          () => true,
          () => false,
        )
      })
      const { json, headers } = await eventually(async () => {
        const answer = await store.call('GET', '/readyz')
        return answer.status === 503 && answer
      })
      assert.deepEqual(json, { status: 'unavailable', failing: [{ name }] })
      assert.equal(headers['retry-after'], '1')
      await store.ok('GET', '/livez')
    })
  }
  await eventually(async () => (await store.call('GET', '/readyz')).status === 200, { what: 'a ready store' })
})

/** Names that a slot cannot have, and some that differ only in characters that a slot's name cannot contain. */
const DATABASES = [
  'Größe & "Co"',
  'x'.repeat(63),
  `y${'x'.repeat(62)}`,
  'x'.repeat(57),
  '1-2',
  'shop_a',
  'Shop_A',
  'shop-a',
  'Shop-A',
  'shop a',
  'ü',
  'ö',
]

test('gives each database a unique slot name that PostgreSQL accepts', async (t) => {
  const db = await createTestDatabase(t)
  for (const database of DATABASES) {
    const { rows } = await db.pool.query('select slot_name from pg_create_physical_replication_slot($1)', [slotNameFor(database)])
    assert.equal(rows[0]?.slot_name, slotNameFor(database))
    await db.pool.query('select pg_drop_replication_slot($1)', [slotNameFor(database)])
  }
  assert.equal(new Set(DATABASES.map((name) => slotNameFor(name))).size, DATABASES.length)
  fc.assert(
    fc.property(fc.array(fc.string({ minLength: 1, maxLength: 63 }), { maxLength: 20 }), (databases) => {
      assert.equal(new Set(databases.map((name) => slotNameFor(name))).size, new Set(databases).size)
    }),
  )
})

test('leaves plain names unchanged, so a store keeps its slot', () => {
  assert.equal(slotNameFor('storefront'), 'storefront_orders')
  assert.equal(slotNameFor('shop_2'), 'shop_2_orders')
  assert.equal(slotNameFor('x'.repeat(56)), `${'x'.repeat(56)}_orders`)
  assert.equal(orderSlotOf('postgres://shop@localhost/'), 'shop_orders')
})

test('reports the owner of a foreign slot with the same name, and neither reads nor drops it', async (t) => {
  const [ours, theirs] = [await createTestDatabase(t), await createTestDatabase(t)]
  const slotName = slotNameFor(ours.name)
  await theirs.pool.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [slotName])
  const reason = `the replication slot ${slotName} belongs to the database ${theirs.name}, so this database cannot use it`
  assert.equal(await findLostReason(ours.pool, slotName), reason)
  assert.equal(await ensureReplicationSlot(ours.pool, ours.url, slotName), 'lost')
  const refill = { ...ours, slotName, logger: silent, publishStored: () => assert.fail('nothing may be published') }
  await assert.rejects(refillLostSlot(refill, new AbortController().signal), { message: reason })
  assert.deepEqual(await slotNames(theirs.pool), [slotName])
  assert.equal((await ours.pool.query('select from slot_positions')).rowCount, 0)
})
