import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { connectClient } from './pool.ts'
import { withSessionSettings } from './session-settings.ts'

const OURS = { wal_sender_timeout: '8s', timezone: 'UTC' }

async function readSettings(url: string): Promise<Record<string, string>> {
  const client = await connectClient(url, 'test')
  try {
    const { rows } = await client.query(
      `select name, current_setting(name) as value
      from unnest('{wal_sender_timeout,TimeZone,statement_timeout,search_path}'::text[]) as name`,
    )
    return Object.fromEntries(rows.map(({ name, value }) => [name, value]))
  } finally {
    await client.end()
  }
}

test('keeps the settings of the address and puts its own behind them', async (t) => {
  const { url } = await createTestDatabase(t)
  const own = { wal_sender_timeout: '8s', TimeZone: 'UTC' }
  assert.deepEqual(await readSettings(withSessionSettings(url, OURS)), {
    ...own,
    statement_timeout: '0',
    search_path: '"$user", public',
  })
  const options = '-c statement_timeout=61s -c wal_sender_timeout=1min --timezone=Asia/Kolkata -c search_path=public,\\ pg_catalog'
  for (const text of [encodeURIComponent(options), new URLSearchParams({ options }).toString().slice('options='.length)]) {
    const address = `${url}?keepalives=1&options=${text}`
    assert.deepEqual(
      await readSettings(address),
      { wal_sender_timeout: '1min', TimeZone: 'Asia/Kolkata', statement_timeout: '61s', search_path: 'public, pg_catalog' },
      'what the address says by itself',
    )
    assert.deepEqual(await readSettings(withSessionSettings(address, OURS)), {
      ...own,
      statement_timeout: '61s',
      search_path: 'public, pg_catalog',
    })
  }
})

test('leaves the rest of an address as it is', () => {
  const address = 'postgres://us%40er:p%2Fa%25ss@127.0.0.1:5433/a%20b?host=%2Frun%2Fmy%20folder&sslmode=disable'
  const changed = new URL(withSessionSettings(address, OURS))
  assert.equal(changed.searchParams.get('options'), '-c wal_sender_timeout=8s -c timezone=UTC')
  changed.searchParams.delete('options')
  assert.equal(changed.searchParams.get('host'), '/run/my folder')
  assert.deepEqual([changed.username, changed.password, changed.pathname], ['us%40er', 'p%2Fa%25ss', '/a%20b'])
})
