import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { createPool } from '../db/pool.ts'
import { watchWait } from './create-shedder.ts'

test('knows how long requests wait for a connection, and whether any waits', async (t) => {
  const { url } = await createTestDatabase(t)
  const pool = createPool({ url, size: 1, applicationName: 'storefront-test', onError: () => {} })
  t.after(() => pool.end())
  const waitMs = watchWait(pool)
  assert.equal(waitMs(), 0)
  const holder = await pool.connect()
  const waiting = pool.query('select 1')
  await eventually(async () => waitMs() >= 100)
  holder.release()
  await waiting
  await eventually(async () => waitMs() === 0 && pool.idleCount === 1)
})
