import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { readAccountMails } from '../../../test/account-mails.ts'
import { askForChange, changeEmail, confirmChange, login, mailFor, requestChange } from '../../../test/email-changes.ts'
import { eventually, promptly } from '../../../test/eventually.ts'
import { createGuest, placeOrder } from '../../../test/guests.ts'
import { assertProblem, faults } from '../../../test/problem.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { addPasskey, addTotp } from '../../../test/second-factor.ts'
import { startSmtpServer } from '../../../test/smtp-server.ts'
import { startSecondProcess, startStore } from '../../../test/store.ts'

let aheadMs = 0
const now = () => new Date(Date.now() + aheadMs)
const MINUTE_MS = 60_000
const store = await startStore({ after }, { now })
const newAddress = () => `${randomUUID()}@new.example`
const accountOf = (token: string) => store.ok('GET', '/me', { token })
const rowOf = async (id: string) =>
  (await store.pool.query('select email, email_verified_at is not null as is_proven from users where id = $1', [id])).rows[0]

test('an address changes when the token mailed to it is returned: other sessions end, and both mailboxes are told', async (t) => {
  const smtp = await startSmtpServer(t)
  const mailing = await startStore(t, { roles: ['api', 'email'], smtpUrl: smtp.url, accountUrl: 'https://shop.example/account' })
  const other = await startSecondProcess(t, mailing)
  const ada = await mailing.register({ email: 'ada@old.example' })
  const { json: phone } = await login(mailing, ada)
  const mailAbout = (to: string, subject: RegExp) =>
    eventually(async () => smtp.mails.find((mail) => JSON.stringify(mail.to).includes(to) && subject.test(mail.subject ?? '')) ?? false, {
      what: `a mail to ${to} about ${subject}`,
    })
  const tokenIn = (mail: { text?: string | undefined }, action: string) =>
    new RegExp(`^https://shop\\.example/account#${action}=([\\w-]{43})$`, 'm').exec(mail.text ?? '')?.[1] ?? assert.fail(mail.text)

  const asked = await requestChange(mailing, ada.token, 'Ada@New.example')
  assert.deepEqual([asked.status, asked.json, asked.headers['cache-control']], [202, { status: 'accepted' }, 'no-store'])
  const pending = await ada.ok('GET', '/me')
  assert.deepEqual([pending.email, pending.pending_email], [ada.email, 'ada@new.example'])
  const notice = await mailAbout(ada.email, /^Another e-mail address/)
  assert.ok(tokenIn(notice, 'revert-email'))
  const mail = await mailAbout('ada@new.example', /^Confirm your e-mail address$/)
  for (const { text, html } of [notice, mail]) assert.doesNotMatch(`${text}${html}`, /\w@\w/, 'neither names an address')

  const confirmed = await confirmChange(mailing, ada.token, tokenIn(mail, 'confirm-email'))
  assert.deepEqual([confirmed.status, confirmed.json.id, confirmed.json.email], [200, ada.id, 'ada@new.example'])
  const changed = await ada.ok('GET', '/me')
  assert.deepEqual([changed.email, changed.pending_email], ['ada@new.example', null])
  assertProblem(await mailing.call('GET', '/me', { token: phone.access_token }), 401, 'invalid_token', 'the other session')
  const isRefusedThere = async () => (await other.call('GET', '/me', { token: phone.access_token })).status === 401
  await promptly(mailing.pool, isRefusedThere, { withinMs: 1_000, what: 'the refusal in the other process' })
  assertProblem(await login(mailing, ada), 401, 'invalid_credentials', 'the old address')
  assert.equal((await login(mailing, { ...ada, email: 'ADA@new.example' })).status, 200)
  assert.ok(tokenIn(await mailAbout(ada.email, /^The e-mail address of your account was changed$/), 'revert-email'))
  const { rows } = await mailing.pool.query('select email_verified_at is not null as is_proven from users')
  assert.deepEqual(rows, [{ is_proven: true }])
})

test('a waiting mail about an order goes to the new address', async (t) => {
  const smtp = await startSmtpServer(t)
  const mailing = await startStore(t, { roles: ['api', 'stream', 'email'], smtpUrl: smtp.url })
  const ada = await mailing.register()
  smtp.refuse(ada.email, { code: 451, text: 'later' })
  await placeOrder(mailing, ada.token, await mailing.addProduct())
  const isTried = async () => (await mailing.pool.query('select from email_deliveries where attempts > 0')).rowCount === 1
  await eventually(isTried, { what: 'an attempt at the old mailbox' })
  const email = newAddress()
  await changeEmail(mailing, ada, email)
  const mail = await eventually(async () => smtp.mails.find(({ subject }) => /^We have received/.test(subject ?? '')), { what: 'the mail' })
  assert.ok(JSON.stringify(mail.to).includes(email))
})

