import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem } from '../../../test/problem.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { addPasskey, addTotp, askedForFactor, signInByPasskey } from '../../../test/second-factor.ts'
import { startSecondProcess, startStore } from '../../../test/store.ts'
import { encrypt } from '../encryption.ts'

let now = new Date()
const later = (seconds: number) => {
  now = new Date(now.getTime() + seconds * 1000)
}
// Another test covers the rule for admins.
const store = await startStore({ after }, { now: () => now, isAdminFactorRequired: false })
const complete = (body: object) => store.call('POST', '/auth/second-factor', { body })

test('an account without a second factor signs in with its password alone, and one with an app also needs a code', async () => {
  const account = await store.register()
  const other = await store.ok('POST', '/auth/login', { body: { email: account.email, password: account.password } })
  const { codeAt, recoveryCodes } = await addTotp(store, account.token, now)
  assert.equal(recoveryCodes?.length, 10)
  assert.equal(new Set(recoveryCodes).size, 10)
  assert.match(recoveryCodes?.[0] ?? '', /^[A-Z2-7]{4}(-[A-Z2-7]{4}){3}$/)
  assertProblem(await store.call('GET', '/me', { token: other.access_token }), 401, 'invalid_token', 'opened without it')
  await account.ok('GET', '/me')

  const asked = await askedForFactor(store, account)
  assert.deepEqual([asked.methods, asked.passkey_options, asked.expires_in], [['totp', 'recovery_code'], null, 300])
  const opened = await complete({ challenge: asked.challenge, totp_code: codeAt(now) })
  assert.equal(opened.status, 200, opened.text)
  assert.equal(opened.json.user.id, account.id)
  const factors = await store.ok('GET', '/me/factors', { token: opened.json.access_token })
  assert.deepEqual(factors.authenticated_by, ['password', 'totp'])
  assert.deepEqual([factors.second_factor_required, factors.recovery_codes_left], [true, 10])
  assertProblem(await complete({ challenge: asked.challenge, totp_code: codeAt(now, 1) }), 422, 'invalid_challenge', 'used')
})

test('a wrong password of an account with a second factor gets the answer of any other wrong password', async () => {
  const account = await store.register()
  await addTotp(store, account.token, now)
  const wrong = await store.call('POST', '/auth/login', { body: { email: account.email, password: 'not the password' } })
  const unknown = await store.call('POST', '/auth/login', { body: { email: 'nobody@example.com', password: 'not the password' } })
  const plain = ({ json: { request_id: _, trace_id: __, ...problem } }: typeof wrong) => problem
  assert.deepEqual(plain(wrong), plain(unknown))
})

test('a code works once, at both ends of its validity, even in two processes at once', async (t) => {
  const account = await store.register()
  const { codeAt } = await addTotp(store, account.token, now)
  const second = await startSecondProcess(t, store, { now: () => now })
  const asked = await Promise.all([1, 2].map(() => askedForFactor(store, account)))
  const code = codeAt(now)
  const answers = await Promise.all(
    asked.map(({ challenge }, index) =>
      (index === 0 ? store : second).call('POST', '/auth/second-factor', { body: { challenge, totp_code: code } }),
    ),
  )
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 422])
  const { challenge } = await askedForFactor(store, account)
  // This code is older than the used one, although it has not expired.
  assertProblem(await complete({ challenge, totp_code: codeAt(now, -1) }), 422, 'invalid_second_factor')
  assertProblem(await complete({ challenge, totp_code: codeAt(now, 2) }), 422, 'invalid_second_factor')
  assert.equal((await complete({ challenge, totp_code: codeAt(now, 1) })).status, 200)
})

test('a code for an app whose secret nobody can decrypt is wrong, and a recovery code signs in', async () => {
  const account = await store.register()
  const { codeAt, recoveryCodes } = await addTotp(store, account.token, now)
  const lost = encrypt('a secret that was lost with its file', 'totp secret', 'JBSWY3DPEHPK3PXP').toString('base64')
  await store.pool.query('update totp_authenticators set encrypted_secret = $2 where user_id = $1', [account.id, lost])
  const { challenge } = await askedForFactor(store, account)
  assertProblem(await complete({ challenge, totp_code: codeAt(now) }), 422, 'invalid_second_factor')
  assert.equal((await complete({ challenge, recovery_code: recoveryCodes?.[0] })).status, 200)
})

