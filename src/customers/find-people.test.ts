import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { createPool } from '../db/pool.ts'
import { readSearchText } from '../orders/search-text.ts'
import { findPeople } from './find-people.ts'

test('compares typing errors with the newest accounts only, and finds parts of names in all accounts', async (t) => {
  const database = await createTestDatabase(t)
  const pool = createPool({ url: database.url, size: 1, applicationName: 'test', onError: () => {} })
  t.after(() => pool.end())
  await pool.query(
    `insert into users (id, email, role, password_hash, name)
    select ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 'p' || n || '@example.com', 'customer', 'none',
      case when n = 1 then 'Wilhelmina' when n = 6000 then 'Bartholomew' else 'Ann' end
    from generate_series(1, 6000) as n`,
  )
  await pool.query('vacuum analyze users')
  const find = async (q: string, isResembling: boolean) =>
    (await findPeople(pool, await readSearchText(pool, q), { isResembling, most: 10 })).map((id) => Number(id.slice(-12)))
  assert.deepEqual([await find('wilhelm', false), await find('wilhelmona', true)], [[1], []])
  assert.deepEqual([await find('bartholom', false), await find('bartolomew', true)], [[6000], [6000]])
  const countRead = async () => {
    await pool.query('select pg_stat_force_next_flush()')
    const statement = `select idx_tup_fetch + seq_tup_read as read from pg_stat_user_tables where relname = 'users'`
    return Number((await pool.query(statement)).rows[0]?.read)
  }
  const before = await countRead()
  assert.deepEqual(await find('exanple', true), [])
  const read = (await countRead()) - before
  assert.ok(read <= 5_000, `${read} accounts were read`)
})
