import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { eventually } from '../../test/eventually.ts'
import { insertOrders } from '../../test/stream-harness.ts'
import { makeTestFolder } from '../../test/test-folder.ts'
import { dataFolder } from '../db/embedded/data-folder.ts'
import { startEmbeddedPostgres } from '../db/embedded/embedded-postgres.ts'
import { migrate } from '../db/migrate.ts'
import { createPool } from '../db/pool.ts'
import { ensureReplicationSlot } from './ensure-slot.ts'
import { findLostReason } from './replication-slot.ts'

test('reports a lost slot after the server has removed its WAL', async (t) => {
  const directory = makeTestFolder(t)
  const server = await startEmbeddedPostgres(dataFolder(directory), {
    settings: { fsync: 'off', max_slot_wal_keep_size: '1MB', min_wal_size: '32MB', max_wal_size: '32MB' },
  })
  onCleanup(t, () => server.stop())
  await migrate(server.url)
  const pool = createPool({ url: server.url, size: 1, applicationName: 'test', onError: () => {} })
  onCleanup(t, () => pool.end())
  assert.equal(await ensureReplicationSlot(pool, server.url, 'storefront_orders'), 'created')
  await insertOrders(pool, 1)
  await eventually(async () => {
    await pool.query(`select pg_logical_emit_message(false, 'filler', repeat('x', 1000000)), pg_switch_wal()`)
    await pool.query('checkpoint')
    return (await findLostReason(pool, 'storefront_orders')) !== null
  })
  assert.match((await findLostReason(pool, 'storefront_orders')) ?? '', /has lost its WAL/)
  assert.equal(await ensureReplicationSlot(pool, server.url, 'storefront_orders'), 'lost')
  const { rows } = await pool.query('select slot_name from pg_replication_slots')
  assert.deepEqual(rows, [{ slot_name: 'storefront_orders' }])
})
