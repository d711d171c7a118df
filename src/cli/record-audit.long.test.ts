import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { startStore, TEST_SECRET } from '../../test/store.ts'
import { runStorefront } from '../../test/store-process.ts'

test('verify returns its result even if the database refuses the record or does not accept it in time', async (t) => {
  const store = await startStore(t, { hasSlot: true })
  const { api, stream } = store.addresses
  const env = { DATABASE_URL: api, DATABASE_STREAM_URL: stream, STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: store.config.dataDir }
  const role = new URL(api).username
  const verify = async (reason: RegExp) => {
    const { status, stdout, stderr } = await runStorefront(t, ['verify'], { env })
    assert.equal(status, 0, stderr)
    assert.match(stdout, /nothing is missing, doubled or corrupt\n$/)
    assert.match(stderr, /this run is not recorded for the console/)
    assert.match(stderr, reason)
  }
  await store.pool.query(`revoke insert on audit_runs from ${role}`)
  await verify(/permission denied for table audit_runs/)
  await store.pool.query(`grant insert on audit_runs to ${role}`)

  const client = await store.pool.connect()
  onCleanup(t, () => client.release())
  await client.query('begin')
  // A share lock gives the transaction no id. Otherwise, other sessions that create a replication slot on this server
  // would wait for it.
  await client.query('lock table audit_runs in share mode')
  await verify(/the database did not answer within 5 s/)
  await client.query('rollback')
})
