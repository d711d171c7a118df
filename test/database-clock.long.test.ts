import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { prepareDatabase } from '../src/app/prepare-database.ts'
import { oneRole } from '../src/db/addresses.ts'
import { eventually } from './eventually.ts'
import { createRestorableStore } from './restorable-store.ts'
import { openSteppedDatabaseOrSkip } from './stepped-database.ts'
import { TEST_SECRET } from './store.ts'
import { silent } from './stream-harness.ts'

// Idempotency keys are kept for 24 hours of the database's clock.
const HOURS = 3_600
// All of the server's processes read the clock's file again within this time.
const NOTICED_MS = 1_500

test("sessions, revocations and repeated orders work while PostgreSQL's clock is 23 h behind and ahead", async (t) => {
  const database = await openSteppedDatabaseOrSkip(t)
  if (database === null) return
  await prepareDatabase(oneRole(database.url), silent)
  const store = await createRestorableStore(t, { DATABASE_URL: database.url, STOREFRONT_SECRET: TEST_SECRET }).start()
  const account = { email: 'clock@example.com', password: 'a long enough pass phrase' }
  assert.equal((await store.call('POST', '/auth/register', { body: { ...account, name: 'Ada' } })).status, 201)
  const logIn = async () => {
    const { status, json, text } = await store.call('POST', '/auth/login', { body: account })
    assert.equal(status, 200, text)
    return { token: String(json.access_token), refresh: String(json.refresh_token) }
  }
  const isAccepted = async (token: string) => (await store.call('GET', '/orders', { token })).status === 200
  const { rows } = await store.pool.query<{ id: string }>('select id from products limit 1')
  const body = { items: [{ product_id: rows[0]?.id, quantity: 1 }] }
  let session = await logIn()
  const keys: { key: string; order: string }[] = []
  const ended: string[] = []
  for (const seconds of [0, 23 * HOURS, 0, -23 * HOURS, 0]) {
    database.stepTo(seconds)
    await eventually(async () => {
      const { rows } = await store.pool.query<{ seconds: number }>('select extract(epoch from clock_timestamp())::float8 as seconds')
      return Math.abs((rows[0]?.seconds ?? 0) - Date.now() / 1_000 - seconds) < 30
    })
    await pause(NOTICED_MS)
    const when = `at ${seconds / HOURS} h`
    assert.ok(await isAccepted(session.token), `a former session works ${when}`)
    for (const token of ended) assert.equal(await isAccepted(token), false, `an ended session stays ended ${when}`)
    const renewed = await store.call('POST', '/auth/refresh', { body: { refresh_token: session.refresh } })
    assert.equal(renewed.status, 200, `${when}: ${renewed.text}`)
    session = { token: String(renewed.json.access_token), refresh: String(renewed.json.refresh_token) }
    const other = await logIn()
    assert.ok(await isAccepted(other.token), `a new session works ${when}`)
    assert.equal((await store.call('POST', '/auth/logout', { token: other.token })).status, 204)
    ended.push(other.token)
    assert.equal(await isAccepted(other.token), false)
    const key = randomUUID()
    const headers = (value: string) => ({ 'idempotency-key': value })
    const placed = await store.call('POST', '/orders', { token: session.token, body, headers: headers(key) })
    assert.equal(placed.status, 201, `${when}: ${placed.text}`)
    keys.push({ key, order: placed.json.id })
    for (const earlier of keys) {
      const again = await store.call('POST', '/orders', { token: session.token, body, headers: headers(earlier.key) })
      assert.deepEqual([again.status, again.json.id], [201, earlier.order], `the same order again ${when}`)
    }
  }
  database.stepTo(0)
  await store.untilDelivered()
  assert.deepEqual((await store.verify()).findings, [])
  await store.stop()
})
