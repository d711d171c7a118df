import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { eventually, promptly } from '../../test/eventually.ts'
import { assertProblem, faults } from '../../test/problem.ts'
import { startSmtpServer, type TestSmtpServer } from '../../test/smtp-server.ts'
import { type StoreOverrides, startSecondProcess, startStore, type TestStore } from '../../test/store.ts'

const PASSWORD = 'a long enough passphrase'
const NEW_PASSWORD = 'quite another passphrase'
const MINUTE_MS = 60_000

/** A store that mails through a real SMTP server, with a clock that can be advanced. */
async function startMailingStore(t: TestContext, overrides: StoreOverrides = {}) {
  const smtp = await startSmtpServer(t)
  let aheadMs = 0
  const now = () => new Date(Date.now() + aheadMs)
  const store = await startStore(t, { roles: ['api', 'email'], smtpUrl: smtp.url, now, ...overrides })
  const forward = (ms: number) => {
    aheadMs += ms
  }
  return { store, smtp, forward, now }
}

const mailTo = (smtp: TestSmtpServer, address: string, count = 1) =>
  eventually(
    async () => {
      const mails = smtp.mails.filter(({ to }) => to !== undefined && 'value' in to && to.value[0]?.address === address)
      return mails.length >= count && mails[count - 1]
    },
    { what: `mail ${count} to ${address}` },
  )

const tokenIn = (mail: { text?: string | undefined }): string => /^[A-Za-z0-9_-]{43}$/m.exec(mail.text ?? '')?.[0] ?? ''

const noMailWaits = (store: TestStore) =>
  eventually(
    async () => {
      const { rows } = await store.pool.query('select count(*) from account_mails')
      return rows[0].count === 0
    },
    { what: 'every account mail to be done' },
  )

const requestReset = (store: TestStore, email: string) => store.call('POST', '/auth/password-reset', { body: { email } })
const confirm = (store: Pick<TestStore, 'call'>, token: unknown, password: unknown = NEW_PASSWORD) =>
  store.call('POST', '/auth/password-reset/confirm', { body: { token, password } })
const login = (store: TestStore, email: string, password: string) => store.call('POST', '/auth/login', { body: { email, password } })

test('a forgotten password is replaced by a mailed token, which ends every session', async (t) => {
  const { store, smtp, now } = await startMailingStore(t)
  const other = await startSecondProcess(t, store, { now })
  const [ada, bob] = [await store.register(), await store.register()]
  assert.equal((await requestReset(store, ada.email.toUpperCase())).status, 202)
  const mail = await mailTo(smtp, ada.email)
  assert.equal(mail.subject, 'Set a new password')
  assert.match(mail.headerLines.map(({ line }) => line).join('\n'), /^List-ID: Your account </im)
  const token = tokenIn(mail)
  assert.equal((await confirm(store, token)).status, 204)
  assertProblem(await ada.call('GET', '/me'), 401, 'invalid_token', 'here, at once')
  const isRefusedThere = async () => (await other.call('GET', '/me', { token: ada.token })).status === 401
  await promptly(store.pool, isRefusedThere, { withinMs: 1_000, what: 'the refusal in the other process' })
  assertProblem(await login(store, ada.email, ada.password), 401, 'invalid_credentials', 'the old password')
  assert.equal((await login(store, ada.email, NEW_PASSWORD)).status, 200)
  assert.equal((await bob.call('GET', '/me')).status, 200, 'another account')
  assertProblem(await confirm(store, token), 422, 'invalid_one_time_token', 'a second time')
  assert.equal((await mailTo(smtp, ada.email, 2)).subject, 'Your password was changed')
})

test('a reset token is valid once, for half an hour, until any of them is used, and only for an acceptable password', async (t) => {
  const { store, smtp, forward } = await startMailingStore(t)
  const ada = await store.register()
  await requestReset(store, ada.email)
  const first = tokenIn(await mailTo(smtp, ada.email))
  for (const [password, code] of [
    ['short', 'invalid_body'],
    ['password1', 'password_too_common'],
    [ada.email, 'password_too_common'],
  ] as const) {
    assert.deepEqual(faults(assertProblem(await confirm(store, first, password), 422, code)), ['#/password'])
  }
  for (const token of ['', 'x', first.slice(1), ada.refreshToken, 'A'.repeat(43)]) {
    assertProblem(await confirm(store, token), 422, 'invalid_one_time_token')
  }
  for (const token of [null, {}, [first], 7]) assertProblem(await confirm(store, token), 422, 'invalid_body')
  await requestReset(store, ada.email)
  const second = tokenIn(await mailTo(smtp, ada.email, 2))
  const uses = await Promise.all([first, first, second, second].map((token, i) => confirm(store, token, `passphrase of use ${i}`)))
  assert.equal(uses.filter(({ status }) => status === 204).length, 1, uses.map(({ status }) => status).join())

  await requestReset(store, ada.email)
  const late = tokenIn(await mailTo(smtp, ada.email, 4))
  forward(30 * MINUTE_MS)
  assertProblem(await confirm(store, late), 422, 'invalid_one_time_token', 'half an hour later')
})

