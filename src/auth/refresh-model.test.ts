import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { startStore, type TestStore } from '../../test/store.ts'

const RUNS = Number(process.env.REFRESH_MODEL_RUNS ?? 60)
const GRACE_MS = 10_000

/** Actions of the owner and the thief, in any order. `index` selects one of the refresh tokens issued so far. */
type Step =
  | { do: 'owner refreshes' }
  /** The thief copies the owner's current token. */
  | { do: 'thief copies' }
  | { do: 'thief refreshes' }
  | { do: 'somebody uses an old one'; index: number }
  | { do: 'time passes'; ms: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.constant<Step>({ do: 'owner refreshes' }) },
  { weight: 2, arbitrary: fc.constant<Step>({ do: 'thief copies' }) },
  { weight: 3, arbitrary: fc.constant<Step>({ do: 'thief refreshes' }) },
  { weight: 1, arbitrary: fc.nat(30).map((index): Step => ({ do: 'somebody uses an old one', index })) },
  { weight: 3, arbitrary: fc.constantFrom(1_000, 4_000, GRACE_MS, 60_000).map((ms): Step => ({ do: 'time passes', ms })) },
)

test('leaves no live branch once theft was detected, in whatever order the owner and thief refresh', async (t) => {
  let nowMs = Date.now()
  const store = await startStore(t, { now: () => new Date(nowMs) })
  let noticed = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 14 }), async (steps) => {
      const login = await store.register({ email: `${crypto.randomUUID()}@example.com` })
      const seen = [{ refresh: login.refreshToken, access: login.token }]
      /** Maps a token to its first use and successor. This is a second implementation of the rules. */
      const used = new Map<string, { atMs: number; successor: string }>()
      let owner = login.refreshToken
      let thief: string | null = null
      let isDead = false

      async function use(token: string): Promise<string> {
        const before = used.get(token)
        const isReuse = before !== undefined && nowMs - before.atMs >= GRACE_MS
        const answer = await store.call('POST', '/auth/refresh', { body: { refresh_token: token } })
        assert.equal(answer.status, isDead || isReuse ? 401 : 200, answer.text)
        if (isReuse) isDead = true
        if (answer.status !== 200) return token
        if (before === undefined) used.set(token, { atMs: nowMs, successor: answer.json.refresh_token })
        else assert.equal(answer.json.refresh_token, before.successor, 'the same successor within the grace time')
        seen.push({ refresh: answer.json.refresh_token, access: answer.json.access_token })
        return answer.json.refresh_token
      }

      for (const next of steps) {
        if (next.do === 'owner refreshes') owner = await use(owner)
        else if (next.do === 'thief copies') thief = owner
        else if (next.do === 'thief refreshes' && thief !== null) thief = await use(thief)
        else if (next.do === 'somebody uses an old one') await use(seen[next.index % seen.length]?.refresh ?? owner)
        else if (next.do === 'time passes') nowMs += next.ms
        await assertBranches(store, login.id, isDead ? 0 : 1)
      }
      if (!isDead) return
      noticed++
      for (const { refresh, access } of seen) {
        assert.equal((await store.call('POST', '/auth/refresh', { body: { refresh_token: refresh } })).status, 401)
        assert.equal((await store.call('GET', '/me', { token: access })).status, 401)
      }
    }),
    { numRuns: RUNS, endOnFailure: true },
  )
  assert.ok(noticed > 0, `a theft was noticed in ${noticed} of ${RUNS} runs`)
})

/** Asserts the number of tokens that have no successor yet. */
async function assertBranches(store: TestStore, userId: string, expected: number): Promise<void> {
  const { rows } = await store.pool.query(
    `select count(*) from refresh_tokens join sessions on sessions.id = session_id
    where user_id = $1 and rotated_at is null and revoked_at is null`,
    [userId],
  )
  assert.deepEqual(rows, [{ count: expected }])
}
