import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLocalJWKSet, jwtVerify } from 'jose'
import pino from 'pino'
import { promptly } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { type Account, startSecondProcess, startStore, TEST_SECRET, type TestStore } from '../../test/store.ts'
import { KeyRing } from './key-ring.ts'
import { loadSigningKeys, rotateSigningKeys } from './signing-keys.ts'

const kidOf = (token: string): string => JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()).kid
const keyIds = async (call: TestStore['call']): Promise<string[]> =>
  (await call('GET', '/.well-known/jwks.json')).json.keys.map(({ kid }: { kid: string }) => kid)
const refresh = async (call: TestStore['call'], account: Account): Promise<string> =>
  (await call('POST', '/auth/login', { body: { email: account.email, password: account.password } })).json.access_token

test('a rotated key is taken up by running processes, and tokens of the old one stay good', async (t) => {
  const store = await startStore(t)
  const other = await startSecondProcess(t, store)
  const ada = await store.register()
  const [oldId] = await keyIds(store.call)
  const newId = await rotateSigningKeys(store.pool, TEST_SECRET)
  assert.notEqual(newId, oldId)

  // One process may sign with it before another has looked: that one looks at once.
  const keys = await loadSigningKeys(store.pool, TEST_SECRET)
  assert.equal(keys.current.id, newId)
  await promptly(store.pool, async () => kidOf(await refresh(store.call, ada)) === newId, { withinMs: 5_000, what: 'the new key here' })
  const token = await refresh(store.call, ada)
  for (const { call } of [store, other]) {
    assert.equal((await call('GET', '/me', { token })).status, 200, 'signed with the new key')
    assert.equal((await call('GET', '/me', { token: ada.token })).status, 200, 'signed with the old key')
    assert.deepEqual(await keyIds(call), [newId, oldId])
  }
  const jwks = createLocalJWKSet((await other.call('GET', '/.well-known/jwks.json')).json)
  for (const good of [token, ada.token]) await jwtVerify(good, jwks, { issuer: 'http://localhost:3000', typ: 'at+jwt' })
  assert.equal((await store.call('GET', '/.well-known/jwks.json')).headers['cache-control'], 'public, max-age=300')
})

test('an old key leaves when its last token has expired, and its private half at once', async (t) => {
  const store = await startStore(t)
  const ada = await store.register()
  const [oldId] = await keyIds(store.call)
  const newId = await rotateSigningKeys(store.pool, TEST_SECRET)
  const { rows } = await store.pool.query('select id, sealed_private_key is null as erased from signing_keys order by created_at')
  assert.deepEqual(rows, [
    { id: oldId, erased: true },
    { id: newId, erased: false },
  ])
  await store.pool.query(`update signing_keys set retired_at = now() - interval '17 minutes' where id = $1`, [oldId])
  await promptly(store.pool, async () => (await keyIds(store.call)).join() === newId, { withinMs: 5_000, what: 'the old key to leave' })
  const late = await startSecondProcess(t, store)
  assertProblem(await late.call('GET', '/me', { token: ada.token }), 401, 'invalid_token', 'a key that has left')
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

test('another secret neither opens the keys nor replaces them, and running processes keep theirs', async (t) => {
  const store = await startStore(t)
  const message = { message: 'STOREFRONT_SECRET does not open the signing keys in this database' }
  await assert.rejects(loadSigningKeys(store.pool, 'another secret that is long enough'), message)
  await assert.rejects(rotateSigningKeys(store.pool, 'another secret that is long enough'), message)
  assert.equal((await store.pool.query('select from signing_keys where retired_at is null')).rowCount, 1)

  const lines: string[] = []
  const logger = pino({}, { write: (line) => void lines.push(line) })
  const ring = new KeyRing(await loadSigningKeys(store.pool, TEST_SECRET), {
    pool: store.pool,
    secret: 'no longer the right secret',
    logger,
  })
  const before = ring.current.id
  const newId = await rotateSigningKeys(store.pool, TEST_SECRET)
  assert.equal(await ring.find(newId), undefined)
  assert.equal(ring.current.id, before)
  assert.ok(lines.some((line) => line.includes('could not look for new signing keys')))
})

test('hostile key ids cause ten questions a second at most, and none when they are no thumbprints', async (t) => {
  const store = await startStore(t)
  let questions = 0
  const pool = new Proxy(store.pool, {
    get(target, name) {
      if (name === 'query') questions++
      const value = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const ring = new KeyRing(await loadSigningKeys(store.pool, TEST_SECRET), { pool, secret: TEST_SECRET, logger: pino({ level: 'silent' }) })
  for (const id of ['', 'x', '../../etc/passwd', "' or true", 'A'.repeat(44)]) assert.equal(await ring.find(id), undefined)
  assert.equal(questions, 0)
  const began = performance.now()
  await Promise.all(Array.from({ length: 50 }, (_, i) => ring.find(`${'A'.repeat(40)}${100 + i}`)))
  for (let i = 0; i < 50; i++) await ring.find(`${'B'.repeat(40)}${100 + i}`)
  const allowed = 1 + (performance.now() - began) / 100
  assert.ok(questions >= 1 && questions <= allowed, `${questions} questions`)
})