test('a challenge accepts five answers, for five minutes, for its own account', async () => {
  const [ada, eve] = [await store.register(), await store.register()]
  const [hers, eves] = [await addTotp(store, ada.token, now), await addTotp(store, eve.token, now)]
  const { challenge } = await askedForFactor(store, ada)
  assertProblem(await complete({ challenge, totp_code: eves.codeAt(now) }), 422, 'invalid_second_factor', "another account's code")
  assertProblem(await complete({ challenge, recovery_code: eves.recoveryCodes?.[0] }), 422, 'invalid_second_factor')
  for (let attempt = 3; attempt <= 5; attempt++)
    assertProblem(await complete({ challenge, totp_code: '000000' }), 422, 'invalid_second_factor')
  assertProblem(await complete({ challenge, totp_code: hers.codeAt(now) }), 422, 'invalid_challenge')
  const late = await askedForFactor(store, ada)
  later(301)
  assertProblem(await complete({ challenge: late.challenge, totp_code: hers.codeAt(now) }), 422, 'invalid_challenge')
})

test('an answer has a challenge and exactly one proof', async () => {
  const account = await store.register()
  const { codeAt } = await addTotp(store, account.token, now)
  const { challenge } = await askedForFactor(store, account)
  for (const body of [
    { challenge },
    { totp_code: '123456' },
    { challenge, totp_code: '123456', recovery_code: 'A' },
    { challenge, totp_code: '12 456' },
  ])
    assertProblem(await complete(body), 422, 'invalid_body')
  assert.equal((await complete({ challenge, totp_code: codeAt(now) })).status, 200)
})

test('a recovery code works once in any spelling, its use is mailed, and only hashes are stored', async () => {
  const account = await store.register()
  const { recoveryCodes } = await addTotp(store, account.token, now)
  const [code = '', second = ''] = recoveryCodes ?? []
  const spellings = [code.toLowerCase().replaceAll('-', ' '), code]
  const statuses: number[] = []
  for (const recovery_code of spellings) {
    const { challenge } = await askedForFactor(store, account)
    statuses.push((await complete({ challenge, recovery_code })).status)
  }
  assert.deepEqual(statuses, [200, 422])
  const asked = await askedForFactor(store, account)
  const opened = await complete({ challenge: asked.challenge, recovery_code: second })
  const token = opened.json.access_token
  assert.equal((await store.ok('GET', '/me/factors', { token })).recovery_codes_left, 8)
  const renewed = await store.call('POST', '/me/recovery-codes', { token })
  assert.equal(renewed.json.recovery_codes.length, 10)
  const again = await askedForFactor(store, account)
  assertProblem(await complete({ challenge: again.challenge, recovery_code: recoveryCodes?.[2] }), 422, 'invalid_second_factor')
  const { rows } = await store.pool.query(`select encode(code_hash, 'escape') as hash from recovery_codes where user_id = $1`, [account.id])
  assert.equal(rows.length, 10)
  for (const shown of renewed.json.recovery_codes) assert.equal(JSON.stringify(rows).includes(shown.replaceAll('-', '')), false)
})

test('an operator with a passkey needs it after the password, or signs in with it alone', async () => {
  const operator = await registerOperator(store)
  const { authenticator, recoveryCodes } = await addPasskey(store, operator.token)
  assert.equal(recoveryCodes?.length, 10)
  const asked = await askedForFactor(store, operator)
  assert.deepEqual(asked.methods, ['passkey', 'recovery_code'])
  const { challenge, passkey_options } = asked
  const stranger = await addPasskey(store, (await store.register()).token)
  assertProblem(
    await complete({ challenge, passkey: stranger.authenticator.answer({ challenge }) }),
    422,
    'invalid_second_factor',
    "another account's passkey",
  )
  assertProblem(await complete({ challenge, passkey: authenticator.answer({ challenge }) }), 422, 'invalid_challenge', 'answered already')
  const again = await askedForFactor(store, operator)
  assertProblem(
    await complete({ challenge: again.challenge, passkey: authenticator.answer({ challenge }) }),
    422,
    'invalid_second_factor',
    'the challenge before',
  )
  const third = await askedForFactor(store, operator)
  assert.equal(
    (await complete({ challenge: third.challenge, passkey: authenticator.answer(third.passkey_options ?? { challenge: '' }) })).status,
    200,
  )
  assert.notEqual(passkey_options, null)
  const alone = await signInByPasskey(store, authenticator)
  await store.ok('GET', '/admin/orders', { token: alone.json.access_token })
})

