import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { createTestDatabase } from '../../test/database.ts'
import { isDatabaseOutage, isTimeout } from './failures.ts'
import { createPool, type PoolOptions } from './pool.ts'
import { COMMAND_BOUNDS, SERVING_BOUNDS } from './session-settings.ts'

function openPool(t: TestContext, options: Pick<PoolOptions, 'url'> & Partial<PoolOptions>) {
  const pool = createPool({ size: 1, applicationName: 'test', onError: () => {}, ...options })
  onCleanup(t, () => pool.end())
  const read = async (...names: string[]) =>
    Promise.all(
      names.map(async (name) => (await pool.query<{ value: string }>('select current_setting($1) as value', [name])).rows[0]?.value),
    )
  return { pool, read }
}

const BOUNDS = ['lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout']

test("sets every session's timeouts, and switches off the compilation of plans", async (t) => {
  const db = await createTestDatabase(t)
  await db.pool.query(`alter database ${db.name} set jit = on`)
  const { read } = openPool(t, { url: db.url })
  assert.deepEqual(await read(...BOUNDS), ['5s', '30s', '5s', '1min'])
  assert.deepEqual(await read('jit', 'tcp_user_timeout'), ['off', '30000'])
  assert.deepEqual(await openPool(t, { url: db.url, bounds: COMMAND_BOUNDS }).read(...BOUNDS), ['1min', '6h', '1h', '1d'])
})

test("uses its own timeouts even if the database's are shorter or longer", async (t) => {
  const db = await createTestDatabase(t)
  await db.pool.query(`alter database ${db.name} set statement_timeout = '1ms'`)
  await db.pool.query(`alter database ${db.name} set lock_timeout = '10min'`)
  assert.deepEqual(await openPool(t, { url: db.url }).read('statement_timeout', 'lock_timeout'), ['30s', '5s'])
})

test("ends a paused process's transaction and its locks, which counts as an outage", async (t) => {
  const db = await createTestDatabase(t)
  await db.pool.query('create table held as select 1 as id')
  const { pool } = openPool(t, { url: db.url, bounds: { ...SERVING_BOUNDS, idle_in_transaction_session: 50 } })
  const paused = await pool.connect()
  const ended = new Promise((resolve) => paused.once('end', resolve))
  await paused.query('begin; update held set id = 2')
  // This update waits for the lock.
  assert.equal((await db.pool.query('update held set id = 3')).rowCount, 1)
  await ended
  await assert.rejects(paused.query('commit'), (error) => isDatabaseOutage(error))
  paused.release(true)
  assert.ok(isDatabaseOutage({ code: '25P03' }))
})

test("distinguishes a statement's timeout from a fault", async (t) => {
  const db = await createTestDatabase(t)
  const { pool } = openPool(t, { url: db.url, bounds: { ...SERVING_BOUNDS, statement: 200 } })
  await assert.rejects(pool.query('select pg_sleep(60)'), (error) => isTimeout(error) && !isDatabaseOutage(error))
})
