import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertSession } from '../src/db/assert-suitable.ts'
import { connectClient, connectToAny } from '../src/db/pool.ts'
import { onCleanup } from './cleanup.ts'
import { makeDataFolder } from './data-folders.ts'
import { createTestDatabase } from './database.ts'
import { assertFinding, examine } from './doctor-harness.ts'
import { pgbouncerMissing, startPgbouncer } from './pgbouncer.ts'
import { TEST_SECRET } from './store.ts'
import { runStorefront, serve } from './store-process.ts'

for (const mode of ['transaction', 'statement'] as const) {
  test(`PgBouncer in the mode ${mode} is refused by a start, a command and doctor, whatever jit is`, {
    skip: pgbouncerMissing,
  }, async (t) => {
    const db = await createTestDatabase(t)
    // The setting's value cannot show that the sessions are not its own.
    await db.pool.query(`alter database ${db.name} set jit = off`)
    const { api, stream, owner } = db.addresses
    const pooled = await startPgbouncer(t, api, mode)
    const env = { DATABASE_URL: pooled, DATABASE_STREAM_URL: stream, DATABASE_OWNER_URL: owner }
    const settings = { env: { ...env, STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: makeDataFolder(t).path } }
    const refusal =
      /^storefront: a pooler lends .* set pool_mode = session in the pooler, or set DATABASE_URL to the address of PostgreSQL itself\n$/
    for (const args of [['serve'], ['migrate'], ['verify'], ['catalogue', 'export']]) {
      const { status, stderr } = await runStorefront(t, args, settings)
      assert.match(stderr, refusal, args.join(' '))
      assert.notEqual(status, 0)
    }
    // Its parts look at once, each with sessions that take those of the others.
    const found = /^a pooler lends the store a connection .* for each transaction/
    for (let time = 0; time < 20; time++) assertFinding(await examine(env), 'database', 'problem', found, /^set pool_mode = session/)

    const through = { ...env, DATABASE_URL: api, DATABASE_STREAM_URL: await startPgbouncer(t, stream, mode) }
    assertFinding(await examine(through), 'stream role', 'problem', /^a pooler lends/, /^set pool_mode = session .* DATABASE_STREAM_URL/)
  })
}

test('PgBouncer in the mode transaction is recognised while others use it', { skip: pgbouncerMissing }, async (t) => {
  const db = await createTestDatabase(t)
  const pooled = await startPgbouncer(t, db.addresses.api, 'transaction')
  const open = () => connectToAny(pooled, 'test')
  const stopping = new AbortController()
  const others = Array.from({ length: 4 }, async () => {
    await using other = await open()
    while (!stopping.signal.aborted) await other.query('select count(*) from generate_series(1, 1000)')
  })
  onCleanup(t, async () => {
    stopping.abort()
    await Promise.all(others)
  })
  const assertRefused = async () => {
    await using session = await open()
    await assert.rejects(assertSession(session, 'DATABASE_URL', open), /a pooler lends/)
  }
  // Sessions that ask in step take each other's connections.
  for (const together of [1, 2, 3]) for (let time = 0; time < 20; time++) await Promise.all(Array.from({ length: together }, assertRefused))
})

test('a session of its own is known by its socket, without any other connection', async (t) => {
  const db = await createTestDatabase(t)
  await using session = await connectClient(db.addresses.api, 'test')
  await assertSession(session, 'DATABASE_URL', () => assert.fail('another connection'))
})

test('PgBouncer in the mode session serves a store', { skip: pgbouncerMissing }, async (t) => {
  const db = await createTestDatabase(t)
  const { api, stream, owner } = db.addresses
  const env = { DATABASE_URL: await startPgbouncer(t, api, 'session'), DATABASE_STREAM_URL: stream, DATABASE_OWNER_URL: owner }
  const store = await serve(t, {
    args: ['--role', 'api'],
    env: { ...env, STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: makeDataFolder(t).path },
  })
  assert.equal((await fetch(`${store.url}/readyz`)).status, 200)
  assertFinding(await examine(env), 'database', 'ok', /^PostgreSQL/)
})

test('a role for which no trigger runs is refused by a start and by doctor', async (t) => {
  const db = await createTestDatabase(t)
  const { api, stream, owner } = db.addresses
  await db.pool.query(`alter database ${db.name} set session_replication_role = replica`)
  const env = { DATABASE_URL: api, DATABASE_STREAM_URL: stream, DATABASE_OWNER_URL: owner }
  const settings = { env: { ...env, STOREFRONT_SECRET: TEST_SECRET, DATA_DIR: makeDataFolder(t).path } }
  const { stderr } = await runStorefront(t, ['serve'], settings)
  assert.match(
    stderr,
    /^storefront: session_replication_role is replica for the role \w+, so no trigger of the store runs: run "alter role/,
  )
  assertFinding(
    await examine(env),
    'database',
    'problem',
    /^session_replication_role is replica/,
    /^run "alter role \w+ in database \w+ set session_replication_role = origin"/,
  )
})
