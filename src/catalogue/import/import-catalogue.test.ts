import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { createTestDatabase } from '../../../test/database.ts'
import { insertOrders } from '../../../test/stream-harness.ts'
import type { Pool } from '../../db/pool.ts'
import { inTransaction } from '../../db/transaction.ts'
import { importBatches, importCatalogue } from './import-catalogue.ts'
import type { ImportedProduct, ImportLine } from './imported-product.ts'

function product(sku: string, changes: Partial<ImportedProduct> = {}): ImportedProduct {
  const price = { amount: 1250, currency: 'EUR' }
  return {
    sku,
    name: `Mug ${sku}`,
    description: 'Holds tea.',
    category: 'Kitchen',
    brand: null,
    image_url: null,
    images: [],
    group: null,
    options: {},
    attributes: {},
    price,
    compare_at_price: null,
    seo: { title: null, description: null },
    availability_text: null,
    stock: 3,
    ...changes,
  }
}

async function* toLines(products: readonly ImportedProduct[]): AsyncGenerator<ImportLine> {
  for (const [index, each] of products.entries()) yield { line: index + 1, product: each }
}

async function importAll(pool: Pool, products: readonly ImportedProduct[], options?: { batchSize?: () => number }) {
  const errors: string[] = []
  const result = await importCatalogue(pool, toLines(products), (line, reason) => errors.push(`${line}: ${reason}`), options)
  return { ...result, errors }
}

async function listStored(pool: Pool) {
  const { rows } = await pool.query(
    `select id, sku, name, description, category, image_url, price_amount, price_currency, in_stock, available, created_at, updated_at,
       products.xmin::text as written_by
     from products
     join inventory on inventory.product_id = products.id
     order by sku`,
  )
  return rows
}

test('stores new products with their stock', async (t) => {
  const { pool } = await createTestDatabase(t)
  const image = 'https://images.example/b.jpg'
  const products = [product('A'), product('B', { stock: 0, image_url: image }), product('C', { stock: null, description: `a 'b' {"c"}\\` })]
  assert.deepEqual(await importAll(pool, products, { batchSize: () => 2 }), { created: 3, updated: 0, unchanged: 0, failed: 0, errors: [] })
  const stored = await listStored(pool)
  assert.deepEqual(
    stored.map((row) => [row.sku, row.in_stock, row.available, row.image_url, row.description]),
    [
      ['A', true, 3, null, 'Holds tea.'],
      ['B', false, 0, image, 'Holds tea.'],
      ['C', true, null, null, `a 'b' {"c"}\\`],
    ],
  )
  const { id, name, category, price_amount, price_currency } = stored[0]
  assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7/)
  assert.deepEqual([name, category, price_amount, price_currency], ['Mug A', 'Kitchen', 1250, 'EUR'])
})

test('importing a file again writes nothing', async (t) => {
  const { pool } = await createTestDatabase(t)
  const products = [product('A'), product('B', { stock: null }), product('C', { stock: 0 })]
  await importAll(pool, products)
  const before = await listStored(pool)
  assert.deepEqual(await importAll(pool, products), { created: 0, updated: 0, unchanged: 3, failed: 0, errors: [] })
  assert.deepEqual(await listStored(pool), before)
})

test('updates only the products that differ, and keeps their ids', async (t) => {
  const { pool } = await createTestDatabase(t)
  const skus = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H']
  await importAll(
    pool,
    skus.map((sku) => product(sku)),
  )
  await pool.query(`update products set updated_at = updated_at - interval '1 minute'`)
  const before = await listStored(pool)
  const changes: Partial<ImportedProduct>[] = [
    { name: 'Cup' },
    { description: '' },
    { category: 'Tea' },
    { image_url: 'https://images.example/d.jpg' },
    { price: { amount: 1, currency: 'EUR' } },
    { price: { amount: 1250, currency: 'USD' } },
    { stock: 0 },
    {},
  ]
  const result = await importAll(
    pool,
    skus.map((sku, index) => product(sku, changes[index])),
  )
  assert.deepEqual(result, { created: 0, updated: 7, unchanged: 1, failed: 0, errors: [] })
  const after = await listStored(pool)
  assert.deepEqual(
    after.map(({ id, created_at }) => [id, created_at]),
    before.map(({ id, created_at }) => [id, created_at]),
  )
  assert.deepEqual(
    after.map(({ updated_at }, index) => updated_at > before[index].updated_at),
    [...Array(7).fill(true), false],
  )
  const changed = after.map((row, index) => Object.keys(row).filter((key) => String(row[key]) !== String(before[index][key])))
  assert.deepEqual(
    changed.map((keys) => keys.filter((key) => key !== 'updated_at' && key !== 'written_by').join()),
    ['name', 'description', 'category', 'image_url', 'price_amount', 'price_currency', 'in_stock,available', ''],
  )
  assert.deepEqual([after[0].name, after[4].price_amount, after[5].price_currency, after[6].in_stock], ['Cup', 1, 'USD', false])
})

