import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { eventually } from '../../../test/eventually.ts'
import { assertProblem } from '../../../test/problem.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { addPasskey, addTotp, askedForFactor, signInByPasskey } from '../../../test/second-factor.ts'
import { startSecondProcess, startStore } from '../../../test/store.ts'
import { auditContextOfCommand } from '../../activity/record-activity.ts'
import { inTransaction } from '../../db/transaction.ts'
import { resetFactors } from './reset-factors.ts'

let now = new Date()
const later = (minutes: number) => {
  now = new Date(now.getTime() + minutes * 60_000)
}
const store = await startStore({ after }, { now: () => now, isAdminFactorRequired: false })
const stepUp = (token: string, body: object) => store.call('POST', '/auth/step-up', { token, body })
const changePassword = (token: string, current_password: string, new_password: string) =>
  store.call('POST', '/auth/password', { token, body: { current_password, new_password } })

test('dangerous calls need a proof from the last ten minutes, only for accounts with a second factor', async () => {
  const [plain, guarded] = [await store.register(), await store.register()]
  const { codeAt } = await addTotp(store, guarded.token, now)
  later(11)
  const wrong = assertProblem(await stepUp(plain.token, { password: 'not the password' }), 422, 'invalid_second_factor')
  assert.deepEqual(wrong.methods, ['password'])
  assert.equal((await changePassword(plain.token, plain.password, 'another long enough passphrase')).status, 204)
  await plain.ok('DELETE', '/me')

  assertProblem(await changePassword(guarded.token, guarded.password, 'another long enough passphrase'), 403, 'step_up_required')
  assertProblem(await guarded.call('DELETE', '/me'), 403, 'step_up_required')
  const notAgain = assertProblem(
    await stepUp(guarded.token, { password: guarded.password }),
    422,
    'invalid_second_factor',
    'the first factor',
  )
  assert.deepEqual(notAgain.methods, ['totp', 'recovery_code'])
  assertProblem(await guarded.call('DELETE', '/me'), 403, 'step_up_required')
  assert.equal((await stepUp(guarded.token, { totp_code: codeAt(now) })).status, 204)
  assertProblem(await stepUp(guarded.token, { totp_code: codeAt(now) }), 422, 'invalid_second_factor', 'used')
  assert.equal((await changePassword(guarded.token, guarded.password, 'another long enough passphrase')).status, 204)
  await guarded.ok('DELETE', '/me')
})

test('a proof counts in its own session only', async () => {
  const account = await store.register()
  const { codeAt } = await addTotp(store, account.token, now)
  const { challenge } = await askedForFactor(store, account)
  const other = await store.ok('POST', '/auth/second-factor', { body: { challenge, totp_code: codeAt(now) } })
  later(11)
  assert.equal((await stepUp(other.access_token, { totp_code: codeAt(now) })).status, 204)
  assertProblem(await account.call('DELETE', '/me'), 403, 'step_up_required')
  await store.ok('DELETE', '/me', { token: other.access_token })
})

test('every change of factors needs a fresh proof, even for an account without factors', async () => {
  const account = await store.register()
  const { token } = account
  later(11)
  for (const [method, path, body] of [
    ['POST', '/me/totp'],
    ['POST', '/me/totp/confirm', { totp_code: '000000' }],
    ['DELETE', '/me/totp'],
    ['POST', '/me/passkeys/options'],
    ['POST', '/me/passkeys', {}],
    ['PATCH', '/me/passkeys/01900000-0000-7000-8000-000000000000', { name: 'Phone' }],
    ['DELETE', '/me/passkeys/01900000-0000-7000-8000-000000000000'],
    ['POST', '/me/recovery-codes'],
  ] as const)
    assertProblem(await store.call(method, path, { token, ...(body === undefined ? {} : { body }) }), 403, 'step_up_required', path)
  assertProblem(await stepUp(token, { password: 'not the password' }), 422, 'invalid_second_factor')
  assertProblem(await store.call('POST', '/me/totp', { token }), 403, 'step_up_required')
  assert.equal((await stepUp(token, { password: account.password })).status, 204)
  await store.ok('POST', '/me/totp', { token })
})

test('a guest cannot set up factors, having no way to sign in', async () => {
  const json = await store.ok('POST', '/auth/guest', { body: { email: 'guest@example.com' } })
  assertProblem(await store.call('POST', '/me/passkeys/options', { token: json.access_token }), 403, 'forbidden')
  assertProblem(await store.call('POST', '/me/totp', { token: json.access_token }), 403, 'forbidden')
})

