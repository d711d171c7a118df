import assert from 'node:assert/strict'
import { test } from 'node:test'
import { promptly } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { type Account, type Answer, type StoreOverrides, startSecondProcess, startStore, type TestStore } from '../../test/store.ts'

const DAY_MS = 86_400_000
const ROUNDS = 20

type Call = TestStore['call']
const refresh = (call: Call, token: string) => call('POST', '/auth/refresh', { body: { refresh_token: token } })
const pairOf = ({ json }: Answer) => ({ access: json.access_token, refresh: json.refresh_token })

/** A store whose clock stands still until `forward` advances it. */
async function startClockedStore(t: Parameters<typeof startStore>[0], overrides: StoreOverrides = {}) {
  let nowMs = Date.now()
  const now = () => new Date(nowMs)
  const store = await startStore(t, { now, ...overrides })
  const forward = (ms: number) => {
    nowMs += ms
  }
  return { store, now, forward }
}

async function countLiveTokens(store: TestStore, account: Account): Promise<number> {
  const { rows } = await store.pool.query(
    `select count(*) from refresh_tokens join sessions on sessions.id = session_id
    where user_id = $1 and rotated_at is null and revoked_at is null`,
    [account.id],
  )
  return rows[0].count
}

test('gives the same successor pair to every use within the grace time', async (t) => {
  const { store, forward } = await startClockedStore(t)
  const ada = await store.register()
  const first = await refresh(store.call, ada.refreshToken)
  assert.equal(first.status, 200, first.text)
  assert.deepEqual(Object.keys(first.json).sort(), ['access_token', 'expires_in', 'refresh_expires_in', 'refresh_token', 'token_type'])
  assert.equal(first.headers['cache-control'], 'no-store')
  assert.notEqual(first.json.refresh_token, ada.refreshToken)
  forward(9_000)
  const again = await refresh(store.call, ada.refreshToken)
  assert.deepEqual(pairOf(again), pairOf(first), 'the access token is the same to the byte, its jti too')
  assert.ok([890, 891].includes(again.json.expires_in), 'the time that has run since is not promised again')
  assert.equal(await countLiveTokens(store, ada), 1)
})

test('creates one successor for parallel uses in two processes, and keeps the honest client logged in', async (t) => {
  const { store, now } = await startClockedStore(t)
  const other = await startSecondProcess(t, store, { now })
  for (const parallel of [2, 10, 50]) {
    const ada = await store.register()
    let token = ada.refreshToken
    for (let round = 1; round <= ROUNDS; round++) {
      const uses = Array.from({ length: parallel }, (_, i) => refresh(i % 2 === 0 ? store.call : other.call, token))
      const answers = await Promise.all(uses)
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200])
      assert.equal(new Set(answers.map((answer) => JSON.stringify(pairOf(answer)))).size, 1, 'one pair')
      assert.equal(await countLiveTokens(store, ada), 1)
      token = answers[0]?.json.refresh_token
      await other.ok('GET', '/me', { token: answers[0]?.json.access_token })
    }
    const { rows } = await store.pool.query(
      'select count(*) from refresh_tokens join sessions on sessions.id = session_id where user_id = $1',
      [ada.id],
    )
    assert.deepEqual(rows, [{ count: ROUNDS + 1 }])
  }
})

test('ends the whole token family when a token is reused after the grace time, within a second in another process too', async (t) => {
  const { store, now, forward } = await startClockedStore(t)
  const other = await startSecondProcess(t, store, { now })
  const [ada, eve] = [await store.register(), await store.register()]
  const second = await refresh(store.call, ada.refreshToken)
  const third = await refresh(store.call, second.json.refresh_token)
  const access = [ada.token, second.json.access_token, third.json.access_token]
  for (const token of access) await other.ok('GET', '/me', { token })
  forward(10_000)

  assertProblem(await refresh(store.call, ada.refreshToken), 401, 'invalid_refresh_token')
  for (const token of access) assertProblem(await store.call('GET', '/me', { token }), 401, 'invalid_token', 'here, at once')
  const isRefusedThere = async () => (await other.call('GET', '/me', { token: access[2] ?? '' })).status === 401
  await promptly(store.pool, isRefusedThere, { withinMs: 1_000, what: 'the refusal in the other process' })
  for (const token of access) assertProblem(await other.call('GET', '/me', { token }), 401, 'invalid_token', 'there, within a second')
  for (const token of [ada.refreshToken, second.json.refresh_token, third.json.refresh_token]) {
    for (const { call } of [store, other]) assertProblem(await refresh(call, token), 401, 'invalid_refresh_token')
  }
  assert.equal((await eve.call('GET', '/me')).status, 200, "another's session lives on")
  const again = await store.call('POST', '/auth/login', { body: { email: ada.email, password: ada.password } })
  assert.equal(again.status, 200, 'the owner can log in again')
})

