import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createTestDatabase } from '../../../test/database.ts'
import { auditContextOfCommand } from '../../activity/record-activity.ts'
import { AppError } from '../../errors.ts'
import { archiveProduct, changeProduct, createProduct, restoreProduct } from '../change-product.ts'
import { importCatalogue } from '../import/import-catalogue.ts'
import { type ImportedProduct, type ImportLine, readProduct } from '../import/imported-product.ts'
import { changeCategory, deleteCategory } from './change-tree.ts'
import { renameProducts } from './rename-products.ts'

const { pool } = await createTestDatabase({ after })
const AUDIT_CONTEXT = auditContextOfCommand('a test')
const ROUNDS = 8
let last = 0

const product = (sku: string, rest: object): ImportedProduct =>
  readProduct({ sku, name: `Mug ${++last}`, price: { amount: ++last, currency: 'EUR' }, ...rest })
async function* toLines(products: readonly ImportedProduct[]): AsyncGenerator<ImportLine> {
  for (const [index, each] of products.entries()) yield { line: index + 1, product: each }
}
const importAll = (products: readonly ImportedProduct[]) => importCatalogue(pool, toLines(products), (_, reason) => assert.fail(reason))
/** Runs `work` again and again beside others. A refusal, such as of a category that is gone, is no failure. */
const repeat = async (work: () => Promise<unknown>) => {
  for (let round = 0; round < ROUNDS; round++) {
    await work().catch((error: unknown) => {
      if (!(error instanceof AppError)) throw error
    })
  }
}
const any = <T>(items: readonly T[]) => items[Math.floor(Math.random() * items.length)] as T
const categoryIds = async (names: string) =>
  (await pool.query<{ id: string }>('select id from categories where name like $1', [names])).rows.map(({ id }) => id)

test('a change does not wait for another one that counts in the same row of `catalogue_versions`', async () => {
  await importAll([product('R', { category: 'Rows' })])
  const [one, other] = [await pool.connect(), await pool.connect()]
  try {
    await one.query('begin')
    const { rows } = await other.query<{ shard: number }>('select pg_backend_pid() % 32 as shard')
    await one.query('update catalogue_versions set changes = changes + 1 where shard = $1', [rows[0]?.shard])
    const changesOf = async () => (await one.query('select sum(changes)::int as changes from catalogue_versions')).rows[0].changes
    const before = await changesOf()
    await other.query(`set lock_timeout = '10s'`)
    await other.query(`update products set name = 'Mug of a row' where sku = 'R'`)
    await other.query(`update categories set name = 'Other rows' where name = 'Rows'`)
    assert.equal(await changesOf(), before + 2)
  } finally {
    await one.query('rollback')
    for (const client of [one, other]) client.release(true)
  }
})

test('changes, imports and the tree never deadlock, whatever categories they create, rename, move and delete', async () => {
  const skus = Array.from({ length: 8 }, (_, index) => `S${index}`)
  await importAll(skus.map((sku, index) => product(sku, { categories: [['Root 0', `Sub ${index}`], ['Root 1']] })))
  const { rows } = await pool.query<{ id: string }>('select id from products order by sku')
  const ids = rows.map(({ id }) => id)
  const change = () =>
    changeProduct({ pool }, any(ids), null, { categories: [[`Root ${++last % 2}`, `New ${last}`, `Deep ${last}`]] }, AUDIT_CONTEXT)
  const imports = (rest: () => object) => () => importAll(skus.toReversed().map((sku) => product(sku, rest())))
  const roots = await categoryIds('Root %')
  await Promise.all([
    ...[change, change, change].map(repeat),
    repeat(() => changeProduct({ pool }, any(ids), null, { category: `Text ${++last % 40}` }, AUDIT_CONTEXT)),
    repeat(imports(() => ({ categories: [[`Root ${++last % 2}`, `Imported ${last}`], [`A ${last % 50}`]] }))),
    repeat(imports(() => ({ categories: [[`Imported ${++last}`, 'X'], [`Root ${last % 2}`]] }))),
    repeat(imports(() => ({ category: `Text ${++last % 40}`, translations: { de: { name: `Becher ${last}` } } }))),
    repeat(() => createProduct({ pool }, product(`N${++last}`, { category: `Text ${last}` }), AUDIT_CONTEXT)),
    repeat(() => changeCategory({ pool }, any(roots), null, { name: `Root ${++last % 2}` }, AUDIT_CONTEXT)),
    repeat(() => changeCategory({ pool }, any(roots), null, { parent_id: any([null, ...roots]) }, AUDIT_CONTEXT)),
    repeat(async () => deleteCategory({ pool }, any(await categoryIds('%')), null, AUDIT_CONTEXT)),
    repeat(() => archiveProduct({ pool }, any(ids), null, AUDIT_CONTEXT)),
    repeat(() => restoreProduct({ pool }, any(ids), null, AUDIT_CONTEXT)),
    repeat(() => renameProducts(pool, new AbortController().signal)),
  ])
  await pool.query('select pg_stat_force_next_flush()')
  const { rows: counts } = await pool.query('select deadlocks from pg_stat_database where datname = current_database()')
  assert.deepEqual(counts, [{ deadlocks: 0 }])
})
