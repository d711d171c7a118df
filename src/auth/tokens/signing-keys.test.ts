import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLocalJWKSet, jwtVerify } from 'jose'
import pino from 'pino'
import { eventually, promptly } from '../../../test/eventually.ts'
import { makeCopies } from '../../../test/fresh-copies.ts'
import { collectLog } from '../../../test/logs.ts'
import { assertProblem } from '../../../test/problem.ts'
import { type Account, startSecondProcess, startStore, TEST_SECRET, type TestStore } from '../../../test/store.ts'
import { KeyRing } from './key-ring.ts'
import { loadSigningKeys, rotateSigningKeys } from './signing-keys.ts'

const kidOf = (token: string): string => JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()).kid
const keyIds = async (call: TestStore['call']): Promise<string[]> =>
  (await call('GET', '/.well-known/jwks.json')).json.keys.map(({ kid }: { kid: string }) => kid)
const refresh = async (call: TestStore['call'], account: Account): Promise<string> =>
  (await call('POST', '/auth/login', { body: { email: account.email, password: account.password } })).json.access_token

/** Ends the time in which a new key is published but does not sign yet. */
const endPublishing = (store: TestStore, oldId: string | undefined, newId: string) =>
  store.pool.query(
    `update signing_keys
    set signs_from = case when id = $2 then now() else signs_from end, retired_at = case when id = $1 then now() else retired_at end
    where id in ($1, $2)`,
    [oldId, newId],
  )

test('running processes publish a rotated key, which signs once every client has it; tokens of the old key stay valid', async (t) => {
  const store = await startStore(t)
  const other = await startSecondProcess(t, store)
  const ada = await store.register()
  const [oldId] = await keyIds(store.call)
  const { id: newId, signsFrom } = await rotateSigningKeys(store.pool, TEST_SECRET)
  assert.notEqual(newId, oldId)
  const waitMs = signsFrom.getTime() - Date.now()
  assert.ok(waitMs > 300_000 && waitMs <= 360_000, 'the max-age of the JWKS, and some seconds for processes to take the key up')

  for (const { call } of [store, other]) {
    const isPublished = async () => (await keyIds(call)).join() === [newId, oldId].join()
    await promptly(store.pool, isPublished, { withinMs: 5_000, what: 'the new key in the JWKS' })
    assert.equal(kidOf(await refresh(call, ada)), oldId, 'not yet')
  }
  assert.equal((await loadSigningKeys(store.pool, TEST_SECRET)).current.id, oldId, 'nor in a process that starts now')

  await endPublishing(store, oldId, newId)
  await promptly(store.pool, async () => kidOf(await refresh(store.call, ada)) === newId, { withinMs: 5_000, what: 'the new key here' })
  const token = await refresh(store.call, ada)
  for (const { call } of [store, other]) {
    assert.equal((await call('GET', '/me', { token })).status, 200, 'signed with the new key')
    assert.equal((await call('GET', '/me', { token: ada.token })).status, 200, 'signed with the old key')
    assert.deepEqual(await keyIds(call), [newId, oldId])
  }
  const jwks = createLocalJWKSet(await other.ok('GET', '/.well-known/jwks.json'))
  for (const good of [token, ada.token]) await jwtVerify(good, jwks, { issuer: 'http://localhost:3000', typ: 'at+jwt' })
  assert.equal((await store.call('GET', '/.well-known/jwks.json')).headers['cache-control'], 'public, max-age=300')
})

test('deletes an old key when its last token has expired, and its private half when it retires', async (t) => {
  const store = await startStore(t)
  const ada = await store.register()
  const [oldId] = await keyIds(store.call)
  const { id: newId } = await rotateSigningKeys(store.pool, TEST_SECRET)
  const findErased = async () => {
    const { rows } = await store.pool.query('select id from signing_keys where sealed_private_key is null')
    return rows.map(({ id }) => id)
  }
  assert.deepEqual(await findErased(), [], 'it still signs')
  await endPublishing(store, oldId, newId)
  await promptly(store.pool, async () => (await findErased()).join() === oldId, { withinMs: 5_000, what: 'the private half to be erased' })
  await store.pool.query(`update signing_keys set retired_at = now() - interval '22 minutes' where id = $1`, [oldId])
  await promptly(store.pool, async () => (await keyIds(store.call)).join() === newId, { withinMs: 5_000, what: 'the old key to leave' })
  assertProblem(await ada.call('GET', '/me'), 401, 'invalid_token', 'from memory')
  const late = await startSecondProcess(t, store)
  assertProblem(await late.call('GET', '/me', { token: ada.token }), 401, 'invalid_token', 'a key that has left')
})

test('deleting a key ends its tokens within a second in every process, cached or not, and another key signs', async (t) => {
  const store = await startStore(t)
  const other = await startSecondProcess(t, store)
  const ada = await store.register()
  const [leakedId] = await keyIds(store.call)
  for (const { call } of [store, other])
    assert.equal((await call('GET', '/me', { token: ada.token })).status, 200, 'remembered from here on')
  await store.pool.query('delete from signing_keys where id = $1', [leakedId])
  for (const { call } of [store, other]) {
    const isRefused = async () => (await call('GET', '/me', { token: ada.token })).status === 401
    await promptly(store.pool, isRefused, { withinMs: 1_000, what: 'the refusal of a deleted key' })
  }
  const token = await refresh(store.call, ada)
  assert.notEqual(kidOf(token), leakedId)
  for (const { call } of [store, other]) assert.equal((await call('GET', '/me', { token })).status, 200)
  assert.deepEqual(await keyIds(store.call), [kidOf(token)])
})

