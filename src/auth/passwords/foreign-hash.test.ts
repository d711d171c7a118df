import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { mock, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { assertProblem } from '../../../test/problem.ts'
import { startStore, type TestStore } from '../../../test/store.ts'
import { readForeignHash, UnusableHash } from './foreign-hash.ts'
import { Passwords } from './password.ts'

const PASSWORD = 'an old passphrase'
const UMLAUTS = 'ein altes Paßwort'
// Hashes made by other programs: bcrypt by libxcrypt, pbkdf2 by Python's hashlib, and scrypt by npm's scrypt-kdf 2.0.1
// with the parameters of Medusa. The others are vectors of openwall.com/phpass and RFC 6070.
const HASHES: [kind: string, hash: string, password: string][] = [
  ['bcrypt 2b', '$2b$05$abcdefghijklmnopqrstuuKGZG5VYwOaJvDjUW1vM3e/AxAoATYuy', PASSWORD],
  ['bcrypt 2y', '$2y$10$abcdefghijklmnopqrstuuMjqeRRMw4ZKN8D5l6vArgO1H7dflcbO', PASSWORD],
  ['bcrypt 2a', '$2a$04$abcdefghijklmnopqrstuuUd8F1wYoEh78W2eiQVwIytCiLveX7bq', PASSWORD],
  ["WordPress's bcrypt", '$wp$2y$04$zyxwvutsrqponmlkjihgfeT1NGj0HI6BAIf7CIGw8feRlxad294L2', UMLAUTS],
  ['phpass', '$P$9IQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0', 'test12345'],
  ["phpass of WordPress's count", '$P$Babcdefghe9bvfwntwI5nHnHuaMnhO/', UMLAUTS],
  ["phpBB's phpass", '$H$9abcdefgh4VOOgBzm.USXm3ZDxAQgu.', PASSWORD],
  [
    'pbkdf2 sha1',
    '$pbkdf2-sha1$i=4096,l=25$c2FsdFNBTFRzYWx0U0FMVHNhbHRTQUxUc2FsdFNBTFRzYWx0$PS7sT+QchJuAyNg2YsDkSospGpZM8vBwOA',
    'passwordPASSWORDpassword',
  ],
  ['pbkdf2 sha256', '$pbkdf2-sha256$i=10000$MDEyMzQ1Njc4OWFiY2RlZg$zOa/RB+Gpd3O4OEoQVn1FJXBK+DGr8Kq4lXP7urPTfU', PASSWORD],
  ['pbkdf2 sha512', '$pbkdf2-sha512$i=10000$MDEyMzQ1Njc4OWFiY2RlZg$m731o6oXfmOmTdju/RIAGFFJc1O3L5G9XJskpsCHyEs', PASSWORD],
  [
    "Medusa's scrypt",
    'c2NyeXB0AA8AAAAIAAAAAdHl1ED4ys2zR+09ZN4xBtZXVeQbjyuX8TDXCfGvZZCCtekD3rHmIW/wPK0MuOcTNKOhISmju5QShuxXFrjksBUkdiwFXl0RlK7DEdCBJeTN',
    PASSWORD,
  ],
]
HASHES.push([
  'argon2id of another cost',
  await new Passwords({ threads: 1, maxWaiting: 1, cost: { memoryKib: 12_288, passes: 3, parallelism: 1 } }).hash(PASSWORD),
  PASSWORD,
])
const one = { threads: 2, maxWaiting: 40 }

for (const [kind, stored, password] of HASHES) {
  test(`checks a hash of ${kind}, which no other password matches`, async (t) => {
    const passwords = new Passwords(one)
    t.after(() => passwords.stop())
    readForeignHash(stored)
    assert.equal(await passwords.verify(password, stored), true)
    for (const wrong of [`${password}x`, password.slice(1), '', stored]) assert.equal(await passwords.verify(wrong, stored), false, wrong)
    assert.equal(passwords.isOutdated(stored), true)
  })
}

const scrypt = (logN: number, r = 8, p = 1) => {
  const bytes = Buffer.alloc(96)
  bytes.write('scrypt', 'latin1')
  bytes.writeUInt8(logN, 7)
  bytes.writeUInt32BE(r, 8)
  bytes.writeUInt32BE(p, 12)
  return bytes
}
const withChecksum = (bytes: Buffer) => {
  hash('sha256', bytes.subarray(0, 48), 'buffer').copy(bytes, 48, 0, 16)
  return bytes.toString('base64')
}

test('refuses a hash that is too costly, too cheap, damaged or of an unknown kind, without repeating it', () => {
  const tail = 'abcdefghijklmnopqrstuuKGZG5VYwOaJvDjUW1vM3e/AxAoATYuy'
  const refused: [string, RegExp][] = [
    [`$2b$31$${tail}`, /bcrypt: cost is 31/],
    [`$2b$15$${tail}`, /cost is 15/],
    [`$2b$03$${tail}`, /too little/],
    [`$wp$2y$31$${tail}`, /cost is 31/],
    [`$2x$10$${tail}`, /unknown variant/],
    [`$2b$10$${tail.slice(1)}`, /damaged/],
    ['$P$Rabcdefghe9bvfwntwI5nHnHuaMnhO/', /phpass.*is 29/],
    ['$P$Babcdefgh', /damaged/],
    ['$pbkdf2-sha256$i=2147483648$MDEyMzQ1Njc4OWFiY2RlZg$zOa/RB+Gpd3O4OEoQVn1FJXBK+DGr8Kq4lXP7urPTfU', /iterations is 2147483648/],
    ['$pbkdf2-sha256$i=10000,l=99$MDEyMzQ1Njc4OWFiY2RlZg$zOa/RB+Gpd3O4OEoQVn1FJXBK+DGr8Kq4lXP7urPTfU', /damaged/],
    [withChecksum(scrypt(30)), /log N is 30/],
    [withChecksum(scrypt(17, 64)), /N times r times p/],
    [withChecksum(scrypt(17, 8, 4_000_000_000)), /N times r times p/],
    [withChecksum(scrypt(16, 1)), /log N for its r/],
    [scrypt(15).toString('base64'), /damaged/],
    ['$argon2id$v=19$m=8,t=1,p=16$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b0dWRWJTmaaJObG', /p is 16/],
    ['$argon2id$v=19$m=131072,t=8,p=1$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b0dWRWJTmaaJObG', /m times t/],
    ['$argon2id$v=19$m=4194304,t=3,p=1$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b0dWRWJTmaaJObG', /m is 4194304/],
    ['$argon2id$v=19$m=65536,t=999,p=1$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b0dWRWJTmaaJObG', /m times t/],
    ['$argon2i$v=19$m=65536,t=3,p=1$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b0dWRWJTmaaJObG', /unknown kind/],
    ['5f4dcc3b5aa765d61d8327deb882cf99', /unknown kind/],
    ['{SSHA}0c0blFTXXNuAMHECS4uxrj3ZieMoWImr', /unknown kind/],
    ['', /unknown kind/],
  ]
  for (const [hash, reason] of refused) {
    assert.throws(
      () => readForeignHash(hash),
      (error) => error instanceof UnusableHash && reason.test(error.message) && (hash === '' || !error.message.includes(hash)),
      hash,
    )
  }
})

const login = (store: TestStore, email: string, password: string) => store.call('POST', '/auth/login', { body: { email, password } })

async function storeWithHash(t: Parameters<typeof startStore>[0], hash: string) {
  const store = await startStore(t, { hashCost: undefined })
  const ada = await store.register()
  await store.pool.query('update users set password_hash = $1 where id = $2', [hash, ada.id])
  const stored = async () =>
    (await store.pool.query<{ hash: string }>('select password_hash as hash from users where id = $1', [ada.id])).rows[0]?.hash
  return { store, ada, stored }
}

test("the first login replaces another system's hash by argon2id, also for logins at once; a wrong password does not", async (t) => {
  const [, hash = '', password = ''] = HASHES[1] ?? []
  const { store, ada, stored } = await storeWithHash(t, hash)
  assertProblem(await login(store, ada.email, `${password}x`), 401, 'invalid_credentials')
  assert.equal(await stored(), hash)
  const logins = await Promise.all([1, 2, 3].map(() => login(store, ada.email, password)))
  assert.deepEqual(
    logins.map(({ status }) => status),
    [200, 200, 200],
  )
  assert.match((await stored()) ?? '', /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  assert.equal((await login(store, ada.email, password)).status, 200)
  assertProblem(await login(store, ada.email, `${password}x`), 401, 'invalid_credentials')
})

test('a password with an old hash can be changed before a login has replaced the hash', async (t) => {
  const [, hash = '', password = ''] = HASHES[4] ?? []
  const { store, ada, stored } = await storeWithHash(t, hash)
  const body = { current_password: password, new_password: 'quite another passphrase' }
  await store.ok('POST', '/auth/password', { token: ada.token, body })
  assert.match((await stored()) ?? '', /^\$argon2id\$/)
  assert.equal((await login(store, ada.email, 'quite another passphrase')).status, 200)
})

test('while any account has an old hash, each failed login does the work of both kinds', async (t) => {
  const { store, ada } = await storeWithHash(t, HASHES[0]?.[1] ?? '')
  const modern = await store.register()
  const work: string[] = []
  const { postMessage } = Worker.prototype
  const watched = mock.method(Worker.prototype, 'postMessage', function (this: Worker, message: { scheme?: string; salt?: string }) {
    work.push(message.scheme === undefined ? 'argon2id' : `${message.scheme} ${message.salt?.slice(0, 7) ?? 'of another cost'}`)
    return Reflect.apply(postMessage, this, [message])
  })
  t.after(() => watched.mock.restore())
  const workOf = async (email: string) => {
    work.length = 0
    assertProblem(await login(store, email, 'a wrong passphrase'), 401, 'invalid_credentials')
    return work.toSorted()
  }
  const both = ['argon2id', 'bcrypt $2b$05$']
  assert.deepEqual(await workOf(ada.email), both)
  assert.deepEqual(await workOf(modern.email), both)
  assert.deepEqual(await workOf('nobody@example.com'), both)
  const otherCost = new Passwords({ ...one, cost: { memoryKib: 64, passes: 1, parallelism: 1 } })
  await store.pool.query('update users set password_hash = $1 where id = $2', [await otherCost.hash('x'), ada.id])
  const bothArgon = ['argon2id', 'argon2id of another cost']
  for (const email of [ada.email, modern.email, 'nobody@example.com']) assert.deepEqual(await workOf(email), bothArgon)
  await store.pool.query('update users set password_hash = $1 where id = $2', [await new Passwords(one).hash('x'), ada.id])
  assert.deepEqual(await workOf('nobody@example.com'), ['argon2id'])
})
