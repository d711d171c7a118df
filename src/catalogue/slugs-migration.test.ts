import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createEarlierDatabase } from '../../test/earlier-schema.ts'
import { migrate } from '../db/migrate.ts'

test('the products there are get slugs, the oldest of a name that name, and later ones none of theirs', async (t) => {
  const { pool, url } = await createEarlierDatabase(t)
  // The statement of the release before.
  const insert = (...products: readonly (readonly [string, string])[]) =>
    pool.query(
      `insert into products (id, sku, name, description, category, image_url, variant_group, options, attributes, price_amount, price_currency, in_stock)
       select ('01997a5e-1f20-7c11-b4d2-' || lpad(place::text, 12, '0'))::uuid, sku, name, '', 'c', null, null, '{}', '{}', 1, 'EUR', true
       from unnest($1::text[], $2::text[], $3::integer[]) as product (sku, name, place)`,
      [products.map(([sku]) => sku), products.map(([, name]) => name), products.map((_, index) => index + Number(products[0]?.[0].length))],
    )
  await insert(['A', 'Mug'], ['B', 'MUG'], ['b', 'mug!'], ['C', '🙂'], ['🙂', '🙂'], ['D', 'Mug B'])
  await pool.query(`update products set archived_at = now() where sku = 'A'`)
  await migrate(url)
  const slugs = async () =>
    (await pool.query(`select sku, slug from product_slugs join products on id = product_id order by product_id`)).rows.map(
      ({ sku, slug }) => [sku, slug],
    )
  const migrated = [
    ...[
      ['A', 'mug'],
      ['B', 'mug-000000000002'],
      ['b', 'mug-000000000003'],
    ],
    ...[
      ['C', 'c'],
      ['🙂', '000000000005'],
      ['D', 'mug-b'],
    ],
  ]
  assert.deepEqual(await slugs(), migrated)
  await insert(['sku of a later one', 'Mug'])
  assert.deepEqual(await slugs(), [...migrated, ['sku of a later one', 'mug-sku-of-a-later-one']])
  await pool.query(`update products set name = 'Renamed', image_url = 'https://images.example/a.jpg', price_amount = 5 where sku = 'D'`)
  assert.deepEqual((await slugs())[5], ['D', 'mug-b'])
})
