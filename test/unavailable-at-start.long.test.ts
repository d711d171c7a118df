import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { prepareDatabase } from '../src/app/prepare-database.ts'
import { oneRole } from '../src/db/addresses.ts'
import { startEmbeddedPostgres } from '../src/db/embedded/embedded-postgres.ts'
import { connectClient } from '../src/db/pool.ts'
import { sqlState, TOO_MANY_CONNECTIONS } from '../src/db/sql-state.ts'
import { onCleanup } from './cleanup.ts'
import { makeDataFolder } from './data-folders.ts'
import { openDeadWire } from './dead-wire.ts'
import { assertFinding, examine } from './doctor-harness.ts'
import { TEST_SECRET } from './store.ts'
import { serve } from './store-process.ts'
import { silent } from './stream-harness.ts'

const WAITS = /^the database cannot be used: .*; retried each second, for a minute at most$/

async function startServer(t: TestContext) {
  const server = await startEmbeddedPostgres(makeDataFolder(t), { settings: { fsync: 'off', max_connections: '20' } })
  onCleanup(t, () => server.stop())
  await prepareDatabase(oneRole(server.url), silent)
  return server
}

const settingsOf = (t: TestContext, url: string) => ({
  DATABASE_URL: url,
  STOREFRONT_SECRET: TEST_SECRET,
  DATA_DIR: makeDataFolder(t).path,
})

test('a server whose connections are used up: doctor names the settings, and a start waits until one is free', async (t) => {
  const { url } = await startServer(t)
  const held = new AsyncDisposableStack()
  onCleanup(t, () => held.disposeAsync())
  await assert.rejects(
    async () => {
      for (;;) held.use(await connectClient(url, 'test'))
    },
    (error) => sqlState(error) === TOO_MANY_CONNECTIONS,
  )
  const findings = await examine({ DATABASE_URL: url })
  assertFinding(findings, 'database', 'problem', /too many clients|connection slots/, /^raise max_connections, .* DATABASE_POOL_SIZE/)
  const store = await serve(t, { env: settingsOf(t, url), args: ['--role', 'api'], ready: WAITS })
  await held.disposeAsync()
  await store.untilLogged(/^Storefront answers/)
})

test('a start waits for a server that is unavailable, and ends on a signal meanwhile', async (t) => {
  const gate = await openDeadWire(t, (await startServer(t)).url)
  await gate.refuse()
  const options = { env: settingsOf(t, gate.url), args: ['--role', 'api'], ready: WAITS }
  const [store, stopped] = [await serve(t, options), await serve(t, options)]
  assert.equal(await stopped.end('SIGTERM'), 1)
  await gate.listen()
  await store.untilLogged(/^Storefront answers/)
})
