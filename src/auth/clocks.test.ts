import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pino from 'pino'
import { eventually } from '../../test/eventually.ts'
import { makeCopies } from '../../test/fresh-copies.ts'
import { assertProblem } from '../../test/problem.ts'
import { startStore, type TestStore } from '../../test/store.ts'
import { deleteExpired } from './delete-expired.ts'
import { REMEMBER_SECONDS, Revocations } from './tokens/revocations.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

/** A clock that a test can step. */
class SteppedClock {
  aheadMs = 0
  readonly now = () => new Date(Date.now() + this.aheadMs)
}

const statusOf = async ({ call }: TestStore, token: string) => (await call('GET', '/me', { token })).status

test('tokens from a clock minutes ahead stay valid when it moves back, and those from hours ahead do not, cached or not', async (t) => {
  const clock = new SteppedClock()
  const store = await startStore(t, { now: clock.now })
  clock.aheadMs = 4 * MINUTE_MS
  const ada = await store.register()
  clock.aheadMs = 2 * HOUR_MS
  const [bob, eve] = [await store.register(), await store.register()]
  assert.equal(await statusOf(store, bob.token), 200)
  clock.aheadMs = 0
  assert.equal(await statusOf(store, ada.token), 200)
  assertProblem(await bob.call('GET', '/me'), 401, 'invalid_token', 'remembered')
  assertProblem(await eve.call('GET', '/me'), 401, 'invalid_token', 'never seen')
  const refreshed = await store.call('POST', '/auth/refresh', { body: { refresh_token: bob.refreshToken } })
  assert.equal(refreshed.status, 200, 'the session continues')
  assert.equal(await statusOf(store, refreshed.json.access_token), 200)
})

test('a logout under a clock two hours ahead is remembered until its tokens have expired by any clock', async (t) => {
  const clock = new SteppedClock()
  const store = await startStore(t, { now: clock.now })
  clock.aheadMs = 2 * HOUR_MS
  const ada = await store.register()
  clock.aheadMs = 0
  const refreshed = await store.call('POST', '/auth/refresh', { body: { refresh_token: ada.refreshToken } })
  await store.ok('POST', '/auth/logout', { token: refreshed.json.access_token })

  await store.pool.query(`update session_revocations set revoked_at = now() - interval '1 hour'`)
  await deleteExpired(store.pool)
  const { rows } = await store.pool.query(`select extract(epoch from last_issued_at - now()) / 60 as minutes from session_revocations`)
  assert.ok(rows[0]?.minutes > 110, 'it is kept by the newest token, not by the last one')
  clock.aheadMs = 2 * HOUR_MS
  assertProblem(await ada.call('GET', '/me'), 401, 'invalid_token')

  await store.pool.query(`update session_revocations set last_issued_at = now() - interval '1 hour'`)
  await deleteExpired(store.pool)
  assert.equal((await store.pool.query('select from session_revocations')).rowCount, 0)
})

/** The revocation list without a server, and a count of its queries. */
async function startRevocations(t: TestContext, clock: SteppedClock) {
  const store = await startStore(t)
  const counted = { questions: 0 }
  const lines: string[] = []
  const logger = pino({}, { write: (line: string) => void lines.push(JSON.parse(line).msg) })
  const { copies } = makeCopies(t, store, { logger })
  const revocations = new Revocations({
    copies,
    pool: {
      query: ((...args: Parameters<typeof store.pool.query>) => {
        counted.questions++
        return store.pool.query(...args)
      }) as never,
    },
    logger,
    now: clock.now,
  })
  await copies.start()
  const sessionOf = async (userId: string): Promise<string> =>
    (await store.pool.query('select id from sessions where user_id = $1', [userId])).rows[0].id
  return { store, revocations, counted, lines, sessionOf }
}

test("forgets a revocation in memory only after its time in memory and the expiry of its session's tokens", async (t) => {
  const clock = new SteppedClock()
  const { store, revocations, sessionOf } = await startRevocations(t, clock)
  const [early, late] = [await sessionOf((await store.register()).id), await sessionOf((await store.register()).id)]
  await store.pool.query(`update sessions set last_used_at = now() + interval '2 hours' where id = $1`, [late])
  await store.pool.query('update sessions set revoked_at = now()')
  for (const id of [early, late]) await eventually(() => revocations.isRevoked(id))

  // From here on only memory counts: the table no longer has the rows that the process knows.
  await store.pool.query('delete from session_revocations')
  await store.pool.query('update sessions set revoked_at = null')
  const later = performance.now() + (REMEMBER_SECONDS + 60) * 1000
  const passed = t.mock.method(performance, 'now', () => later)
  clock.aheadMs = (REMEMBER_SECONDS + 60) * 1000
  const isForgotten = async (id: string) => !(await revocations.isRevoked(id))
  await eventually(() => isForgotten(early), { what: 'the revocation of a token of the right clock to be forgotten' })
  assert.equal(await revocations.isRevoked(late), true, 'its token is accepted in two hours')
  passed.mock.restore()
})

test("queries each session while its clock and the database's clock differ by more than the tolerance of tokens", async (t) => {
  const clock = new SteppedClock()
  const { store, revocations, counted, lines, sessionOf } = await startRevocations(t, clock)
  const ada = await sessionOf((await store.register()).id)
  const doesAsk = async () => {
    const before = counted.questions
    assert.equal(await revocations.isRevoked(ada), false)
    return counted.questions > before
  }
  for (const aheadMs of [-2 * HOUR_MS, 2 * HOUR_MS]) {
    await eventually(async () => !(await doesAsk()), { what: 'to rely on the news' })
    clock.aheadMs = aheadMs
    await eventually(doesAsk, { what: 'to ask' })
    for (let i = 0; i < 3; i++) assert.equal(await doesAsk(), true)
    clock.aheadMs = 0
  }
  await eventually(async () => !(await doesAsk()), { what: 'to rely on the news again' })
  const [warning] = lines
  assert.match(warning ?? '', /^the clocks of this process and of the database differ/)
  assert.ok(lines.length <= 4, lines.join())
})