test('a published key signs at once when the previous one is deleted', async (t) => {
  const store = await startStore(t)
  const ada = await store.register()
  const [leakedId] = await keyIds(store.call)
  const { id: newId } = await rotateSigningKeys(store.pool, TEST_SECRET)
  await store.pool.query('delete from signing_keys where id = $1', [leakedId])
  await promptly(store.pool, async () => kidOf(await refresh(store.call, ada)) === newId, { withinMs: 5_000, what: 'the published key' })
  assert.equal((await store.pool.query('select from signing_keys')).rowCount, 1)
})

test('who needs a key while the one after a deleted key is being loaded waits for it', async (t) => {
  const store = await startStore(t)
  const gate = Promise.withResolvers<void>()
  let isAsked = false
  const pool = new Proxy(store.pool, {
    get(target, name) {
      const value = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return async (...parameters: unknown[]) => {
        isAsked = true
        await gate.promise
        return value.apply(target, parameters)
      }
    },
  })
  const keys = await loadSigningKeys(store.pool, TEST_SECRET)
  const ring = new KeyRing(keys, { copies: makeCopies(t, store).copies, pool, secret: TEST_SECRET, logger: pino({ level: 'silent' }) })
  const { id } = await rotateSigningKeys(store.pool, TEST_SECRET)
  await store.pool.query('delete from signing_keys where id = $1', [keys.current.id])
  void ring.find(keys.current.id)
  await eventually(async () => isAsked, { what: 'the load of the other key' })
  const current = ring.findCurrent()
  gate.resolve()
  assert.equal((await current).id, id)
})

test('trusts no key that it could not check within the last two seconds', async (t) => {
  const store = await startStore(t)
  const keys = await loadSigningKeys(store.pool, TEST_SECRET)
  let isAway = false
  const pool = new Proxy(store.pool, {
    get(target, name) {
      if (name === 'query' && isAway) return () => Promise.reject(new Error('the database is unavailable'))
      const value = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const ring = new KeyRing(keys, {
    copies: makeCopies(t, store, { askedPool: pool }).copies,
    pool,
    secret: TEST_SECRET,
    logger: pino({ level: 'silent' }),
  })
  assert.ok(await ring.find(keys.current.id))
  isAway = true
  await eventually(
    async () =>
      ring.find(keys.current.id).then(
        () => false,
        () => true,
      ),
    { what: 'the refusal to tell' },
  )
  isAway = false
  assert.ok(await ring.find(keys.current.id), 'it asks again')
})

test('processes that start or rotate at the same time agree on one newest key', async (t) => {
  const store = await startStore(t)
  await store.pool.query('delete from signing_keys')
  const loaded = await Promise.all(Array.from({ length: 5 }, () => loadSigningKeys(store.pool, TEST_SECRET)))
  assert.equal(new Set(loaded.map(({ current }) => current.id)).size, 1)
  await Promise.all(Array.from({ length: 5 }, () => rotateSigningKeys(store.pool, TEST_SECRET)))
  const { rows } = await store.pool.query('select count(*) filter (where retired_at is null) as current, count(*) from signing_keys')
  assert.deepEqual(rows, [{ current: 1, count: 6 }])
})

test('another secret neither decrypts nor replaces the keys, and running processes keep theirs', async (t) => {
  const store = await startStore(t)
  const message = {
    message: 'STOREFRONT_SECRET is not the secret that the signing keys in this database were encrypted with; set that one',
  }
  await assert.rejects(loadSigningKeys(store.pool, 'another secret that is long enough'), message)
  await assert.rejects(rotateSigningKeys(store.pool, 'another secret that is long enough'), message)
  assert.equal((await store.pool.query('select from signing_keys where retired_at is null')).rowCount, 1)

  const { logger, lines } = collectLog()
  const ring = new KeyRing(await loadSigningKeys(store.pool, TEST_SECRET), {
    copies: makeCopies(t, store, { logger }).copies,
    pool: store.pool,
    secret: 'no longer the right secret',
    logger,
  })
  const { id: before } = await ring.findCurrent()
  const { id: newId } = await rotateSigningKeys(store.pool, TEST_SECRET)
  assert.equal(await ring.find(newId), undefined)
  assert.equal((await ring.findCurrent()).id, before)
  assert.ok(lines.some((line) => line.includes('could not look for new signing keys')))
  // Every process refuses the tokens of a deleted key, so this one issues none.
  await store.pool.query('delete from signing_keys where id = $1', [before])
  await eventually(async () => (await ring.find(before)) === undefined, { what: 'the deletion' })
  await assert.rejects(ring.findCurrent(), { code: 'unavailable' })
})

test('hostile key ids cause at most ten queries a second, and none if they are not thumbprints', async (t) => {
  const store = await startStore(t)
  let questions = 0
  const pool = new Proxy(store.pool, {
    get(target, name) {
      if (name === 'query') questions++
      const value = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const ring = new KeyRing(await loadSigningKeys(store.pool, TEST_SECRET), {
    copies: makeCopies(t, store, { askedPool: pool }).copies,
    pool,
    secret: TEST_SECRET,
    logger: pino({ level: 'silent' }),
  })
  for (const id of ['', 'x', '../../etc/passwd', "' or true", 'A'.repeat(44)]) assert.equal(await ring.find(id), undefined)
  assert.equal(questions, 0)
  const began = performance.now()
  await Promise.all(Array.from({ length: 50 }, (_, i) => ring.find(`${'A'.repeat(40)}${100 + i}`)))
  for (let i = 0; i < 50; i++) await ring.find(`${'B'.repeat(40)}${100 + i}`)
  const allowed = 1 + (performance.now() - began) / 100
  assert.ok(questions >= 1 && questions <= allowed, `${questions} questions`)
})
