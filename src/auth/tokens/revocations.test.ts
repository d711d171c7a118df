import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import pino from 'pino'
import { eventually, promptly, stopClock } from '../../../test/eventually.ts'
import { makeCopies } from '../../../test/fresh-copies.ts'
import { startSecondProcess, startStore, type TestStore } from '../../../test/store.ts'
import { Revocations } from './revocations.ts'

const A_SECOND = { withinMs: 1_000, what: 'the refusal in the other process' }
const isAccepted = async (call: TestStore['call'], token: string) => (await call('GET', '/me', { token })).status === 200

test('a logout ends the session here at once and in another process within a second', async (t) => {
  const store = await startStore(t)
  const other = await startSecondProcess(t, store)
  const ada = await store.register()
  const phone = await store.ok('POST', '/auth/login', { body: { email: ada.email, password: ada.password } })
  for (const { call } of [store, other]) assert.ok(await isAccepted(call, ada.token))

  const answer = await ada.call('POST', '/auth/logout')
  assert.deepEqual([answer.status, answer.text], [204, ''])
  assert.ok(!(await isAccepted(store.call, ada.token)))
  await promptly(store.pool, async () => !(await isAccepted(other.call, ada.token)), A_SECOND)
  assert.equal((await ada.call('POST', '/auth/logout')).status, 401, 'twice')
  assert.equal((await other.call('POST', '/auth/refresh', { body: { refresh_token: ada.refreshToken } })).status, 401)
  for (const { call } of [store, other]) assert.ok(await isAccepted(call, phone.access_token), 'another session of the user lives on')
})

test('refuses sessions that SQL has revoked, deleted with or without their user, or given another role', async (t) => {
  const store = await startStore(t)
  const statements = [
    'update sessions set revoked_at = now() where user_id = $1',
    'delete from sessions where user_id = $1',
    'delete from users where id = $1',
    `update users set role = 'admin' where id = $1`,
  ]
  for (const statement of statements) {
    const [ada, bob] = [await store.register(), await store.register()]
    for (const { token } of [ada, bob]) assert.ok(await isAccepted(store.call, token))
    await store.pool.query(statement, [ada.id])
    await promptly(store.pool, async () => !(await isAccepted(store.call, ada.token)), { ...A_SECOND, what: statement })
    assert.ok(await isAccepted(store.call, bob.token))
  }
})

test('sends no query for a known token', async (t) => {
  const store = await startStore(t)
  const ada = await store.register()
  const startClock = stopClock(t)
  assert.ok(await isAccepted(store.call, ada.token))
  // A query of the session would fail now. The 422 comes from the body, which is read after the token check.
  await store.pool.query('alter table sessions rename to sessions_elsewhere')
  const answer = await ada.call('POST', '/orders', { body: {} })
  assert.equal(answer.status, 422, answer.text)
  startClock()
  await store.pool.query('alter table sessions_elsewhere rename to sessions')
})

/** The revocation list without a server, and the sessions that it queries. */
async function startRevocations(t: TestContext) {
  const store = await startStore(t)
  const asked: string[] = []
  const logger = pino({ level: 'silent' })
  const { copies, gate, cut } = makeCopies(t, store)
  const revocations = new Revocations({
    copies,
    pool: {
      query: ((text: string, values: string[]) => {
        asked.push(values[0] ?? '')
        return store.pool.query(text, values)
      }) as never,
    },
    logger,
    now: () => new Date(),
  })
  const sessionOf = async (userId: string): Promise<string> => {
    const { rows } = await store.pool.query('select id from sessions where user_id = $1', [userId])
    return rows[0].id
  }
  return { store, copies, gate, asked, revocations, cut, sessionOf }
}

test('queries the database for each request once its copy is a second old, and stops when the copy is fresh again', async (t) => {
  const { store, copies, gate, asked, revocations, cut, sessionOf } = await startRevocations(t)
  const [ada, bob] = [await sessionOf((await store.register()).id), await sessionOf((await store.register()).id)]
  assert.equal(await revocations.isRevoked(ada), false)
  assert.deepEqual(asked, [ada], 'before start it asks')
  const startClock = stopClock(t)
  await copies.start()
  assert.equal(await revocations.isRevoked(ada), false)
  assert.deepEqual(asked, [ada], 'with the news it does not')
  startClock()

  gate.isOpen = false
  await cut()
  await store.pool.query('update sessions set revoked_at = now() where id = $1', [ada])
  await promptly(store.pool, async () => revocations.isRevoked(ada), { withinMs: 1_200, what: 'the refusal without news' })
  assert.equal(await revocations.isRevoked(bob), false)
  assert.ok(asked.includes(bob), 'it asked')

  gate.isOpen = true
  await eventually(async () => {
    const before = asked.length
    await revocations.isRevoked(bob)
    return asked.length === before
  })
  const before = asked.length
  assert.equal(await revocations.isRevoked(ada), true, 'what ended meanwhile is known')
  assert.equal(asked.length, before)
})

test('misses no session whose revocation commits after a later one', async (t) => {
  const { store, copies, revocations, sessionOf } = await startRevocations(t)
  await copies.start()
  const slow = await store.pool.connect()
  const [early, late] = [await sessionOf((await store.register()).id), await sessionOf((await store.register()).id)]
  await slow.query('begin')
  await slow.query('update sessions set revoked_at = now() where id = $1', [early])
  await store.pool.query('update sessions set revoked_at = now() where id = $1', [late])
  await promptly(store.pool, async () => revocations.isRevoked(late), A_SECOND)
  assert.equal(await revocations.isRevoked(early), false)
  await slow.query('commit')
  slow.release()
  await promptly(store.pool, async () => revocations.isRevoked(early), A_SECOND)
})
