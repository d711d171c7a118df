import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createTestDatabase } from '../../../test/database.ts'
import { eventually } from '../../../test/eventually.ts'
import { auditContextOfCommand } from '../../activity/record-activity.ts'
import type { Pool } from '../../db/pool.ts'
import { changeProduct } from '../change-product.ts'
import { importCatalogue } from '../import/import-catalogue.ts'
import { type ImportLine, readProduct } from '../import/imported-product.ts'
import { changeCategory, createCategory } from './change-tree.ts'
import { renameProducts } from './rename-products.ts'

const AUDIT_CONTEXT = auditContextOfCommand('a test')
const PRODUCTS = 5
const NEVER = new AbortController().signal

interface Line {
  sku: string
  category: string
}
async function* toLines(lines: readonly Line[]): AsyncGenerator<ImportLine> {
  for (const [index, { sku, category }] of lines.entries())
    yield { line: index + 1, product: readProduct({ sku, name: sku, category, price: { amount: 100, currency: 'EUR' } }) }
}
const importAll = (pool: Pool, lines: readonly Line[]) => importCatalogue(pool, toLines(lines), (_, reason) => assert.fail(reason))
const numbered = (category: string) => Array.from({ length: PRODUCTS }, (_, index) => ({ sku: `${category} ${index}`, category }))

async function makeStore(t: TestContext) {
  const { pool } = await createTestDatabase(t)
  await importAll(pool, numbered('Red'))
  const blue = await createCategory({ pool }, { name: 'Blue' }, AUDIT_CONTEXT)
  const { rows } = await pool.query<{ id: string }>(`select id from categories where name = 'Red'`)
  const redId = rows[0]?.id ?? ''
  const rename = (id: string, name: string) => changeCategory({ pool }, id, null, { name }, AUDIT_CONTEXT)
  // A change of a product takes a while, in the middle of a statement.
  await pool.query(`create function take_a_while() returns trigger language plpgsql as $$ begin perform pg_sleep(0.2); return new; end $$`)
  await pool.query(`create trigger a_while before update on products for each row execute function take_a_while()`)
  const untilDone = async () => {
    while (!(await renameProducts(pool, NEVER)));
  }
  const members = async () =>
    (
      await pool.query<{ category: string; products: number }>(
        `select case category.id when $1 then 'was Red' when $2 then 'was Blue' else category.name end as category, count(*)::int as products
         from product_categories as member
         join categories as category on category.id = member.category_id
         join products on products.id = member.product_id and products.category = category.name
         group by 1 order by 1`,
        [redId, blue.id],
      )
    ).rows
  /** Waits until a transaction is changing products. */
  const untilChanging = async () => {
    const isChanging = `select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`
    await eventually(async () => (await pool.query(isChanging)).rowCount !== 0, { what: 'a change', timeoutMs: 10_000, pauseMs: 5 })
  }
  /** Gives products the new names, and runs `work` during the first batch. */
  const walkWhile = async (work: () => Promise<void>) => {
    const walk = untilDone()
    await untilChanging()
    await work()
    await walk
    await untilDone()
  }
  return { pool, redId, blueId: blue.id, rename, members, untilChanging, walkWhile }
}

test('a category that is renamed again while its products get the first new name keeps its products', async (t) => {
  const { redId, rename, members, walkWhile } = await makeStore(t)
  await rename(redId, 'Crimsom')
  await walkWhile(async () => {
    await rename(redId, 'Crimson')
  })
  assert.deepEqual(await members(), [{ category: 'was Red', products: PRODUCTS }])
})

test('a category keeps its products if another category takes the name that they are just getting', async (t) => {
  const { redId, blueId, rename, members, walkWhile } = await makeStore(t)
  await rename(redId, 'Azure')
  await walkWhile(async () => {
    await rename(redId, 'Crimson')
    await rename(blueId, 'Azure')
  })
  assert.deepEqual(await members(), [{ category: 'was Red', products: PRODUCTS }])
})

test("a category's name can be corrected between two batches, even while several processes write the wrong name to its products", async (t) => {
  const { pool, redId, rename, members } = await makeStore(t)
  await pool.query('drop trigger a_while on products')
  const many = Array.from({ length: 3_000 }, (_, index) => ({ sku: `Red ${index}`, category: 'Red' }))
  await importAll(pool, many)
  await pool.query(
    `create or replace function take_a_while() returns trigger language plpgsql as $$ begin perform pg_sleep(0.002); return new; end $$`,
  )
  await pool.query('create trigger a_while before update on products for each row execute function take_a_while()')
  await rename(redId, 'Crimsom')
  const left = async () => (await pool.query(`select from products where category = 'Red'`)).rowCount ?? 0
  const walks = [1, 2].map(() => renameProducts(pool, NEVER))
  await eventually(async () => (await left()) < many.length, { what: 'the first batch', timeoutMs: 20_000 })
  await rename(redId, 'Crimson')
  assert.ok((await left()) > 0, 'the correction did not wait for the end of the walks')
  await Promise.all(walks)
  while (!(await renameProducts(pool, NEVER)));
  assert.deepEqual(await members(), [{ category: 'was Red', products: many.length }])
})

test('a batch is small enough to end soon, however slow the product changes are', async (t) => {
  const { pool, redId, rename } = await makeStore(t)
  const slow = Array.from({ length: 150 }, (_, index) => ({ sku: `Red ${index}`, category: 'Red' }))
  await importAll(pool, slow)
  await pool.query(
    `create or replace function take_a_while() returns trigger language plpgsql as $$ begin perform pg_sleep(0.02); return new; end $$`,
  )
  await rename(redId, 'Crimson')
  while (!(await renameProducts(pool, NEVER)));
  const { rows } = await pool.query<{ seconds: number }>(
    `select extract(epoch from max(updated_at) - min(updated_at))::float8 as seconds
    from products where category = 'Crimson' group by xmin order by min(updated_at)`,
  )
  // The first one finds out how slow they are.
  const [, ...later] = rows.map(({ seconds }) => seconds)
  assert.ok(later.length >= 3, `${later.length} batches`)
  assert.ok(Math.max(...later) < 0.8, `products were locked for ${Math.max(...later)} s`)
})

test('neither a change nor an import recreates a category from a name that was just given up', async (t) => {
  const { pool, redId, blueId, rename, members, untilChanging } = await makeStore(t)
  await createCategory({ pool }, { name: 'Green' }, AUDIT_CONTEXT)
  await rename(redId, 'Crimson')
  await rename(blueId, 'Red')
  const { rows } = await pool.query<{ id: string; sku: string }>('select id, sku from products order by sku')
  const [one, ...others] = rows
  // Products whose text is a former name first get the current name.
  const changing = changeProduct({ pool }, one?.id ?? '', null, { category: 'Green' }, AUDIT_CONTEXT)
  await untilChanging()
  await rename(redId, 'Scarlet')
  await changing
  const importing = importAll(
    pool,
    others.map(({ sku }) => ({ sku, category: 'Green' })),
  )
  await untilChanging()
  await rename(redId, 'Ruby')
  await importing
  const names = await pool.query('select name from categories order by name')
  assert.deepEqual(
    names.rows.map(({ name }) => name),
    ['Green', 'Red', 'Ruby'],
  )
  assert.deepEqual(await members(), [{ category: 'Green', products: PRODUCTS }])
})