test('does not write a product if only its stock changes', async (t) => {
  const { pool } = await createTestDatabase(t)
  await importAll(pool, [product('A'), product('B')])
  const before = await listStored(pool)
  assert.deepEqual(await importAll(pool, [product('A', { stock: 9 }), product('B')]), {
    created: 0,
    updated: 1,
    unchanged: 1,
    failed: 0,
    errors: [],
  })
  assert.deepEqual(await listStored(pool), [{ ...before[0], available: 9 }, before[1]])
})

test('reports the line that the database refuses, and stores the other lines of its batch', async (t) => {
  const { pool } = await createTestDatabase(t)
  const price = { amount: -1, currency: 'EUR' }
  const result = await importAll(pool, [product('A'), product('B', { price }), product('C'), product('D', { stock: -1 })])
  assert.deepEqual(result, {
    ...{ created: 2, updated: 0, unchanged: 0, failed: 2 },
    errors: [
      '2: the database refused the product (SQLSTATE 23514, products_price_in_range)',
      '4: the database refused the product (SQLSTATE 23514, inventory_available_not_negative)',
    ],
  })
  assert.deepEqual(
    (await listStored(pool)).map(({ sku }) => sku),
    ['A', 'C'],
  )
})

test('if a batch contains a sku twice, the last line counts', async (t) => {
  const { pool } = await createTestDatabase(t)
  const result = await importAll(pool, [product('A'), product('B'), product('A', { name: 'Cup' })])
  assert.deepEqual(result, { created: 2, updated: 1, unchanged: 0, failed: 0, errors: [] })
  assert.deepEqual(
    (await listStored(pool)).map(({ name }) => name),
    ['Cup', 'Mug B'],
  )
})

test('counts the lines that could not be read', async (t) => {
  const { pool } = await createTestDatabase(t)
  async function* lines(): AsyncGenerator<ImportLine> {
    yield { line: 1, error: 'no' }
    yield* toLines([product('A')])
  }
  const errors: unknown[] = []
  const result = await importCatalogue(pool, lines(), (...error) => errors.push(error))
  assert.deepEqual([result, errors], [{ created: 1, updated: 0, unchanged: 0, failed: 1 }, [[1, 'no']]])
})

test('keeps the batches before an early end of the file, and completes on the next import', async (t) => {
  const { pool } = await createTestDatabase(t)
  const products = ['A', 'B', 'C'].map((sku) => product(sku))
  async function* broken() {
    yield* toLines(products)
    throw new Error('the disk is gone')
  }
  await assert.rejects(
    importCatalogue(pool, broken(), () => {}, { batchSize: () => 2 }),
    /the disk is gone/,
  )
  assert.deepEqual(
    (await listStored(pool)).map(({ sku }) => sku),
    ['A', 'B'],
  )
  assert.deepEqual(await importAll(pool, products), { created: 1, updated: 0, unchanged: 2, failed: 0, errors: [] })
})

test('limits the size of a batch by all texts of its products', async (t) => {
  const { pool } = await createTestDatabase(t)
  const translations = Object.fromEntries(['de', 'fr', 'es', 'it', 'nl'].map((language) => [language, { description: 'ä '.repeat(5_000) }]))
  const lines = toLines(Array.from({ length: 9 }, (_, index) => product(`T${index}`, { translations })))
  const batches = await Array.fromAsync(importBatches(pool, lines, {}), (results) => results.length)
  assert.deepEqual(batches, [7, 2])
})

test('halves a batch that exceeds the statement timeout', async (t) => {
  const { pool } = await createTestDatabase(t)
  await pool.query(
    `create function end_long_statements() returns trigger language plpgsql as $$
     begin
       if (select count(*) from changed) > 2 then raise exception 'too long' using errcode = 'query_canceled'; end if;
       return null;
     end $$`,
  )
  await pool.query(
    `create trigger long after insert on products referencing new table as changed for each statement execute function end_long_statements()`,
  )
  const products = ['A', 'B', 'C', 'D', 'E', 'F', 'G'].map((sku) => product(sku))
  assert.deepEqual(await importAll(pool, products), { created: 7, updated: 0, unchanged: 0, failed: 0, errors: [] })
})

