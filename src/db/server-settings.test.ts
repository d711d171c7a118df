import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pino from 'pino'
import { onCleanup } from '../../test/cleanup.ts'
import { createTestDatabase, type TestDatabase } from '../../test/database.ts'
import { startSecondProcess, startStore } from '../../test/store.ts'
import { createPool } from './pool.ts'
import { findMisconfiguredSettings } from './server-settings.ts'

async function findIn(t: TestContext, { name, url, pool: admin }: TestDatabase, settings: Record<string, string>, connections = 10) {
  for (const [setting, value] of Object.entries(settings)) await admin.query(`alter database ${name} set ${setting} = '${value}'`)
  const pool = createPool({ url, size: 1, applicationName: 'test', onError: () => {} })
  onCleanup(t, () => pool.end())
  const found = await findMisconfiguredSettings(pool, { connections, replicates: true })
  return { pool, settings: found.map(({ setting }) => setting).sort(), found }
}

test('finds no fault in a suitable server, also where it would compile plans', async (t) => {
  const { found } = await findIn(t, await createTestDatabase(t), { jit: 'on', statement_timeout: '10s', lock_timeout: '2s' })
  assert.deepEqual(found, [])
})

test('reports each unsuitable setting with its value and the remedy', async (t) => {
  const trouble = { synchronous_commit: 'off', statement_timeout: '900ms', lock_timeout: '50ms', idle_session_timeout: '10min' }
  const { found, settings } = await findIn(t, await createTestDatabase(t), trouble, 100_000)
  assert.deepEqual(settings, [...Object.keys(trouble), 'max_connections'].sort())
  assert.deepEqual(found.find(({ setting }) => setting === 'statement_timeout')?.value, '900ms')
  for (const { remedy } of found) assert.match(remedy, /set it|raise it/)
})

test('reports that a pooler loses the settings of a session', async (t) => {
  const { pool } = await findIn(t, await createTestDatabase(t), { jit: 'on' })
  // As if the next statement ran in another session.
  await pool.query('reset all')
  const [forgotten] = await findMisconfiguredSettings(pool, { connections: 10, replicates: false })
  assert.equal(forgotten?.setting, 'jit')
  assert.match(forgotten?.remedy ?? '', /session mode/)
})

test('warns once at the start, with the remedy', async (t) => {
  const store = await startStore(t)
  const lines: { level: number; msg: string; setting?: string }[] = []
  const logger = pino({ level: 'warn' }, { write: (line) => void lines.push(JSON.parse(line)) })
  await store.pool.query(`alter database ${new URL(store.url).pathname.slice(1)} set synchronous_commit = off`)
  const second = await startSecondProcess(t, store, { logger })
  assert.equal((await second.call('GET', '/products')).status, 200)
  const warned = lines.filter(({ setting }) => setting !== undefined)
  assert.deepEqual(
    warned.map(({ setting, msg }) => [setting, /set it to on/.test(msg)]),
    [['synchronous_commit', true]],
  )
})
