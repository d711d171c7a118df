import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { addProduct } from '../../test/store.ts'
import type { Queryable } from '../db/pool.ts'
import { PriceList } from './products.ts'

const { pool } = await createTestDatabase({ after })

/** The database, and how often it was asked. */
function counting() {
  let asked = 0
  const query = ((...args: Parameters<typeof pool.query>) => {
    asked += 1
    return pool.query(...args)
  }) as Queryable['query']
  return { db: { query }, asked: () => asked }
}

test('queries each product once, and queries only products that are not cached', async () => {
  const [lamp, vase] = [await addProduct(pool, { stock: 5 }), await addProduct(pool, { stock: 0 })]
  const { db, asked } = counting()
  const list = new PriceList()
  await list.read(db, [lamp.id])
  await list.read(db, [lamp.id])
  assert.equal(asked(), 1)
  const { products } = await list.read(db, [lamp.id, vase.id])
  assert.deepEqual([products.get(lamp.id)?.inStock, products.get(vase.id)?.inStock], [true, false])
  assert.equal(asked(), 2)
})

test('never mixes products of two catalogue versions', async () => {
  const [lamp, vase] = [await addProduct(pool), await addProduct(pool)]
  const list = new PriceList()
  const before = await list.read(pool, [lamp.id])
  await pool.query('update products set price_amount = 77 where id = any($1)', [[lamp.id, vase.id]])
  const after = await list.read(pool, [lamp.id, vase.id])
  assert.notEqual(after.version, before.version)
  assert.deepEqual([after.products.get(lamp.id)?.price.amount, after.products.get(vase.id)?.price.amount], [77, 77])
  assert.notEqual(before.products.get(lamp.id)?.price.amount, 77, 'what was handed out stays as it was')
})

test('returns the current state after a refresh', async () => {
  const lamp = await addProduct(pool)
  const list = new PriceList()
  await list.read(pool, [lamp.id])
  await pool.query('update products set price_amount = 78 where id = $1', [lamp.id])
  assert.equal((await list.refresh(pool, [lamp.id])).products.get(lamp.id)?.price.amount, 78)
  assert.equal((await list.read(pool, [lamp.id])).products.get(lamp.id)?.price.amount, 78)
})

test('keeps its cache after a query for unknown products', async () => {
  const lamp = await addProduct(pool)
  const { db, asked } = counting()
  const list = new PriceList()
  await list.read(db, [lamp.id])
  const { products } = await list.read(db, [lamp.id, randomUUID()])
  assert.ok(products.has(lamp.id))
  await list.read(db, [lamp.id])
  assert.equal(asked(), 2)
})
