import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { makeDataFolder } from '../../test/data-folders.ts'
import { eventually } from '../../test/eventually.ts'
import { copyForStandby, startStandby } from '../../test/standby.ts'
import { startEmbeddedPostgres } from '../db/embedded/embedded-postgres.ts'
import { connectClient, connectToAny, type Queryable } from '../db/pool.ts'
import { READ_ONLY_TRANSACTION } from '../db/sql-state.ts'
import { createReplicationSlot, findStandbyReason } from './replication-slot.ts'

const SLOT = 'storefront_orders'

test('a standby can continue with the slot once its copy is complete, and cannot once the copy is invalid', async (t) => {
  const folder = makeDataFolder(t)
  const settings = { fsync: 'off', min_wal_size: '32MB', max_wal_size: '32MB' }
  const start = async () => {
    const server = await startEmbeddedPostgres(folder, { settings })
    onCleanup(t, () => server.stop())
    const db = await connectToAny(server.url, 'test')
    onCleanup(t, () => db.end())
    return { server, db }
  }
  const first = await start()
  await first.db.query(`select pg_create_physical_replication_slot('standby', true)`)
  await createReplicationSlot(first.db, SLOT)
  assert.match((await findStandbyReason(first.db, SLOT)) ?? '', /is not synchronized from a primary$/)
  await first.db.end()
  await first.server.stop()
  const copy = copyForStandby(t, folder)
  const { server, db: primary } = await start()

  const unsynced = await startStandby(t, copy, server.url, { isSlotSynced: false })
  const unready = await connectToAny(unsynced.url, 'test')
  assert.equal(await findStandbyReason(unready, SLOT), `the standby has no copy of the replication slot ${SLOT}`)
  await unready.end()
  await assert.rejects(connectClient(unsynced.url, 'test'), { code: READ_ONLY_TRANSACTION }, 'what listens or holds a lock needs a primary')
  await unsynced.stop()

  // Nothing reads the slot meanwhile, so it stays behind the standby's position, and its copy stays temporary.
  await write(primary)
  const follower = await startStandby(t, copy, server.url, { isSlotSynced: true })
  const standby = await connectToAny(follower.url, 'test')
  onCleanup(t, () => standby.end())
  const becomes = (pattern: RegExp | null) =>
    eventually(
      async () => {
        const reason = await findStandbyReason(standby, SLOT)
        if (pattern !== null) return pattern.test(reason ?? '')
        await write(primary)
        await primary.query('select pg_log_standby_snapshot()')
        await primary.query('select pg_replication_slot_advance($1, pg_current_wal_lsn())', [SLOT])
        return reason === null
      },
      { what: `the standby says ${pattern ?? 'that it is ready'}` },
    )
  await becomes(/has not caught up yet$/)
  await becomes(null)

  await primary.query(`alter system set max_slot_wal_keep_size = '1MB'`)
  await primary.query('select pg_reload_conf()')
  await eventually(async () => {
    for (let segment = 0; segment < 3; segment++) await primary.query('select pg_switch_wal(), txid_current()')
    await primary.query('checkpoint')
    const { rows } = await primary.query('select wal_status from pg_replication_slots where slot_name = $1', [SLOT])
    return rows[0].wal_status === 'lost'
  })
  await becomes(/is invalid: wal_removed$/)
})

async function write(db: Queryable): Promise<void> {
  await db.query(`select pg_logical_emit_message(true, 'filler', 'x')`)
}
