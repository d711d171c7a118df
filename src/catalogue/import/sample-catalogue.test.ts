import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from '../../../test/database.ts'
import { createPool } from '../../db/pool.ts'
import { loadSampleCatalogue } from './sample-catalogue.ts'

test('loads the sample catalogue into an empty store', async (t) => {
  const { pool } = await createTestDatabase(t)
  assert.equal(await loadSampleCatalogue(pool), true)
  const { rows } = await pool.query(
    `select count(*) as products, count(distinct category) as categories, count(distinct name) as names,
       count(distinct description) as descriptions, count(*) filter (where available = 0) as sold_out,
       count(*) filter (where available is null) as untracked, array_agg(distinct price_currency) as currencies,
       bool_and(in_stock = (available is null or available > 0)) as in_stock_is_true
     from products
     join inventory on inventory.product_id = products.id`,
  )
  assert.deepEqual(rows, [
    {
      ...{ products: 300, categories: 10, names: 300, descriptions: 300, sold_out: 10, untracked: 10 },
      ...{ currencies: ['EUR'], in_stock_is_true: true },
    },
  ])
})

test('does nothing in a store that has a product', async (t) => {
  const { pool } = await createTestDatabase(t)
  await pool.query(
    `insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
     values (gen_random_uuid(), 'OWN-1', 'Own', 'Own', 1, 'EUR', true)`,
  )
  assert.equal(await loadSampleCatalogue(pool), false)
  const { rows } = await pool.query('select sku from products')
  assert.deepEqual(rows, [{ sku: 'OWN-1' }])
})

test('loads once when many processes start together, even with one connection each', async (t) => {
  const { pool, url } = await createTestDatabase(t)
  const pools = Array.from({ length: 5 }, () => createPool({ url, size: 1, applicationName: 'test', onError: () => {} }))
  const loaded = await Promise.all(pools.map(loadSampleCatalogue)).finally(() => Promise.all(pools.map((each) => each.end())))
  assert.deepEqual(loaded.toSorted(), [false, false, false, false, true])
  const { rows } = await pool.query('select count(*) as products from products')
  assert.deepEqual(rows, [{ products: 300 }])
})