test('a reset for an unknown address gets the same answer, writes the same rows and sends nothing', async (t) => {
  const { store, smtp } = await startMailingStore(t)
  const ada = await store.register()
  const count = async () => {
    const { rows } = await store.pool.query(
      `select (select count(*) from password_resets) as resets, (select count(*) from account_mails) as mails`,
    )
    return rows[0]
  }
  const answers = [await requestReset(store, ada.email), await requestReset(store, 'nobody@example.com')]
  const shown = answers.map(({ status, text, headers }) => [status, text, Object.keys(headers).sort()])
  assert.deepEqual(shown[1], shown[0])
  assert.deepEqual(await count(), { resets: 2, mails: 2 })
  await mailTo(smtp, ada.email)
  await noMailWaits(store)
  assert.deepEqual(smtp.mails.length, 1)
})

test('retries a mail that the server cannot take yet, and stores it encrypted meanwhile', async (t) => {
  const { store, smtp } = await startMailingStore(t)
  const ada = await store.register()
  smtp.refuse(ada.email, { code: 451, text: 'later', times: 1 })
  await requestReset(store, ada.email)
  const token = tokenIn(await mailTo(smtp, ada.email))
  assert.equal((await confirm(store, token)).status, 204)
  const { rows } = await store.pool.query('select encrypted as data from account_mails')
  assert.ok(rows.length > 0)
  for (const { data } of rows) assert.ok(!data.includes(token) && !data.includes(ada.email))
})

test('account mails link to the page of the shop if there is one', async (t) => {
  const { store, smtp } = await startMailingStore(t, { accountUrl: 'https://shop.example/account' })
  const ada = await store.register()
  await requestReset(store, ada.email)
  const mail = await mailTo(smtp, ada.email)
  const token = /^https:\/\/shop\.example\/account#reset-password=([A-Za-z0-9_-]{43})$/m.exec(mail.text ?? '')?.[1]
  const html = String(mail.html).replaceAll('&#x2F;', '/').replaceAll('&#x3D;', '=')
  assert.ok(token !== undefined && html.includes(`<a href="https://shop.example/account#reset-password=${token}"`), html)
})

test('with verification required, an account is created when its address is verified', async (t) => {
  const { store, smtp, forward } = await startMailingStore(t, { isEmailVerificationRequired: true })
  const register = (email: string, password = PASSWORD) => store.call('POST', '/auth/register', { body: { email, password, name: 'Ada' } })
  const verify = (token: unknown) => store.call('POST', '/auth/verify-email', { body: { token, password: PASSWORD } })
  const pending = await register('Ada@example.com')
  assert.deepEqual([pending.status, pending.json], [202, { status: 'verification_required' }])
  assertProblem(await login(store, 'ada@example.com', PASSWORD), 401, 'invalid_credentials', 'not yet')
  // Another person registers first, with another password.
  await register('ada@example.com', 'the passphrase of eve')
  const token = tokenIn(await mailTo(smtp, 'ada@example.com'))
  const evesToken = tokenIn(await mailTo(smtp, 'ada@example.com', 2))

  for (const bad of ['', 'x', 'A'.repeat(43)]) assertProblem(await verify(bad), 422, 'invalid_one_time_token')
  const opened = await verify(token)
  assert.equal(opened.status, 200, opened.text)
  assert.deepEqual([opened.json.user.email, opened.json.user.name, opened.json.user.role], ['ada@example.com', 'Ada', 'customer'])
  await store.ok('GET', '/me', { token: opened.json.access_token })
  for (const used of [token, evesToken]) assertProblem(await verify(used), 422, 'invalid_one_time_token')
  assert.equal((await login(store, 'ada@example.com', PASSWORD)).status, 200)
  assertProblem(await login(store, 'ada@example.com', 'the passphrase of eve'), 401, 'invalid_credentials')

  const taken = await register('ada@example.com')
  assert.deepEqual([taken.status, taken.text, Object.keys(taken.headers).sort()], [202, pending.text, Object.keys(pending.headers).sort()])
  const notice = await mailTo(smtp, 'ada@example.com', 3)
  assert.equal(notice.subject, 'You have an account already')
  assert.equal(tokenIn(notice), '')

  await register('late@example.com')
  const late = tokenIn(await mailTo(smtp, 'late@example.com'))
  forward(24 * 60 * MINUTE_MS)
  assertProblem(await verify(late), 422, 'invalid_one_time_token', 'a day later')
  assertProblem(await register('short@example.com', 'password1'), 422, 'password_too_common')
})

test('a registration that is verified after its address was taken creates no second account', async (t) => {
  const { store, smtp } = await startMailingStore(t, { isEmailVerificationRequired: true })
  const other = await startSecondProcess(t, store, { isEmailVerificationRequired: false })
  await store.call('POST', '/auth/register', { body: { email: 'ada@example.com', password: PASSWORD } })
  const token = tokenIn(await mailTo(smtp, 'ada@example.com'))
  const first = await other.call('POST', '/auth/register', { body: { email: 'ada@example.com', password: PASSWORD } })
  assert.equal(first.status, 201)
  assertProblem(await store.call('POST', '/auth/verify-email', { body: { token, password: PASSWORD } }), 409, 'email_taken')
  assert.equal((await store.pool.query('select from users')).rowCount, 1)
})
