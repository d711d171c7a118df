import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createEarlierDatabase } from '../../../test/earlier-schema.ts'
import { migrate } from '../../db/migrate.ts'
import { locateCategory } from './locate-category.ts'

const NAMES = ['toys', 'Toys', ' Toys ', 'TOYS', 'Toys!', 'Kids toys', '🙂', '🙃', '', 'Archived']

test('texts of products become categories with slugs, and a list by a text has the products it had', async (t) => {
  const { pool, url } = await createEarlierDatabase(t)
  // The statement of the release before; each category twice.
  await pool.query(
    `insert into products (id, sku, name, description, category, image_url, variant_group, options, attributes, price_amount, price_currency, in_stock)
     select gen_random_uuid(), 'S' || place || '-' || copy, 'N', '', category, null, null, '{}', '{}', place, 'EUR', true
     from unnest($1::text[]) with ordinality as text (category, place)
     cross join generate_series(1, 2) as copy`,
    [NAMES],
  )
  await pool.query(`update products set archived_at = now() where category = 'Archived'`)
  await migrate(url)
  const { rows: categories } = await pool.query('select name, slug, parent_id from categories order by name')
  assert.deepEqual(categories.map(({ name }) => name).sort(), NAMES.toSorted())
  assert.ok(categories.every(({ parent_id }) => parent_id === null))
  const slugOf = new Map<string, string>(categories.map(({ name, slug }) => [name, slug]))
  assert.deepEqual([slugOf.get('toys'), slugOf.get('Kids toys')], ['toys', 'kids-toys'], 'a text that is a slug itself gets it')
  assert.equal(new Set(slugOf.values()).size, NAMES.length)
  const { rows: members } = await pool.query(
    `select product.sku, category.name, member.position, is_listed, member.price_amount = product.price_amount as has_price
     from products as product
     left join product_categories as member on member.product_id = product.id
     left join categories as category on category.id = member.category_id
     order by product.price_amount, product.sku`,
  )
  const expected = NAMES.flatMap((name, index) =>
    [1, 2].map((copy) => ({ sku: `S${index + 1}-${copy}`, name, position: 0, is_listed: name !== 'Archived', has_price: true })),
  )
  assert.deepEqual(members, expected)
  for (const text of [...NAMES, ...slugOf.values()]) {
    const { categoryIds } = await locateCategory(pool, { category: text } as Parameters<typeof locateCategory>[1])
    const { rows } = await pool.query('select name from categories where id = any($1)', [categoryIds])
    const named = NAMES.includes(text) ? text : [...slugOf].find(([, slug]) => slug === text)?.[0]
    assert.deepEqual(rows, [{ name: named }], text)
  }
})
