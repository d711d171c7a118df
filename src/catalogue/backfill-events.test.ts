import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { pino } from 'pino'
import { onCleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { startStore } from '../../test/store.ts'
import { createPool } from '../db/pool.ts'
import { SERVING_BOUNDS } from '../db/session-settings.ts'
import { createEventBackfill } from './backfill-events.ts'

const PRODUCTS = 10
const WORDS = 'select id, search, translated_search from products order by id'
const store = await startStore({ after })

const countRecorded = async () => (await store.pool.query(`select from product_events where type = 'product.created'`)).rowCount ?? 0

/** Adds products as a release without events and with other words leaves them. Returns the words that they must get. */
async function addProducts(t: TestContext, description: string) {
  onCleanup(t, async () => void (await store.pool.query('delete from products')))
  await store.pool.query(
    `insert into products (id, sku, name, description, category, price_amount, price_currency, in_stock, translations)
    select gen_random_uuid(), 'P' || place, 'Wi-Fi Router', $2, 'things', 5, 'EUR', true, case when place = 1 then '{"de": {"name": "WLAN"}}'::jsonb else '{}' end
    from generate_series(1, $1) as place`,
    [PRODUCTS, description],
  )
  const { rows } = await store.pool.query(WORDS)
  await store.pool.query(
    `update products set search = 'router:1A', translated_search = case when translated_search is not null then 'router:1A'::tsvector end`,
  )
  await store.pool.query('delete from product_events')
  await store.pool.query(`insert into product_event_backfill values ('00000000-0000-0000-0000-000000000000')`)
  return rows
}

/** Backfills with statements that end after `statement` ms. Returns how many failed. */
async function backfill(t: TestContext, statement: number): Promise<number> {
  let failures = 0
  const bounds = { ...SERVING_BOUNDS, statement }
  const pool = createPool({ url: store.addresses.api, size: 1, applicationName: 'backfill', onError: () => {}, bounds })
  const service = createEventBackfill({ pool, logger: pino({}, { write: () => void failures++ }) })
  onCleanup(t, async () => {
    await service.stop()
    await pool.end()
  })
  await service.start()
  await eventually(async () => (await store.pool.query('select from product_event_backfill')).rowCount === 0)
  return failures
}

test('a batch of the backfill ends after a fifth of a second if descriptions are long', {
  timeout: 60_000,
}, async (t) => {
  const description = Array.from({ length: 3_000 }, (_, n) => `wi-fi${n} Gr. ${n} word${n}`).join(' ')
  const words = await addProducts(t, description.padEnd(65_536, ' lamp').slice(0, 65_536))
  const { rows } = await store.pool.query('select backfill_product_events(100) as has_more')
  assert.deepEqual(rows, [{ has_more: true }])
  const recorded = await countRecorded()
  assert.ok(recorded > 0 && recorded < PRODUCTS, `${recorded} in the first batch`)
  await backfill(t, SERVING_BOUNDS.statement)
  assert.deepEqual((await store.pool.query(WORDS)).rows, words)
  assert.equal(await countRecorded(), PRODUCTS)
})

test('the backfill uses smaller batches if the database is too slow for a full one', { timeout: 60_000 }, async (t) => {
  await store.pool.query(
    `create function delay() returns trigger language plpgsql as 'begin perform pg_sleep(0.1); return new; end';
    create trigger products_delay before update of search on products for each row execute function delay()`,
  )
  const words = await addProducts(t, 'Fast')
  assert.ok((await backfill(t, 700)) > 0)
  assert.deepEqual((await store.pool.query(WORDS)).rows, words)
  assert.equal(await countRecorded(), PRODUCTS)
})

test('a product whose name changes after its words were computed and before it is locked gets the words of the new name', {
  timeout: 60_000,
}, async (t) => {
  await addProducts(t, 'Fast')
  const editor = await store.pool.connect()
  onCleanup(t, () => editor.release(true))
  await editor.query(`begin; update products set name = 'Oak Table'`)
  const batch = store.pool.query('select backfill_product_events(100)')
  const isWaiting = `select from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'backfill_product_events'`
  await eventually(async () => (await store.pool.query(isWaiting)).rowCount === 1)
  await editor.query('commit')
  await batch
  await backfill(t, SERVING_BOUNDS.statement)
  const { rows } = await store.pool.query(`select from products where search @@ '=oaktable' and not search @@ '=wifirouter'`)
  assert.equal(rows.length, PRODUCTS)
})
