import assert from 'node:assert/strict'
import type { Argon2Parameters } from 'node:crypto'
import { mock, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import pg from 'pg'
import { eventually } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { startStore, type TestStore } from '../../test/store.ts'
import { Passwords } from './passwords/password.ts'

const login = (store: TestStore, email: unknown, password: unknown) => store.call('POST', '/auth/login', { body: { email, password } })

test('answers a wrong password and an unknown address with the same bytes', async (t) => {
  const store = await startStore(t)
  const ada = await store.register()
  const headers = { 'x-request-id': 'same', traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' }
  const ask = (email: string) => store.call('POST', '/auth/login', { body: { email, password: 'a wrong passphrase' }, headers })
  const [wrong, unknown, nonsense] = [await ask(ada.email), await ask('nobody@example.com'), await ask('no address\r\nat all')]
  assertProblem(wrong, 401, 'invalid_credentials')
  const bytes = ({ text, headers: { date: _, ...rest } }: typeof wrong) => [text, rest]
  assert.deepEqual(bytes(unknown), bytes(wrong))
  assert.deepEqual(bytes(nonsense), bytes(wrong))
  assert.equal(wrong.headers['www-authenticate'], 'Bearer realm="storefront"')
})

// bench/login-timing.ts measures the time; this test shows the same statements and one hash of the same cost.
test('does the same work for a wrong password and an unknown address', async (t) => {
  const store = await startStore(t, { isRateLimited: true, hashCost: undefined })
  const ada = await store.register()
  const work: string[] = []
  const { query } = pg.Client.prototype
  const { postMessage } = Worker.prototype
  const watchedThreads = mock.method(
    Worker.prototype,
    'postMessage',
    function (this: Worker, parameters: Argon2Parameters & { nonce: Uint8Array }) {
      const { memory, passes, parallelism, tagLength, nonce } = parameters
      work.push(`argon2id m=${memory} t=${passes} p=${parallelism} tag=${tagLength} salt=${nonce.length}`)
      return Reflect.apply(postMessage, this, [parameters])
    },
  )
  const watchedQuery = mock.method(pg.Client.prototype, 'query', function (this: pg.Client, ...args: unknown[]) {
    const text = typeof args[0] === 'string' ? args[0] : (args[0] as { text?: string }).text
    // Housekeeping's deletions run in the background and are not part of the login.
    if (
      text !== undefined &&
      /\b(users|sessions|rate_limits|refresh_tokens)\b/.test(text) &&
      !/^delete|api_keys|guest_(holds|expires_at)/.test(text)
    )
      work.push(text)
    return Reflect.apply(query, this, args)
  })
  t.after(() => {
    watchedThreads.mock.restore()
    watchedQuery.mock.restore()
  })
  const workOf = async (email: string) => {
    work.length = 0
    assertProblem(await login(store, email, 'a wrong passphrase'), 401, 'invalid_credentials')
    return [...work]
  }
  const known = await workOf(ada.email)
  assert.equal(known.filter((step) => step.startsWith('argon2id m=19456 t=2 p=1')).length, 1)
  assert.ok(known.length > 3, 'statements were seen')
  assert.deepEqual(await workOf('nobody@example.com'), known)
})

test('rehashes a password whose hash costs less than the current setting', async (t) => {
  const store = await startStore(t, { hashCost: undefined })
  const ada = await store.register()
  const cheap = await new Passwords({ threads: 1, maxWaiting: 0, cost: { memoryKib: 64, passes: 1, parallelism: 1 } }).hash(ada.password)
  await store.pool.query('update users set password_hash = $2 where id = $1', [ada.id, cheap])
  const hashOf = async () => (await store.pool.query('select password_hash from users where id = $1', [ada.id])).rows[0].password_hash
  assertProblem(await login(store, ada.email, 'a wrong passphrase'), 401, 'invalid_credentials')
  assert.equal(await hashOf(), cheap, 'only the right password can be rehashed')
  const answers = await Promise.all([1, 2, 3].map(() => login(store, ada.email, ada.password)))
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200],
  )
  const renewed = await hashOf()
  assert.match(renewed, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  assert.equal((await login(store, ada.email, ada.password)).status, 200)
  assert.equal(await hashOf(), renewed)
})

test('opens no session with a password that changes during its check', async (t) => {
  const store = await startStore(t)
  const ada = await store.register()
  const change = await store.pool.connect()
  await change.query('begin')
  await change.query('update users set password_hash = $2 where id = $1', [
    ada.id,
    await new Passwords({ threads: 1, maxWaiting: 0 }).hash('quite another passphrase'),
  ])
  // This login still reads the old hash, which matches.
  const answer = login(store, ada.email, ada.password)
  const isWaiting = async () => {
    const { rowCount } = await store.pool.query(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like 'select from users%for share'`,
    )
    return rowCount === 1
  }
  await Promise.race([answer, eventually(isWaiting, { what: 'the login to wait for the change' })])
  await change.query('commit')
  change.release()
  assertProblem(await answer, 401, 'invalid_credentials')
  const { rows } = await store.pool.query('select count(*) from sessions')
  assert.deepEqual(rows, [{ count: 1 }], 'the registration alone has opened one')
})
