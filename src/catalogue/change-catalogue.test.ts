import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { auditContextOfCommand } from '../activity/record-activity.ts'
import { createCategory } from './categories/change-tree.ts'
import { archiveProduct, changeProduct, createProduct, restoreProduct } from './change-product.ts'
import { adjustStock, setStock } from './change-stock.ts'
import { importCatalogue } from './import/import-catalogue.ts'
import { readImportLines } from './import/import-lines.ts'
import { normalizeProduct } from './normalize-product.ts'

const { pool } = await createTestDatabase({ after })
const AUDIT_CONTEXT = auditContextOfCommand('a test')
const catalogue = { pool }
const euros = (amount: number) => ({ amount, currency: 'EUR' })
let last = 0

const create = (rest: object = {}) =>
  createProduct(
    catalogue,
    normalizeProduct({ sku: `S${++last}`, name: `Mug ${last}`, category: 'Mugs', price: euros(1_000), stock: 5, ...rest }),
    AUDIT_CONTEXT,
  )
const importCsv = (text: string) => {
  const lines = readImportLines([Buffer.from(text)] as unknown as AsyncIterable<Uint8Array>, { currency: 'EUR', format: 'csv' })
  return importCatalogue(pool, lines, (_, reason) => assert.fail(reason), { auditContext: AUDIT_CONTEXT })
}
/** All that a change writes, of every product. */
async function readAll() {
  const { rows } = await pool.query(`select
    (select json_agg(product order by id) from (select id, sku, name, brand, price_amount, archived_at, updated_at from products) as product) as products,
    (select json_agg(page order by product_id) from product_pages as page) as pages,
    (select json_agg(slug order by slug) from product_slugs as slug) as slugs,
    (select json_agg(stock order by product_id) from inventory as stock) as stock,
    (select json_agg(member order by product_id, category_id) from product_categories as member) as categories,
    (select count(*) from product_events) as events, (select count(*) from activities) as activities,
    (select sum(changes) from catalogue_versions) as version`)
  return rows[0]
}
/** The state in the newest event is that of the row, and versions have no gap. */
async function assertRecorded(id: string) {
  const { rows } = await pool.query(
    `select array_agg(version::integer order by version) as versions,
       (array_agg(data -> 'product' order by version desc) filter (where type <> 'price.changed'))[1]::jsonb as newest,
       (select product::jsonb from product_snapshots(array[$1::uuid])) as stored
     from product_events where product_id = $1 and stream = 'product'`,
    [id],
  )
  const [{ versions, newest, stored }] = rows
  assert.deepEqual(newest, stored)
  assert.deepEqual(
    versions,
    Array.from(versions, (_: number, index: number) => index + 1),
  )
}

test('two changes and an import of one product at once lose no update and never deadlock', async () => {
  for (let round = 1; round <= 5; round++) {
    const { id, sku } = await create({ seo: { title: 'A mug' }, prices: [{ amount: 900, currency: 'USD' }] })
    const [before] = (await pool.query('select count(*)::int as activities from activities')).rows
    await Promise.all([
      changeProduct(catalogue, id, null, { brand: `Potter ${round}`, slug: `mug-of-${round}` }, AUDIT_CONTEXT),
      changeProduct(catalogue, id, null, { availability_text: 'Ships today', categories: [['Kitchen', `Cups ${round}`]] }, AUDIT_CONTEXT),
      importCsv(`sku,name,category,price,stock,seo_description\n${sku},Cup,Kitchen ${round},8.50,7,Of clay\n`),
    ])
    const { rows } = await pool.query(
      `select brand, name, price_amount, availability_text, seo_title, seo_description, prices, available,
         (select slug from product_slugs where product_id = $1 and retired_at is null) as slug
       from products join product_pages on product_pages.product_id = id join inventory on inventory.product_id = id where id = $1`,
      [id],
    )
    const all = { brand: `Potter ${round}`, name: 'Cup', price_amount: 850, availability_text: 'Ships today', slug: `mug-of-${round}` }
    assert.deepEqual(rows, [{ ...all, seo_title: 'A mug', seo_description: 'Of clay', prices: { USD: { amount: 900 } }, available: 7 }])
    await assertRecorded(id)
    const [now] = (await pool.query('select count(*)::int as activities from activities')).rows
    assert.equal(now.activities, before.activities + 3)
  }
  await pool.query('select pg_stat_force_next_flush()')
  const { rows } = await pool.query('select deadlocks from pg_stat_database where datname = current_database()')
  assert.deepEqual(rows, [{ deadlocks: 0 }])
})

test('a process shows its own change at once, because it reads the version again after the commit', async () => {
  const seen: number[] = []
  const countChanges = async () =>
    (await pool.query<{ changes: number }>('select sum(changes)::int as changes from catalogue_versions')).rows[0]?.changes ?? 0
  const refresh = async () => {
    seen.push(await countChanges())
    return { changes: 0, changedAt: new Date(), languages: [] }
  }
  const shown = { pool, version: { refresh } }
  const { id } = await create()
  const change = { reference: 'found', reason: null, auditContext: AUDIT_CONTEXT }
  for (const work of [
    () => changeProduct(shown, id, null, { name: 'A mug to see' }, AUDIT_CONTEXT),
    () => setStock(shown, id, { ...change, stock: 0, versions: null }),
    () => adjustStock(shown, id, { ...change, delta: 1 }),
    () => archiveProduct(shown, id, null, AUDIT_CONTEXT),
    () => restoreProduct(shown, id, null, AUDIT_CONTEXT),
    () => createCategory(shown, { name: 'To see' }, AUDIT_CONTEXT),
  ]) {
    const before = await countChanges()
    seen.length = 0
    await work()
    assert.equal(seen.length, 1)
    assert.ok((seen[0] ?? 0) > before)
  }
})