test('a free, a taken and a reserved address get the same answer after the same work', async () => {
  const [ada, bob, eve] = [await store.register(), await store.register(), await store.register()]
  const former = bob.email
  await changeEmail(store, bob, newAddress())
  const guest = await createGuest(store, newAddress())
  const shown = []
  for (const email of [newAddress(), eve.email, eve.email.toUpperCase(), former, guest.email]) {
    const before = await readAccountMails(store)
    const { status, text, headers } = await requestChange(store, ada.token, email)
    const { pending_email } = await accountOf(ada.token)
    const mails = (await readAccountMails(store)).slice(before.length)
    const { rows } = await store.pool.query('select count(*) from email_changes where user_id = $1 and confirm_token_hash is not null', [
      ada.id,
    ])
    shown.push([
      status,
      text,
      Object.keys(headers).sort(),
      pending_email === email.toLowerCase(),
      mails.map(({ to }) => to === ada.email),
      rows,
    ])
    const kind = [eve.email, former].includes(email.toLowerCase()) ? 'address_in_use' : 'confirm_email'
    assert.deepEqual(
      mails.map((mail) => [mail.kind, mail.to]),
      [
        [kind, email.toLowerCase()],
        ['email_change_requested', ada.email],
      ],
    )
  }
  for (const each of shown) assert.deepEqual(each, [202, '{"status":"accepted"}', shown[0]?.[2], true, [false, true], [{ count: 1 }]])
})

test("refuses an invalid address, and the account's own address in any spelling", async () => {
  const ada = await store.register({ email: 'ada@bücher.example' })
  for (const email of ['x', 'a@b', 'Ada <ada@example.com>'])
    assertProblem(await requestChange(store, ada.token, email), 422, 'invalid_body')
  for (const email of [ada.email, 'ADA@Bücher.example', 'ada@xn--bcher-kva.example'])
    assert.deepEqual(faults(assertProblem(await requestChange(store, ada.token, email), 422, 'invalid_body')), ['#/email'])
  assert.equal((await accountOf(ada.token)).pending_email, null)
})

test("needs a fresh proof by one of the account's own methods; a guest has none", async () => {
  const [plain, keyed, guarded] = [await store.register(), await store.register(), await store.register()]
  const guest = await createGuest(store, newAddress())
  assertProblem(await requestChange(store, guest.token, newAddress()), 403, 'forbidden')
  const { authenticator } = await addPasskey(store, keyed.token)
  await store.pool.query('update users set password_hash = null where id = $1', [keyed.id])
  const { codeAt } = await addTotp(store, guarded.token, now())
  aheadMs += 11 * MINUTE_MS
  const stepUp = async (token: string, proof: object) =>
    assert.equal((await store.call('POST', '/auth/step-up', { token, body: proof })).status, 204)
  for (const { token } of [plain, keyed, guarded]) assertProblem(await requestChange(store, token, newAddress()), 403, 'step_up_required')
  await stepUp(plain.token, { password: plain.password })
  const begun = await keyed.call('POST', '/auth/step-up/options')
  await stepUp(keyed.token, { passkey: authenticator.answer(begun.json.passkey_options) })
  await stepUp(guarded.token, { totp_code: codeAt(now()) })
  const asked = []
  for (const account of [plain, keyed, guarded]) asked.push({ account, ...(await askForChange(store, account, newAddress())) })
  // The token is enough proof, because the mail may be read later.
  aheadMs += 11 * MINUTE_MS
  for (const { account, confirm } of asked) {
    const json = await store.ok('POST', '/auth/refresh', { body: { refresh_token: account.refreshToken } })
    assertProblem(await requestChange(store, json.access_token, newAddress()), 403, 'step_up_required')
    assert.equal((await confirmChange(store, json.access_token, confirm)).status, 200)
  }
})

test('a token changes the address of its own account only, once, within a day, and until another address is requested', async () => {
  const [ada, eve] = [await store.register(), await store.register()]
  const [first, second] = [newAddress(), newAddress()]
  const { confirm: replaced } = await askForChange(store, ada, first)
  const { confirm, notice } = await askForChange(store, ada, second)
  const refused = async (session: string, token: string, what: string) =>
    assertProblem(await confirmChange(store, session, token), 422, 'invalid_one_time_token', what)
  for (const token of ['', 'x', confirm.slice(1), notice, replaced, ada.refreshToken, 'A'.repeat(43)])
    await refused(ada.token, token, token)
  await refused(eve.token, confirm, 'another account')
  assertProblem(await store.call('POST', '/me/email/confirm', { body: { token: confirm } }), 401, 'unauthenticated')
  assert.equal((await rowOf(ada.id)).email, ada.email)
  const { json: phone } = await login(store, ada)
  const uses = await Promise.all([1, 2, 3].map(() => confirmChange(store, phone.access_token, confirm)))
  assert.deepEqual(uses.map(({ status }) => status).toSorted(), [200, 422, 422])
  assert.equal((await rowOf(ada.id)).email, second)

  const { confirm: late } = await askForChange(store, eve, newAddress())
  aheadMs += 24 * 60 * MINUTE_MS
  const { json: again } = await login(store, eve)
  await refused(again.access_token, late, 'a day later')
  assert.equal((await accountOf(again.access_token)).pending_email, null)
})

