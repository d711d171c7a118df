import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { onCleanup } from '../../test/cleanup.ts'
import { createTestDatabase, type TestDatabase } from '../../test/database.ts'
import { collectLog } from '../../test/logs.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { createPool } from './pool.ts'
import { findMisconfiguredSettings, findOverriddenSettings } from './server-settings.ts'

async function findIn(t: TestContext, { name, url, pool: admin }: TestDatabase, settings: Record<string, string>, connections = 10) {
  for (const [setting, value] of Object.entries(settings)) await admin.query(`alter database ${name} set ${setting} = '${value}'`)
  const pool = createPool({ url, size: 1, applicationName: 'test', onError: () => {} })
  onCleanup(t, () => pool.end())
  const found = await findMisconfiguredSettings(pool, { connections, replicates: true })
  return { pool, settings: found.map(({ setting }) => setting).sort(), found }
}

test('finds no fault in a suitable server, even if its sessions have other settings', async (t) => {
  const set = { jit: 'on', statement_timeout: '900ms', lock_timeout: '2s', synchronous_commit: 'off', idle_session_timeout: '10min' }
  const { settings, pool } = await findIn(t, await createTestDatabase(t), set)
  assert.deepEqual(settings, ['fsync'], 'which is off on the server of the tests')
  const overridden = await findOverriddenSettings(pool)
  assert.deepEqual(
    overridden.map(({ setting, value, origin }) => [setting, value, origin]),
    [
      ['idle_session_timeout', '600000 ms', 'database'],
      ['lock_timeout', '2000 ms', 'database'],
      ['statement_timeout', '900 ms', 'database'],
      ['synchronous_commit', 'off', 'database'],
    ],
    'jit is on by default',
  )
})

test('reports settings that no session can override, with value and remedy', async (t) => {
  const { found } = await findIn(t, await createTestDatabase(t), {}, 100_000)
  assert.deepEqual(
    found.map(({ setting, value }) => [setting, value]),
    [
      ['fsync', 'off'],
      ['max_connections', found.find(({ setting }) => setting === 'max_connections')?.value],
    ],
  )
  for (const { remedy } of found) assert.match(remedy, /set it|raise it/)
})

test('warns once at the start, with the remedy', async (t) => {
  const store = await startStore(t)
  const { logger, entries: lines } = collectLog<{ level: number; msg: string; setting?: string }>('warn')
  const second = await startSecondProcess(t, store, { logger })
  await second.ok('GET', '/products')
  const warned = lines.filter(({ setting }) => setting !== undefined)
  assert.deepEqual(
    warned.map(({ setting, msg }) => [setting, /set it to on/.test(msg)]),
    [['fsync', true]],
    'the server of the tests does not wait for its disk',
  )
})