test('a password change ends the challenge', async () => {
  const account = await store.register()
  const { codeAt } = await addTotp(store, account.token, now)
  const { challenge } = await askedForFactor(store, account)
  const body = { current_password: account.password, new_password: 'another long enough passphrase' }
  await account.ok('POST', '/auth/password', { body })
  assertProblem(await complete({ challenge, totp_code: codeAt(now) }), 422, 'invalid_challenge')
})

test('sign-ins ask for an app only after it has proven a code; it is set up once, and its secret is encrypted', async () => {
  const account = await store.register()
  const { token } = account
  const abandoned = await store.call('POST', '/me/totp', { token })
  assert.match(abandoned.json.uri, /^otpauth:\/\/totp\/localhost:/)
  assertProblem(await store.call('POST', '/me/totp/confirm', { token, body: { totp_code: '000000' } }), 422, 'invalid_second_factor')
  await store.ok('POST', '/auth/login', { body: { email: account.email, password: account.password } })
  const { secret } = await addTotp(store, token, now)
  assert.notEqual(secret, abandoned.json.secret)
  assertProblem(await store.call('POST', '/me/totp', { token }), 409, 'totp_active')
  const { rows } = await store.pool.query('select * from totp_authenticators where user_id = $1', [account.id])
  assert.equal(JSON.stringify(rows).includes(secret), false)
  await store.ok('DELETE', '/me/totp', { token })
  assertProblem(await store.call('DELETE', '/me/totp', { token }), 404, 'not_found')
  assertProblem(await store.call('POST', '/me/recovery-codes', { token }), 404, 'not_found')
  assert.equal((await store.ok('GET', '/me/factors', { token })).recovery_codes_left, 0)
  await store.ok('POST', '/auth/login', { body: { email: account.email, password: account.password } })
})

test("an operator's changes are activities without secrets, and a customer's changes are not activities", async () => {
  const [operator, customer] = [await registerOperator(store), await store.register()]
  const { id } = await addPasskey(store, operator.token)
  await addTotp(store, operator.token, now)
  await operator.call('POST', '/me/recovery-codes')
  await operator.call('PATCH', `/me/passkeys/${id}`, { body: { name: 'Phone of Jane Roe' } })
  await operator.call('DELETE', `/me/passkeys/${id}`)
  await addPasskey(store, customer.token)
  const { rows } = await store.pool.query(
    `select action, subject_type, subject_id, before, after from activities where actor_id = any($1) order by id`,
    [[operator.id, customer.id]],
  )
  const subject = { subject_type: 'account', subject_id: operator.id }
  assert.deepEqual(rows, [
    { action: 'addPasskey', ...subject, before: null, after: { factor: 'passkey' } },
    { action: 'confirmTotp', ...subject, before: null, after: { factor: 'totp' } },
    { action: 'renewRecoveryCodes', ...subject, before: null, after: { recovery_codes: 'renewed' } },
    { action: 'renamePasskey', ...subject, before: null, after: { passkey: 'renamed' } },
    { action: 'removePasskey', ...subject, before: { factor: 'passkey' }, after: null },
  ])
})

test('deleting the account erases app and recovery codes', async () => {
  const account = await store.register()
  await addTotp(store, account.token, now)
  await account.ok('DELETE', '/me')
  const { rows } = await store.pool.query(
    `select (select count(*) from totp_authenticators where user_id = $1) + (select count(*) from recovery_codes where user_id = $1) as left`,
    [account.id],
  )
  assert.equal(Number(rows[0].left), 0)
})
