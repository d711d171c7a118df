import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { createPool, type Queryable } from '../db/pool.ts'
import { inSnapshot } from './catalogue-version.ts'

const addProduct = (sku: string) => ({
  text: `insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
    values (gen_random_uuid(), $1, 'A lamp', 'lamps', 100, 'EUR', true)`,
  values: [sku],
})
const readSettings = async (db: Queryable) => {
  const { rows } =
    await db.query(`select current_setting('transaction_isolation') as isolation, current_setting('transaction_read_only') as "isReadOnly",
    current_setting('statement_timeout') as timeout`)
  return rows[0]
}
const countProducts = async (db: Queryable) => (await db.query('select count(*) as products from products')).rows[0].products

test('every statement of a read sees the products of the version that the read returns', async (t) => {
  const { pool } = await createTestDatabase(t)
  const first = await inSnapshot(pool, countProducts)
  const second = await inSnapshot(pool, async (tx) => {
    const before = await countProducts(tx)
    await pool.query(addProduct('LAMP-1'))
    return [before, await countProducts(tx)]
  })
  assert.deepEqual(second, { found: [first.found, first.found], version: first.version })
  const third = await inSnapshot(pool, countProducts)
  assert.equal(third.found, first.found + 1)
  assert.ok(third.version.changes > first.version.changes)
  assert.ok(third.version.changedAt > first.version.changedAt)
})

test("the first statement of a read already has the snapshot's timeout, and the session has its own timeout afterwards", async (t) => {
  const { pool } = await createTestDatabase(t)
  const own = await readSettings(pool)
  const { found } = await inSnapshot(pool, readSettings)
  assert.deepEqual(found, { isolation: 'repeatable read', isReadOnly: 'on', timeout: '2s' })
  assert.deepEqual(await readSettings(pool), own)
  assert.notDeepEqual(own, found)
})

test('if a snapshot cannot begin, the caller gets that error after the read has ended', async (t) => {
  const { pool } = await createTestDatabase(t)
  await pool.query('alter table catalogue_versions rename to elsewhere')
  let hasEnded = false
  const read = async (tx: Queryable) => {
    await tx.query('select 1').catch(() => {})
    await tx.query('select 2').catch(() => {})
    hasEnded = true
  }
  await assert.rejects(inSnapshot(pool, read), { code: '42P01' })
  assert.ok(hasEnded)
  await pool.query('alter table elsewhere rename to catalogue_versions')
  assert.ok((await inSnapshot(pool, countProducts)).version.changes >= 0)
})

test('a failed read returns its connection without an open transaction', async (t) => {
  const { url } = await createTestDatabase(t)
  const pool = createPool({ url, size: 1, applicationName: 'test', onError: () => {} })
  t.after(() => pool.end())
  await assert.rejects(
    inSnapshot(pool, (tx) => tx.query('select 1 / 0')),
    { code: '22012' },
  )
  const changed = new Error('changed my mind')
  await assert.rejects(
    inSnapshot(pool, async () => {
      throw changed
    }),
    (error) => error === changed,
  )
  await pool.query(addProduct('LAMP-1'))
  assert.equal((await inSnapshot(pool, countProducts)).found, 1)
})
