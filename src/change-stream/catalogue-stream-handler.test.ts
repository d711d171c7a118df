import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { onCleanup } from '../../test/cleanup.ts'
import { createTestDatabase, type TestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { addProduct } from '../../test/store.ts'
import { silent } from '../../test/stream-harness.ts'
import type { CatalogueEvent } from '../catalogue/catalogue-event.ts'
import { recordProductEvents } from '../catalogue/change-catalogue.ts'
import { inTransaction } from '../db/transaction.ts'
import { CATALOGUE } from '../topic/partitions.ts'
import { createPostgresTopic } from '../topic/postgres/postgres-topic.ts'
import { createCatalogueStreamHandler } from './catalogue-stream-handler.ts'
import { findLostReason, slotNameFor } from './replication-slot.ts'

interface Shop extends TestDatabase {
  slotName: string
  start(): Promise<{ stop(): Promise<void>; readonly state: string }>
  rename(id: string, name: string): Promise<void>
  events(): Promise<CatalogueEvent[]>
  /** Waits for this number of events. Returns their ids in the topic's order. */
  until(count: number): Promise<string[]>
}

async function makeShop(t: TestContext): Promise<Shop> {
  const db = await createTestDatabase(t)
  const slotName = slotNameFor(db.name, 'catalogue')
  const { pool, url } = db
  const topic = createPostgresTopic(CATALOGUE, { pool, url, logger: silent })
  const events = async () => (await topic.read(0, 10_000)).map(({ event }) => event as CatalogueEvent)
  return {
    ...db,
    slotName,
    events,
    async start() {
      const stream = createCatalogueStreamHandler({ pool, url, slotName, topic, logger: silent })
      onCleanup(t, () => stream.stop())
      await stream.start()
      return stream
    },
    rename: (id, name) =>
      inTransaction(pool, async (tx) => {
        await tx.query('update products set name = $2 where id = $1', [id, name])
        await recordProductEvents(tx, [id], null)
      }),
    until: (count) =>
      eventually(
        async () => {
          const found = (await events()).map(({ id }) => id)
          return found.length >= count && found
        },
        { what: `${count} events` },
      ),
  }
}

const dropSlot = (shop: Shop) =>
  eventually(
    async () =>
      shop.pool.query('select pg_drop_replication_slot($1)', [shop.slotName]).then(
        () => true,
        () => false,
      ),
    { what: 'a slot that nobody reads' },
  )

test('publishes each recorded row once, as an event in the order of its product', async (t) => {
  const shop = await makeShop(t)
  await shop.start()
  const { id, sku } = await addProduct(shop.pool, { stock: 1 })
  for (let number = 1; number <= 5; number++) await shop.rename(id, `Name ${number}`)
  await shop.pool.query('update inventory set available = 0 where product_id = $1', [id])
  const ids = await shop.until(7)
  assert.deepEqual(ids, [1, 2, 3, 4, 5, 6].map((version) => `${id}.${version}`).concat(`${id}.stock.2`))
  const [created, , , , , , depleted] = await shop.events()
  assert.deepEqual(
    { ...created, time: '', data: '' },
    {
      specversion: '1.0',
      id: `${id}.1`,
      source: '/products',
      type: 'storefront.product.created',
      subject: id,
      time: '',
      datacontenttype: 'application/json',
      sequence: '0000000001',
      partitionkey: id,
      data: '',
    },
  )
  assert.deepEqual(depleted?.data, { product_id: id, sku, available: 0, previous_available: 1 })
})

test('recreates a lost slot, and publishes what it missed from the table, once and in order', async (t) => {
  const shop = await makeShop(t)
  const first = await shop.start()
  const products = await Promise.all([addProduct(shop.pool), addProduct(shop.pool)])
  for (const { id } of products) await shop.rename(id, 'Before')
  await shop.until(4)
  await first.stop()
  await dropSlot(shop)
  for (const name of ['Missed', 'Missed too']) for (const { id } of products) await shop.rename(id, name)
  // Two processes start, and one of them refills.
  await shop.start()
  await shop.start()
  await shop.until(8)
  for (const { id } of products) await shop.rename(id, 'After')
  const ids = await shop.until(10)
  assert.equal(new Set(ids).size, 10)
  for (const { id } of products)
    assert.deepEqual(
      ids.filter((each) => each.startsWith(id)),
      [1, 2, 3, 4, 5].map((version) => `${id}.${version}`),
    )
  assert.equal(await findLostReason(shop.pool, shop.slotName), null)
})

test('loses nothing that is committed while a process creates the slot and another one already sees it', async (t) => {
  const shop = await makeShop(t)
  const first = await shop.start()
  const { id } = await addProduct(shop.pool)
  await shop.until(1)
  await first.stop()
  await dropSlot(shop)
  await inTransaction(shop.pool, async (holder) => {
    // A new slot waits for each of the server's transactions that has an id.
    await holder.query('select pg_current_xact_id()')
    await shop.start()
    const isVisible = 'select from pg_replication_slots where slot_name = $1 and confirmed_flush_lsn is null'
    await eventually(async () => (await shop.pool.query(isVisible, [shop.slotName])).rowCount === 1, {
      what: 'a slot that is being created',
    })
    await shop.start()
    await delay(1_000)
    await shop.rename(id, 'Meanwhile')
  })
  await shop.rename(id, 'After')
  assert.deepEqual(
    await shop.until(3),
    [1, 2, 3].map((version) => `${id}.${version}`),
  )
})

test('publishes events that are older than the first slot', async (t) => {
  const shop = await makeShop(t)
  const { id } = await addProduct(shop.pool)
  for (let version = 2; version <= 12; version++) await shop.rename(id, `Early ${version}`)
  await shop.start()
  assert.deepEqual(
    await shop.until(12),
    Array.from({ length: 12 }, (_, index) => `${id}.${index + 1}`),
  )
})

test('an emptied topic gets every event again', async (t) => {
  const shop = await makeShop(t)
  const stream = await shop.start()
  const { id } = await addProduct(shop.pool)
  await shop.rename(id, 'First')
  await shop.until(2)
  await stream.stop()
  await shop.pool.query('delete from catalogue_messages')
  await shop.start()
  assert.deepEqual(await shop.until(2), [`${id}.1`, `${id}.2`])
})

test('a row from which no event can be made becomes a dead letter, and others continue', async (t) => {
  const shop = await makeShop(t)
  await shop.start()
  const { id } = await addProduct(shop.pool)
  const broken = (version: number, type: string, data: string, stream = 'product') =>
    shop.pool.query(
      `insert into product_events (product_id, stream, version, type, occurred_at, data) values ($1, $2, $3, $4, now(), $5)`,
      [randomUUID(), stream, version, type, data],
    )
  await broken(1, 'product.exploded', '{}')
  await broken(1, 'product.created', '[1, 2]')
  await broken(1, 'product.created', '{"product": {"id": 5}}')
  await broken(1, 'stock.depleted', '"x"', 'stock')
  await broken(1, 'price.changed', '{"price": -1}')
  await shop.rename(id, 'Sound')
  assert.deepEqual(await shop.until(2), [`${id}.1`, `${id}.2`])
  const { rows } = await shop.pool.query('select reason from catalogue_dead_letters order by reason')
  assert.equal(rows.length, 5)
})

test("leaves another database's slot with the same name alone", async (t) => {
  const [shop, other] = [await makeShop(t), await createTestDatabase(t)]
  await other.pool.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [shop.slotName])
  const stream = await shop.start()
  await eventually(async () => stream.state === 'failing')
  const { rows } = await other.pool.query('select database from pg_replication_slots where slot_name = $1', [shop.slotName])
  assert.deepEqual(rows, [{ database: other.name }])
  await stream.stop()
})
