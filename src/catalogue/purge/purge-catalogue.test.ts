import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { pino } from 'pino'
import { onCleanup } from '../../../test/cleanup.ts'
import { createTestDatabase, type TestDatabase } from '../../../test/database.ts'
import { eventually } from '../../../test/eventually.ts'
import { addProduct } from '../../../test/store.ts'
import { FreshCopies } from '../../db/fresh-copies.ts'
import { connectClient } from '../../db/pool.ts'
import { DeliveryQueue } from '../../deliveries/delivery-queue.ts'
import { productTag } from '../events.ts'
import { createCataloguePurge, deleteOldPurges } from './purge-catalogue.ts'

const logger = pino({ level: 'silent' })

/** A purge service with a cache that the test implements. */
async function startPurge(t: TestContext, database: TestDatabase, purge: ((tags: readonly string[]) => Promise<void>) | null) {
  const { url, pool } = database
  const deliveries = new DeliveryQueue({ pool, logger, longestPauseSeconds: 0 })
  const purgers = purge === null ? [] : [{ name: 'test', purge }]
  const copies = new FreshCopies({ pool, connect: () => connectClient(url, 'test'), logger })
  const service = createCataloguePurge({ pool, copies, deliveries, purgers, logger })
  onCleanup(t, async () => {
    await service.stop()
    await deliveries.stop()
    await copies.stop()
  })
  await copies.start()
  await deliveries.start()
  await service.start()
  return service
}

const countChanges = async ({ pool }: TestDatabase) => (await pool.query('select from catalogue_changes')).rowCount

test('purges the lists and the product of each change, and purges again when every process knows the change', async (t) => {
  const database = await createTestDatabase(t)
  const purged: string[] = []
  await startPurge(t, database, async (tags) => void purged.push(...tags))
  const lamp = await addProduct(database.pool)
  await eventually(async () => purged.filter((tag) => tag === productTag(lamp.id)).length === 2, { what: 'both purges' })
  assert.deepEqual(purged.toSorted(), ['products', 'products', productTag(lamp.id), productTag(lamp.id)].toSorted())
  assert.equal(await countChanges(database), 0)
})

test('purges changes that were committed before the start', async (t) => {
  const database = await createTestDatabase(t)
  const [lamp, vase] = [await addProduct(database.pool), await addProduct(database.pool)]
  await database.pool.query('delete from products where id = $1', [vase.id])
  const purged = new Set<string>()
  await startPurge(t, database, async (tags) => tags.forEach((tag) => void purged.add(tag)))
  await eventually(async () => purged.size === 3, { what: 'the lists and both products' })
  assert.deepEqual([...purged].sort(), ['products', productTag(lamp.id), productTag(vase.id)].sort())
})

test('purges everything if more products changed than one call can name, as in each batch of an import while orders arrive', async (t) => {
  const database = await createTestDatabase(t)
  await database.pool.query(
    `insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
     select gen_random_uuid(), number::text, 'A', 'B', 1, 'EUR', true from generate_series(1, 100) as number`,
  )
  const purged = new Set<string>()
  await startPurge(t, database, async (tags) => tags.forEach((tag) => void purged.add(tag)))
  await eventually(async () => purged.size > 0)
  assert.deepEqual([...purged], ['catalogue'])
})

test('purges everything when the catalogue gains or loses a language, and only then', async (t) => {
  const database = await createTestDatabase(t)
  const { pool } = database
  const ids = await Promise.all([1, 2].map(async () => (await addProduct(pool)).id))
  const translate = (id: string | undefined, texts: object) =>
    pool.query('update products set translations = $2 where id = $1', [id, JSON.stringify(texts)])
  const isWhole = async () => {
    const { rows } = await pool.query<{ product_ids: string[] | null }>('delete from catalogue_changes returning product_ids')
    return rows.some(({ product_ids }) => product_ids === null)
  }
  await isWhole()
  const [first, second] = ids
  const seen: boolean[] = []
  for (const [id, texts] of [
    [first, { de: { name: 'Lampe' } }],
    [second, { de: { name: 'Leuchte' } }],
    [second, { de: { name: 'Licht' }, fr: { name: 'Lampe' } }],
    [second, {}],
    [first, { de: { name: 'Licht' } }],
    [first, {}],
  ] as const) {
    await translate(id, texts)
    seen.push(await isWhole())
  }
  assert.deepEqual(seen, [true, false, true, true, false, true])
})

test('retries until the cache has accepted the purge, even after the process was replaced', async (t) => {
  const database = await createTestDatabase(t)
  let refusals = 0
  const first = await startPurge(t, database, async () => {
    refusals++
    throw new Error('the cache is unavailable')
  })
  const lamp = await addProduct(database.pool)
  await eventually(async () => refusals > 0, { what: 'a purge that fails' })
  await first.stop()
  const purged = new Set<string>()
  await startPurge(t, database, async (tags) => tags.forEach((tag) => void purged.add(tag)))
  await eventually(async () => purged.has(productTag(lamp.id)), { what: 'the purge' })
})

test('retries a purge that fails for days, however many attempts it takes', async (t) => {
  const database = await createTestDatabase(t)
  await database.pool.query(
    `insert into cache_purges (purge_id, cache, tags, attempts) values (gen_random_uuid(), 'test', '{products}', 997)`,
  )
  let refusals = 0
  await startPurge(t, database, async () => {
    refusals++
    throw new Error('the cache is unavailable')
  })
  await eventually(async () => refusals >= 5, { what: 'further attempts' })
})

test('deletes purges of answers that no cache can serve any more', async (t) => {
  const { pool } = await createTestDatabase(t)
  await pool.query(
    `insert into cache_purges (purge_id, cache, tags, queued_at)
    select gen_random_uuid(), hours::text, '{products}', now() - make_interval(hours => hours) from unnest('{1, 24, 26}'::integer[]) as hours`,
  )
  assert.equal(await deleteOldPurges(pool, 25 * 3_600), 1)
  const { rows } = await pool.query<{ cache: string }>('select cache from cache_purges order by cache')
  assert.deepEqual(
    rows.map(({ cache }) => cache),
    ['1', '24'],
  )
})

test('purges nothing for a change that was rolled back', async (t) => {
  const database = await createTestDatabase(t)
  const purged = new Set<string>()
  await startPurge(t, database, async (tags) => tags.forEach((tag) => void purged.add(tag)))
  const id = randomUUID()
  await assert.rejects(
    database.pool.query(
      `with written as (
         insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
         values ($1, 'A', 'A', 'B', 1, 'EUR', true) returning id
       )
       select 1 / 0 from written`,
      [id],
    ),
  )
  const lamp = await addProduct(database.pool)
  await eventually(async () => purged.has(productTag(lamp.id)))
  assert.ok(!purged.has(productTag(id)))
})

test('removes changes from the outbox if there is no cache to purge', async (t) => {
  const database = await createTestDatabase(t)
  await addProduct(database.pool)
  const service = await startPurge(t, database, null)
  await eventually(async () => (await countChanges(database)) === 0)
  await Promise.all([service.stop(), service.stop()])
})