test("answers the newest token's reuse within the grace time even after its successor was used", async (t) => {
  const { store } = await startClockedStore(t)
  const ada = await store.register()
  const second = await refresh(store.call, ada.refreshToken)
  const third = await refresh(store.call, second.json.refresh_token)
  const late = await refresh(store.call, ada.refreshToken)
  assert.deepEqual(pairOf(late), pairOf(second))
  assert.deepEqual(pairOf(await refresh(store.call, late.json.refresh_token)), pairOf(third))
  assert.equal(await countLiveTokens(store, ada), 1)
})

test('allows no second use at all when the grace time is zero', async (t) => {
  const { store } = await startClockedStore(t, { refreshGraceSeconds: 0 })
  const ada = await store.register()
  assert.equal((await refresh(store.call, ada.refreshToken)).status, 200)
  assertProblem(await refresh(store.call, ada.refreshToken), 401, 'invalid_refresh_token')
  assert.equal(await countLiveTokens(store, ada), 0)
})

test('lets a session slide 30 days with each use, and ends it after 90 days', async (t) => {
  const { store, forward } = await startClockedStore(t)
  const [ada, idle] = [await store.register(), await store.register()]
  forward(29 * DAY_MS)
  let answer = await refresh(store.call, ada.refreshToken)
  assert.equal(answer.json.refresh_expires_in, 30 * 86_400)
  forward(2 * DAY_MS)
  assertProblem(await refresh(store.call, idle.refreshToken), 401, 'invalid_refresh_token', 'idle for 31 days')
  forward(27 * DAY_MS)
  answer = await refresh(store.call, answer.json.refresh_token)
  forward(29 * DAY_MS)
  answer = await refresh(store.call, answer.json.refresh_token)
  assert.ok(answer.json.refresh_expires_in <= 3 * 86_400, 'no further than the 90th day')
  forward(3 * DAY_MS - 600_000)
  answer = await refresh(store.call, answer.json.refresh_token)
  assert.ok(answer.json.expires_in <= 600 && answer.json.expires_in > 590, 'no access token outlives its session')
  forward(600_000)
  assertProblem(await refresh(store.call, answer.json.refresh_token), 401, 'invalid_refresh_token', 'day 90')
})

test('stores only hashes, and the encrypted successor only during the grace time', async (t) => {
  const { store, forward } = await startClockedStore(t)
  const ada = await store.register()
  forward(1_000)
  const second = await refresh(store.call, ada.refreshToken)
  forward(11_000)
  await refresh(store.call, second.json.refresh_token)
  const { rows } = await store.pool.query(
    'select rotated_at is null as live, sealed_successor is null as erased, length(token_hash) as bytes from refresh_tokens order by created_at',
  )
  assert.deepEqual(rows, [
    { live: false, erased: true, bytes: 32 },
    { live: false, erased: false, bytes: 32 },
    { live: true, erased: true, bytes: 32 },
  ])
})

test('refuses an unknown refresh token', async (t) => {
  const store = await startStore(t)
  for (const token of ['', 'x', 'A'.repeat(43), 'A'.repeat(16_000), "' or true --"]) {
    assertProblem(await refresh(store.call, token), 401, 'invalid_refresh_token')
  }
  assertProblem(await refresh(store.call, 'A'.repeat(900_000)), 413, 'payload_too_large')
})