test('leaves half of the time to orders while they arrive, and does not pause otherwise', async (t) => {
  const { pool } = await createTestDatabase(t)
  const pauses: number[] = []
  const pause = async (ms: number) => void pauses.push(ms)
  const importThree = () =>
    importCatalogue(pool, toLines(['A', 'B', 'C'].map((sku) => product(sku))), () => {}, { batchSize: () => 2, pause })
  await importThree()
  assert.deepEqual(pauses, [])
  const [id] = await insertOrders(pool, 1)
  const beganAt = performance.now()
  await importThree()
  const tookMs = performance.now() - beganAt
  assert.equal(pauses.length, 2)
  const pausedMs = pauses.reduce((sum, ms) => sum + ms, 0)
  assert.ok(pausedMs > 0 && pausedMs <= tookMs, `${pauses} of ${tookMs} ms`)
  await pool.query(`update orders set created_at = now() - interval '1 minute' where id = $1`, [id])
  await importThree()
  assert.equal(pauses.length, 2)
})

test('uses smaller transactions while orders arrive, so that the change stream reads each of them quickly', async (t) => {
  const { pool } = await createTestDatabase(t)
  const products = Array.from({ length: 250 }, (_, index) => product(`S${index}`))
  const importInSteps = async () => {
    const steps: number[] = []
    await importCatalogue(pool, toLines(products), () => {}, { onProgress: (lines) => steps.push(lines), pause: async () => {} })
    return steps
  }
  assert.deepEqual(await importInSteps(), [250])
  await insertOrders(pool, 1)
  assert.deepEqual(await importInSteps(), [100, 200, 250])
})

test('uses smaller transactions from the first order on, even if its own lines arrive slowly', async (t) => {
  const { pool } = await createTestDatabase(t)
  const steps: number[] = []
  async function* slowly() {
    for await (const line of toLines(Array.from({ length: 250 }, (_, index) => product(`S${index}`)))) {
      if (line.line === 150) {
        await insertOrders(pool, 1)
        await delay(1_100)
      }
      yield line
    }
  }
  await importCatalogue(pool, slowly(), () => {}, { onProgress: (lines) => steps.push(lines), pause: async () => {} })
  assert.deepEqual(steps, [150, 250])
})

test('stops the import if the database is unavailable, instead of reporting every line', async (t) => {
  const { pool } = await createTestDatabase(t)
  const errors: string[] = []
  async function* lines() {
    yield* toLines([product('A'), product('B')])
    await pool.query('alter table products rename to elsewhere')
  }
  await assert.rejects(
    importCatalogue(pool, lines(), (_, reason) => errors.push(reason)),
    { code: '42P01' },
  )
  assert.deepEqual(errors, [])
})

test('concurrent imports that create and change the same products lose nothing', async (t) => {
  const { pool } = await createTestDatabase(t)
  const skus = Array.from({ length: 60 }, (_, index) => `S${index}`)
  const importOne = (name: string, order: readonly string[]) =>
    importAll(
      pool,
      order.map((sku) => product(sku, { name })),
      { batchSize: () => 7 },
    )
  const results = await Promise.all([
    importOne('a', skus),
    importOne('b', skus.toReversed()),
    importOne('a', skus.toSorted()),
    importOne('b', skus),
  ])
  assert.deepEqual(
    results.map(({ failed }) => failed),
    [0, 0, 0, 0],
  )
  assert.equal(
    results.reduce((sum, { created }) => sum + created, 0),
    skus.length,
  )
  const stored = await listStored(pool)
  assert.deepEqual(
    stored.map(({ sku }) => sku),
    skus.toSorted(),
  )
  assert.ok(stored.every(({ name, available }) => ['a', 'b'].includes(name) && available === 3))
})

test('does not deadlock with orders, because both lock stock in product id order', async (t) => {
  const { pool } = await createTestDatabase(t)
  const skus = Array.from({ length: 20 }, (_, index) => `S${index}`)
  await importAll(
    pool,
    skus.toReversed().map((sku) => product(sku)),
  )
  let isImporting = true
  const order = async () => {
    while (isImporting) {
      await inTransaction(pool, async (tx) => {
        await tx.query('select available from inventory order by product_id for update')
        await tx.query('update inventory set available = available - 1 where available > 0')
        await tx.query('update products set in_stock = not in_stock')
      })
    }
  }
  const orders = [order(), order()]
  for (let stock = 1; stock <= 15; stock++) {
    const { failed } = await importAll(
      pool,
      skus.map((sku) => product(sku, { stock, name: `Mug ${stock}` })),
    )
    assert.equal(failed, 0)
  }
  isImporting = false
  await Promise.all(orders)
  await pool.query('select pg_stat_force_next_flush()')
  const { rows } = await pool.query('select deadlocks from pg_stat_database where datname = current_database()')
  assert.deepEqual(rows, [{ deadlocks: 0 }])
})
