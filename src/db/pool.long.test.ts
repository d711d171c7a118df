import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { openDeadWire } from '../../test/dead-wire.ts'
import { eventually } from '../../test/eventually.ts'
import { isDatabaseOutage } from './failures.ts'
import { createPool } from './pool.ts'
import { SERVING_BOUNDS } from './session-settings.ts'
import { inTransaction } from './transaction.ts'

/** A pool of two connections over a wire that can stop forwarding without closing anything. */
async function openPool(t: TestContext) {
  const { url } = await createTestDatabase(t)
  const wire = await openDeadWire(t, url)
  const bounds = { ...SERVING_BOUNDS, statement: 1_000 }
  const pool = createPool({ url: wire.url, size: 2, applicationName: 'storefront-test', onError: () => {}, bounds })
  t.after(() => pool.end())
  return { pool, wire }
}

const isOutage = (error: unknown) => {
  assert.ok(isDatabaseOutage(error), String(error))
  return true
}

test('gives up used connections without any traffic, and works with new ones', async (t) => {
  const { pool, wire } = await openPool(t)
  const holder = await pool.connect()
  await pool.query('select 1')
  wire.die()
  const work = [
    assert.rejects(
      holder.query('select 2').finally(() => holder.release(true)),
      isOutage,
    ),
    assert.rejects(
      inTransaction(pool, (tx) => tx.query('select 3')),
      isOutage,
    ),
    // This query finds no free connection.
    assert.rejects(pool.query('select 4'), isOutage),
  ]
  await Promise.all(work)
  // The server accepts the connection and does not answer.
  await assert.rejects(pool.query('select 5'), isOutage)
  wire.recover()
  await eventually(async () => (await pool.query('select 6 as six').catch(() => null))?.rows[0]?.six === 6)
  assert.ok(pool.totalCount <= 2)
})

test('closes no idle connection, and ends no statement that the server still allows', async (t) => {
  const { pool } = await openPool(t)
  const { rows: before } = await pool.query('select pg_backend_pid() as pid')
  await pool.query('select pg_sleep(0.8)')
  await new Promise((resolve) => setTimeout(resolve, 1_800))
  const { rows: after } = await pool.query('select pg_backend_pid() as pid')
  assert.deepEqual(after, before)
  await assert.rejects(pool.query('select pg_sleep(1.3)'), { code: '57014' })
})
