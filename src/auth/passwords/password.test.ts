import assert from 'node:assert/strict'
import { test } from 'node:test'
import bcrypt from 'bcryptjs'
import { assertProblem, faults } from '../../../test/problem.ts'
import { startStore } from '../../../test/store.ts'
import { AppError } from '../../errors.ts'
import { Passwords } from './password.ts'

const CHEAP = { memoryKib: 64, passes: 1, parallelism: 1 }
const one = { threads: 1, maxWaiting: 10 }

test('hashes with argon2id at the documented cost, each time with another salt', async () => {
  const passwords = new Passwords(one)
  const hashes = [await passwords.hash('correct horse'), await passwords.hash('correct horse')]
  for (const hash of hashes) assert.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/)
  assert.notEqual(hashes[0], hashes[1])
  assert.equal(await passwords.verify('correct horse', hashes[0] ?? ''), true)
  for (const wrong of ['correct horsf', 'Correct horse', 'correct horse ', ' correct horse', '']) {
    assert.equal(await passwords.verify(wrong, hashes[0] ?? ''), false)
  }
})

test('compares a password exactly as given, without trimming, folding or truncation; only Unicode spellings are equal', async () => {
  const passwords = new Passwords({ ...one, cost: CHEAP })
  const long = `${'x'.repeat(127)}y`
  for (const [given, other] of [
    ['ﬁne password', 'fine password'],
    [long, long.slice(0, 127)],
    [`${'x'.repeat(72)}tail`, 'x'.repeat(72)],
  ] as const) {
    const hash = await passwords.hash(given)
    assert.equal(await passwords.verify(given, hash), true)
    assert.equal(await passwords.verify(other, hash), false, given)
  }
  const spellings = ['caf\u00e9 au lait', 'cafe\u0301 au lait'] as const
  // Another system stores this hash of a password from a keyboard that sends the other Unicode form.
  const foreign = `$2b$04$${(await bcrypt.hash(spellings[1], '$2b$04$abcdefghijklmnopqrstuu')).slice(7)}`
  for (const hash of [...(await Promise.all(spellings.map((given) => passwords.hash(given)))), foreign]) {
    for (const given of spellings) assert.equal(await passwords.verify(given, hash), true)
    assert.equal(await passwords.verify('cafe au lait', hash), false)
  }
})

test('verifies a hash at its own cost, and reports a cost other than the current one', async () => {
  const before = new Passwords({ ...one, cost: CHEAP })
  const today = new Passwords(one)
  const hash = await before.hash('correct horse')
  assert.equal(await today.verify('correct horse', hash), true)
  assert.equal(today.isOutdated(hash), true)
  assert.equal(before.isOutdated(hash), false)
  assert.equal(before.isOutdated(await today.hash('correct horse')), true, 'a higher cost, too: a login would pay it for ever')
})

test('refuses common passwords and the address itself, in any case', async () => {
  const passwords = new Passwords(one)
  const refused = ['password', 'PASSWORD', '12345678', 'qwertyuiop', 'iloveyou', 'ada@example.com', 'ADA@Example.com']
  for (const password of refused) {
    await assert.rejects(
      passwords.assertAcceptable(password, 'ada@example.com'),
      (error) => error instanceof AppError && error.code === 'password_too_common',
    )
  }
  for (const password of ['password of mine', 'bob@example.com', '        ', 'ππππππππ'])
    await passwords.assertAcceptable(password, 'ada@example.com')
})

test('computes a few hashes at a time, queues the others in order, and refuses when too many wait', async () => {
  const passwords = new Passwords({ threads: 2, maxWaiting: 3, cost: CHEAP })
  const done: number[] = []
  const tries = Array.from({ length: 8 }, async (_, i) => {
    await passwords.hash('correct horse')
    done.push(i)
  })
  const results = await Promise.allSettled(tries)
  assert.deepEqual(
    results.map(({ status }) => status),
    [...Array(5).fill('fulfilled'), ...Array(3).fill('rejected')],
  )
  assert.deepEqual(done.toSorted(), [0, 1, 2, 3, 4])
  const refusal = (results[7] as PromiseRejectedResult).reason as AppError
  assert.deepEqual([refusal.code, refusal.details.headers], ['overloaded', { 'retry-after': '5' }])
  assert.equal(await passwords.verify('wrong', null), false, 'places are given back')
})

test('frees its place when hashing fails', async () => {
  const passwords = new Passwords({ threads: 1, maxWaiting: 0, cost: { memoryKib: 1, passes: 1, parallelism: 1 } })
  for (const _ of [1, 2, 3]) await assert.rejects(passwords.hash('x'), (error) => !(error instanceof AppError))
})

test('registration counts a password in code points and accepts any well-formed Unicode', async (t) => {
  const store = await startStore(t)
  const register = (password: unknown) =>
    store.call('POST', '/auth/register', { raw: JSON.stringify({ email: `${crypto.randomUUID()}@example.com`, password }) })
  for (const password of ['x'.repeat(7), 'x'.repeat(129), '𝄞'.repeat(7), '𝄞'.repeat(129), `a${'\u0301'.repeat(128)}`, '']) {
    assert.deepEqual(faults(assertProblem(await register(password), 422, 'invalid_body', password)), ['#/password'])
  }
  for (const password of [{}, { $ne: null }, ['correct horse'], 12_345_678, true, null, undefined]) {
    assertProblem(await register(password), 422, 'invalid_body', JSON.stringify(password))
  }
  for (const text of ['\\ud800', '\\udc00', '\\u0000']) {
    const raw = `{"email":"lone@example.com","password":"long enough ${text}"}`
    assertProblem(await store.call('POST', '/auth/register', { raw }), 422, 'invalid_body', text)
  }
  for (const password of ['𝄞'.repeat(8), '𝄞'.repeat(128), '👨‍👩‍👧‍👦👨‍👩', 'x x x x x', `${'x'.repeat(127)} `]) {
    const email = `${crypto.randomUUID()}@example.com`
    assert.equal((await store.call('POST', '/auth/register', { body: { email, password } })).status, 201, password)
    assert.equal((await store.call('POST', '/auth/login', { body: { email, password } })).status, 200, password)
    assertProblem(
      await store.call('POST', '/auth/login', { body: { email, password: [...password].slice(0, -1).join('') } }),
      401,
      'invalid_credentials',
    )
  }
  assertProblem(await register('password1'), 422, 'password_too_common')
})