test('a change whose connection breaks at any step stores nothing, and can be repeated', async () => {
  const page = { image_url: 'https://images.example/a', availability_text: 'Ships today' }
  const { id } = await create()
  const other = await create({ slug: 'a-cup' })
  const patch = { name: 'Cup', slug: 'cup', price: euros(900), categories: [['Kitchen', 'Cups of clay']], ...page }
  const every = ['products', 'product_categories', 'product_slugs', 'product_pages', 'inventory', 'product_events', 'activities']
  const csv = `sku,name,category,price,stock,slug\n${other.sku},Cup,Mugs,7.00,3,a-new-cup\nNEW,New,Mugs,1.00,1,new\n`
  const changes = [
    { name: 'create', change: () => create({ sku: 'KILLED', slug: 'killed', ...page }), tables: every },
    {
      name: 'change',
      change: () => changeProduct(catalogue, id, null, patch, AUDIT_CONTEXT),
      tables: every.filter((table) => table !== 'inventory'),
    },
    { name: 'import', change: () => importCsv(csv), tables: every },
    {
      name: 'archive',
      change: () => archiveProduct(catalogue, other.id, null, AUDIT_CONTEXT),
      tables: ['products', 'product_categories', 'product_events', 'activities'],
    },
    {
      name: 'restore',
      change: () => restoreProduct(catalogue, other.id, null, AUDIT_CONTEXT),
      tables: ['products', 'product_categories', 'product_events', 'activities'],
    },
  ]
  for (const { name, change, tables } of changes) {
    const before = await readAll()
    for (const table of tables) {
      const locking = await pool.connect()
      await locking.query(`begin; lock table ${table} in share mode`)
      const outcome = change().then(
        () => 'done',
        (error: Error) => error.message,
      )
      // The same table has the same number in the databases of other tests.
      const kill = `select pg_terminate_backend(pid) from pg_locks
        where relation = '${table}'::regclass and not granted and database = (select oid from pg_database where datname = current_database())`
      await eventually(async () => (await locking.query(kill)).rowCount !== 0, {
        what: `${name} at ${table}`,
        timeoutMs: 20_000,
        pauseMs: 5,
      })
      await locking.query('rollback')
      locking.release()
      assert.match(await outcome, /terminat|closed|lost/i, `${name} at ${table}`)
      assert.deepEqual(await readAll(), before, `${name} at ${table}`)
    }
    await change()
    assert.notDeepEqual(await readAll(), before, name)
  }
  for (const each of [id, other.id]) await assertRecorded(each)
})

test("a change that names a product's category records it, also if the category was renamed and another one took its former name", async () => {
  const { id } = await create({ category: 'Red' })
  await pool.query(`update categories set name = 'Crimson', renamed_at = now() where name = 'Red'`)
  await create({ category: 'Red' })
  await changeProduct(catalogue, id, null, { category: 'Crimson' }, AUDIT_CONTEXT)
  const { rows } = await pool.query('select category from products where id = $1', [id])
  assert.deepEqual(rows, [{ category: 'Crimson' }])
  await assertRecorded(id)
})

test('an import sets the stock of a product without stock, and whether it is in stock', async () => {
  const line = 'sku,name,category,price,currency,stock'
  await pool.query(`insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
    values (gen_random_uuid(), 'BY-HAND', 'By hand', 'Mugs', 1000, 'EUR', false)`)
  const stockOf = async () =>
    (
      await pool.query(`select available, in_stock, (select count(*)::int from stock_adjustments as change where change.product_id = products.id) as changes
        from products left join inventory on product_id = id where sku = 'BY-HAND'`)
    ).rows[0]
  await importCsv(`${line}\nBY-HAND,By hand,Mugs,10.00,EUR,5\n`)
  assert.deepEqual(await stockOf(), { available: 5, in_stock: true, changes: 1 })
  await pool.query(`update inventory set available = 0 where product_id = (select id from products where sku = 'BY-HAND')`)
  await importCsv(`sku,name,category,price,currency\nBY-HAND,By hand,Mugs,10.00,EUR\n`)
  assert.deepEqual(await stockOf(), { available: 0, in_stock: false, changes: 1 })
})

test('naming the same categories in the same order is no change, whatever their positions are', async () => {
  const { id, sku } = await create({ category: 'Mugs' })
  await pool.query(
    `insert into categories (id, name, slug) select gen_random_uuid(), name, name from unnest(array['gap-a', 'gap-b']) as name`,
  )
  await changeProduct(catalogue, id, null, { categories: ['gap-a', 'gap-b'] }, AUDIT_CONTEXT)
  await pool.query('update product_categories set position = position * 5 where product_id = $1', [id])
  const before = (await pool.query('select updated_at, sku from products where id = $1', [id])).rows
  await changeProduct(catalogue, id, null, { categories: ['gap-a', 'gap-b'] }, AUDIT_CONTEXT)
  assert.deepEqual((await pool.query('select updated_at, sku from products where id = $1', [id])).rows, before, sku)
})