test('tokens mailed to the old address, registrations of the new one and half-finished logins no longer work', async (t) => {
  const verifying = await startSecondProcess(t, store, { isEmailVerificationRequired: true, now })
  const ada = await store.register()
  const email = newAddress()
  const password = 'the passphrase of eve'
  await verifying.call('POST', '/auth/register', { body: { email, password } })
  const registration = await mailFor(store, email, 'verify_email')
  await store.call('POST', '/auth/password-reset', { body: { email: ada.email } })
  const reset = await mailFor(store, ada.email, 'reset_password')
  const { codeAt } = await addTotp(store, ada.token, now())
  const { json: asked } = await login(store, ada)
  await changeEmail(store, ada, email)
  const refused = [
    await store.call('POST', '/auth/password-reset/confirm', { body: { token: reset, password } }),
    await verifying.call('POST', '/auth/verify-email', { body: { token: registration, password } }),
  ]
  for (const answer of refused) assertProblem(answer, 422, 'invalid_one_time_token')
  const half = await store.call('POST', '/auth/second-factor', { body: { challenge: asked.challenge, totp_code: codeAt(now()) } })
  assertProblem(half, 422, 'invalid_challenge')
  await store.ok('POST', '/auth/password-reset', { body: { email: ada.email } })
  const { rows } = await store.pool.query('select from password_resets where user_id = $1', [ada.id])
  assert.equal(rows.length, 0)
})

test('a password reset withdraws an earlier change request', async () => {
  const ada = await store.register()
  const { confirm } = await askForChange(store, ada, newAddress())
  await store.call('POST', '/auth/password-reset', { body: { email: ada.email } })
  const body = { token: await mailFor(store, ada.email, 'reset_password'), password: 'quite another passphrase' }
  await store.ok('POST', '/auth/password-reset/confirm', { body })
  const { json } = await login(store, { email: ada.email, password: body.password })
  assert.equal(json.user.email, ada.email)
  assertProblem(await confirmChange(store, json.access_token, confirm), 422, 'invalid_one_time_token')
})

test("the orders of the new address's guests come with it", async () => {
  const ada = await store.register()
  const email = newAddress()
  const guest = await createGuest(store, email)
  await placeOrder(store, guest.token, await store.addProduct())
  await changeEmail(store, ada, email)
  assert.equal((await ada.ok('GET', '/orders')).data.length, 1)
  assertProblem(await guest.call('GET', '/me'), 401, 'invalid_token')
})

test("an operator's address changes by links to the console, and the activity record omits the address", async () => {
  const operator = await registerOperator(store)
  const email = newAddress()
  await changeEmail(store, operator, email)
  const mails = (await readAccountMails(store)).filter(({ to }) => to === operator.email || to === email)
  assert.deepEqual(
    mails.map(({ kind, isForConsole }) => [kind, isForConsole]),
    ['confirm_email', 'email_change_requested', 'email_changed'].map((kind) => [kind, true]),
  )
  const { rows } = await store.pool.query('select action, subject_id, before, after from activities where actor_id = $1 order by id', [
    operator.id,
  ])
  assert.deepEqual(rows, [
    { action: 'requestEmailChange', subject_id: operator.id, before: null, after: { email: 'change requested' } },
    { action: 'confirmEmailChange', subject_id: operator.id, before: null, after: { email: 'changed' } },
  ])
})

test("an account has five requests an hour and uses up four of the ten mails to a new address, and none of its owner's", async (t) => {
  const limited = await startStore(t, { isRateLimited: true })
  const [ada, bob, eve] = [await limited.register(), await limited.register(), await limited.register()]
  const mailsTo = async (kind: string) =>
    (await readAccountMails(limited)).filter((mail) => mail.to === eve.email && mail.kind === kind).length
  for (const { token } of [ada, bob]) {
    const statuses = []
    for (let i = 0; i < 6; i++) statuses.push((await requestChange(limited, token, eve.email)).status)
    assert.deepEqual(statuses, [202, 202, 202, 202, 202, 429])
  }
  assert.equal(await mailsTo('address_in_use'), 8)
  const { json } = await login(limited, eve)
  await requestChange(limited, json.access_token, 'eve@new.example')
  for (let i = 0; i < 4; i++) await requestChange(limited, (await limited.register()).token, eve.email)
  assert.equal(await mailsTo('address_in_use'), 10, 'of all accounts together')
  await limited.call('POST', '/auth/password-reset', { body: { email: eve.email } })
  assert.ok(await mailFor(limited, eve.email, 'reset_password'))
})

test('two accounts that request an address do not keep its owner from changing to it', async (t) => {
  const limited = await startStore(t, { isRateLimited: true })
  const email = newAddress()
  for (const { token } of [await limited.register(), await limited.register()])
    for (let i = 0; i < 5; i++) await requestChange(limited, token, email)
  const before = (await readAccountMails(limited)).filter(({ to }) => to === email).length
  const owner = await limited.register()
  await requestChange(limited, owner.token, email)
  assert.equal((await confirmChange(limited, owner.token, await mailFor(limited, email, 'confirm_email'))).status, 200, `${before} before`)
})
