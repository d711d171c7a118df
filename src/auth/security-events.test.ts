import assert from 'node:assert/strict'
import { test } from 'node:test'
import { askForChange, changeEmail, confirmChange, revertChange } from '../../test/email-changes.ts'
import { collectLog } from '../../test/logs.ts'
import { startStore } from '../../test/store.ts'

const FROM = '203.0.113.7'

test('writes one line for each security event, with stable names and ids and without an address or a secret', async (t) => {
  const { logger, entries: lines } = collectLog()
  let aheadMs = 0
  const store = await startStore(t, { logger, isRateLimited: true, now: () => new Date(Date.now() + aheadMs) })
  const email = 'ada@example.com'
  const password = 'a long enough passphrase'
  const newPassword = 'quite another passphrase'
  const post = (path: string, body: object, token?: string) =>
    store.call('POST', path, { body, from: FROM, ...(token === undefined ? {} : { token }) })

  /** Runs `work` and returns the security events that it causes. */
  const eventsOf = async (work: () => Promise<{ status: number }>) => {
    lines.length = 0
    const { status } = await work()
    const events = lines.filter(({ msg }) => msg === 'security event')
    const requests = lines.filter(({ msg }) => msg === 'request')
    for (const line of events) {
      assert.equal(line.level, 30)
      assert.equal(line.client_address, FROM)
      assert.equal(line.request_id, requests[0]?.request_id, 'it can be found by the id the client was given')
    }
    return [status, ...events.map(({ event, reason, limit }) => [event, reason ?? limit].filter(Boolean).join(': '))]
  }

  const ada = (await post('/auth/register', { email, password })).json
  const idsIn = (line: Record<string, unknown> | undefined) => [line?.event, line?.user_id, typeof line?.session_id]
  assert.deepEqual(idsIn(lines.find(({ event }) => event === 'registered')), ['registered', ada.user.id, 'string'])

  let token: string = ada.access_token
  let refreshToken: string = ada.refresh_token
  const steps: [() => Promise<{ status: number }>, (number | string)[]][] = [
    [() => post('/auth/register', { email, password }), [409, 'registration_refused: email_taken']],
    [() => post('/auth/login', { email, password: 'wrong' }), [401, 'login_failed: wrong password']],
    [() => post('/auth/login', { email: 'nobody@example.com', password: 'wrong' }), [401, 'login_failed: unknown account']],
    [
      async () => {
        const answer = await post('/auth/login', { email, password })
        token = answer.json.access_token
        refreshToken = answer.json.refresh_token
        return answer
      },
      [200, 'logged_in'],
    ],
    [() => post('/auth/refresh', { refresh_token: refreshToken }), [200, 'refreshed']],
    [() => post('/auth/refresh', { refresh_token: 'x' }), [401, 'refresh_failed: unknown']],
    [
      () => post('/auth/password', { current_password: 'wrong', new_password: newPassword }, token),
      [401, 'password_change_failed: wrong password'],
    ],
    [() => post('/auth/password', { current_password: password, new_password: newPassword }, token), [204, 'password_changed']],
    [() => post('/auth/password-reset', { email }), [202, 'password_reset_requested']],
    [() => post('/auth/password-reset', { email: 'nobody@example.com' }), [202, 'password_reset_requested: unknown account']],
    [() => store.call('PATCH', '/me', { token, body: { name: 'Ada' }, from: FROM }), [200, 'account_changed']],
    [
      () => {
        aheadMs = 10_000
        return post('/auth/refresh', { refresh_token: refreshToken })
      },
      [401, 'refresh_reuse_detected'],
    ],
    [() => post('/auth/refresh', { refresh_token: refreshToken }), [401, 'refresh_failed: revoked']],
    [
      async () => {
        const answer = await post('/auth/login', { email, password: newPassword })
        token = answer.json.access_token
        return answer
      },
      [200, 'logged_in'],
    ],
    [() => store.call('POST', '/auth/logout', { token, from: FROM }), [204, 'logged_out']],
  ]
  for (const [work, expected] of steps) assert.deepEqual(await eventsOf(work), expected)
  for (let i = 0; i < 6; i++) await post('/auth/login', { email, password: 'wrong' })
  // The delay is a second. On a slow machine the next attempt may come later, so the delay is extended.
  await store.pool.query(`update rate_limits set expire = $1 where key like 'login-turn:%'`, [Date.now() + 60_000])
  assert.deepEqual(await eventsOf(() => post('/auth/login', { email, password: 'wrong' })), [429, 'throttled: login'])

  const again = await store.ok('POST', '/auth/login', { body: { email, password: newPassword }, from: '198.51.100.1' })
  lines.length = 0
  await store.call('DELETE', '/me', { token: again.access_token, from: FROM })
  assert.deepEqual(idsIn(lines.find(({ event }) => event === 'account_deleted')), ['account_deleted', ada.user.id, 'string'])
})

test('logs an address change when it is requested, refused, made and reverted', async (t) => {
  const { logger, entries: lines } = collectLog()
  const store = await startStore(t, { logger })
  const ada = await store.register()
  const { confirm } = await askForChange(store, ada, 'taken@new.example')
  const eve = await store.register({ email: 'taken@new.example' })
  assert.equal((await confirmChange(store, ada.token, confirm)).status, 409)
  const { revert } = await changeEmail(store, ada, 'ada@new.example')
  assert.equal((await revertChange(store, revert)).status, 204)
  const events = lines.filter(({ msg, user_id }) => msg === 'security event' && user_id !== eve.id)
  assert.deepEqual(
    events.map(({ event, reason, user_id }) => [event, reason ?? null, user_id]),
    [
      ['registered', null, ada.id],
      ['email_change_requested', null, ada.id],
      ['email_change_refused', 'email_taken', ada.id],
      ['email_change_requested', null, ada.id],
      ['email_changed', null, ada.id],
      ['email_change_reverted', null, ada.id],
    ],
  )
  assert.doesNotMatch(JSON.stringify(lines), /new\.example/)
})

test('logs no e-mail address and no secret', async (t) => {
  const { logger, lines } = collectLog('trace')
  const store = await startStore(t, { logger })
  const ada = await store.register({ email: 'ada.in.the.log@example.com', password: 'a passphrase in the log' })
  await store.call('POST', '/auth/login', { body: { email: ada.email, password: 'a wrong passphrase in the log' } })
  await store.call('POST', '/auth/login', { raw: `{"email":"${ada.email}","password":"a passphrase in the log"` })
  await store.call('GET', `/me?access_token=${ada.token}`, { headers: { authorization: `Bearer ${ada.token}x`, cookie: ada.token } })
  await store.call('POST', '/auth/refresh', { body: { refresh_token: ada.refreshToken } })
  await store.pool.query('alter table users rename to users_elsewhere')
  assert.equal((await store.call('POST', '/auth/login', { body: { email: ada.email, password: ada.password } })).status, 500)
  await store.pool.query('alter table users_elsewhere rename to users')
  const log = lines.join('')
  assert.ok(log.includes('request failed'))
  for (const secret of ['in.the.log', 'passphrase in the log', ada.token, ada.token.split('.')[2] ?? '', ada.refreshToken]) {
    assert.ok(!log.includes(secret), secret)
  }
})