test('a passkey is a fresh proof, with a challenge of the same session', async () => {
  const [account, stranger] = [await store.register(), await store.register()]
  const { authenticator } = await addPasskey(store, account.token)
  const foreign = await addPasskey(store, stranger.token)
  const other = await signInByPasskey(store, authenticator)
  later(11)
  const begin = (token: string) => store.ok('POST', '/auth/step-up/options', { token })
  const begun = await begin(account.token)
  assert.deepEqual(begun.methods, ['password', 'passkey'])
  const answer = { passkey: authenticator.answer(begun.passkey_options) }
  assertProblem(await stepUp(other.json.access_token, answer), 422, 'invalid_challenge', 'another session')
  assert.equal((await stepUp(account.token, answer)).status, 204)
  assertProblem(await stepUp(account.token, answer), 422, 'invalid_challenge', 'replayed')
  await account.ok('POST', '/me/passkeys/options')
  const again = await begin(account.token)
  assertProblem(await stepUp(account.token, { passkey: foreign.authenticator.answer(again.passkey_options) }), 422, 'invalid_second_factor')
  const outdated = await begin(account.token)
  await begin(account.token)
  assertProblem(await stepUp(account.token, { passkey: authenticator.answer(outdated.passkey_options) }), 422, 'invalid_challenge')
  for (const body of [{}, { password: 'x', totp_code: '123456' }]) assertProblem(await stepUp(account.token, body), 422, 'invalid_body')
})

test('changes to runs, API keys and operators need a fresh proof from an operator with a second factor', async () => {
  const operator = await registerOperator(store)
  const { codeAt } = await addTotp(store, operator.token, now)
  later(11)
  const start = () => operator.call('POST', '/admin/audits', { body: { kind: 'replay' } })
  assertProblem(await start(), 403, 'step_up_required')
  const id = '01900000-0000-7000-8000-000000000000'
  for (const [method, path] of [
    ['POST', '/admin/api-keys'],
    ['POST', '/admin/operators'],
    ['PATCH', `/admin/operators/${id}`],
    ['DELETE', `/admin/operators/${id}`],
    ['DELETE', `/admin/operators/${id}/factors`],
  ] as const)
    assertProblem(
      await store.call(method, path, { token: operator.token, ...(method === 'DELETE' ? {} : { body: {} }) }),
      403,
      'step_up_required',
      path,
    )
  assert.equal((await stepUp(operator.token, { totp_code: codeAt(now) })).status, 204)
  // The test store runs no commands, so an allowed call gets another error.
  assert.notEqual((await start()).json.code, 'step_up_required')
})

test('resetting the only admin with a second factor reports it, and then no admin needs one until one has one again', async (t) => {
  const strict = await startStore(t, { now: () => now })
  const [first, second, customer] = [await registerOperator(strict), await registerOperator(strict), await strict.register()]
  const list = (token: string) => strict.call('GET', '/admin/orders', { token })
  const how = { sendAccountMail: async () => {}, auditContext: auditContextOfCommand('admin reset-factors'), now }
  const reset = ({ id }: { id: string }) => inTransaction(strict.pool, (tx) => resetFactors(tx, id, how))
  const late = await strict.register()
  assert.equal((await reset(late)).isLastOfAdmins, false, 'there was none')
  await addTotp(strict, first.token, now)
  await addTotp(strict, customer.token, now)
  assert.equal((await reset(customer)).isLastOfAdmins, false)
  assertProblem(await list(second.token), 403, 'second_factor_setup_required')
  await addTotp(strict, second.token, now)
  assert.equal((await reset(first)).isLastOfAdmins, false, 'the second one has one')
  const json = await strict.ok('POST', '/auth/login', { body: { email: first.email, password: first.password } })
  assertProblem(await list(json.access_token), 403, 'second_factor_setup_required')
  assert.equal((await reset(second)).isLastOfAdmins, true)
  await eventually(async () => (await list(json.access_token)).status === 200, { what: 'the end of the requirement' })
})

test('once an admin has a second factor, the other admins can only set one up, within a second in every process', async (t) => {
  const strict = await startStore(t, { now: () => now })
  const [first, second] = [await registerOperator(strict), await registerOperator(strict)]
  const analyst = await registerOperator(strict)
  await strict.pool.query(`update users set role = 'analyst' where id = $1`, [analyst.id])
  const analysts = await strict.ok('POST', '/auth/login', { body: { email: analyst.email, password: analyst.password } })
  const other = await startSecondProcess(t, strict, { now: () => now })
  const off = await startSecondProcess(t, strict, { now: () => now, isAdminFactorRequired: false })
  // A customer's passkey does not make second factors mandatory.
  await addPasskey(strict, (await strict.register()).token)
  for (const { call } of [strict, other, off]) assert.equal((await call('GET', '/admin/orders', { token: second.token })).status, 200)
  const { codeAt } = await addTotp(strict, first.token, now)
  assertProblem(await second.call('GET', '/admin/orders'), 403, 'second_factor_setup_required')
  await eventually(async () => (await other.call('GET', '/admin/orders', { token: second.token })).status === 403)
  assert.equal((await off.call('GET', '/admin/orders', { token: second.token })).status, 200, 'ADMIN_SECOND_FACTOR=off')
  await first.ok('GET', '/admin/orders')
  assert.equal(
    (await strict.call('GET', '/admin/figures?metric=orders', { token: analysts.access_token })).json?.code ===
      'second_factor_setup_required',
    false,
  )
  const again = await strict.ok('POST', '/auth/login', { body: { email: second.email, password: second.password } })
  await addPasskey(strict, again.access_token)
  await strict.ok('GET', '/admin/orders', { token: again.access_token })
  const { challenge } = await askedForFactor(strict, first)
  await strict.ok('POST', '/auth/second-factor', { body: { challenge, totp_code: codeAt(now) } })
})
