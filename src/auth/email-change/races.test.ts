import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { findWaiting } from '../../../test/database.ts'
import { askForChange, changeEmail, confirmChange, login, mailFor, requestChange, revertChange } from '../../../test/email-changes.ts'
import { eventually } from '../../../test/eventually.ts'
import { createGuest } from '../../../test/guests.ts'
import { aCustomer, moveCustomersIn } from '../../../test/move-in-harness.ts'
import { assertProblem } from '../../../test/problem.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { type Answer, startSecondProcess, startStore } from '../../../test/store.ts'
import { createAdmin } from '../create-admin.ts'
import { Passwords } from '../passwords/password.ts'

const store = await startStore({ after })
const newAddress = () => `${randomUUID()}@new.example`
const rowOf = async (id: string) =>
  (await store.pool.query('select email, email_verified_at is not null as is_proven from users where id = $1', [id])).rows[0]
const accountOf = (token: string) => store.ok('GET', '/me', { token })

/** Runs `work` while a transaction that releases an address is open, and commits it once `work` waits for it. */
async function duringChange(account: { id: string; email: string }, work: () => Promise<Answer>): Promise<Answer> {
  const change = await store.pool.connect()
  await change.query('begin')
  await change.query(
    `insert into email_changes (user_id, old_email, new_email, notice_token_hash, requested_at, changed_at, expires_at)
    values ($1::uuid, $2, 'x@new.example', $1::text::bytea, now(), now(), now() + interval '7 days')`,
    [account.id, account.email],
  )
  await change.query('update users set email = $2 where id = $1', [account.id, newAddress()])
  const answer = work()
  await Promise.race([
    answer,
    eventually(async () => (await findWaiting(store.pool, change)).length > 0, { what: 'a wait for the change' }),
  ])
  await change.query('commit')
  change.release()
  return answer
}

test('an address stays reserved for its former account for seven days, in every way of getting an address', async (t) => {
  const [ada, bob] = [await store.register(), await store.register()]
  const operator = await registerOperator(store)
  const password = 'a long enough passphrase'
  const { revert } = await changeEmail(store, ada, newAddress())
  const { email } = ada
  const registration = await store.call('POST', '/auth/register', { body: { email: email.toUpperCase(), password } })
  assertProblem(registration, 409, 'email_taken')
  const invitation = { email, role: 'support' }
  assertProblem(await operator.call('POST', '/admin/operators', { body: invitation }), 409, 'email_taken')
  const auditContext = { actor: { type: 'system', id: null }, action: 'admin create', requestId: null } as const
  const passwords = new Passwords({ threads: 1, maxWaiting: 0 })
  t.after(() => passwords.stop())
  await assert.rejects(createAdmin(store.pool, passwords, { email, password }, auditContext), { code: 'email_taken' })
  const imported = await moveCustomersIn(store, [aCustomer('ada', { email }), aCustomer('ben')])
  assert.deepEqual(imported.problems, ['1: an account had this address until lately, and may get it back: run the import again in a week'])
  assert.equal(imported.outcomes.created, 1)

  const verifying = await startSecondProcess(t, store, { isEmailVerificationRequired: true })
  const pending = await verifying.call('POST', '/auth/register', { body: { email, password } })
  assert.equal(pending.status, 202)
  assert.equal(await mailFor(store, email, 'address_in_use'), '', 'without a token')
  assert.equal((await requestChange(store, bob.token, email)).status, 202)
  assert.equal((await createGuest(store, email)).email, email, 'anybody may type it for an order')

  // The address becomes free when the time is over, and not earlier.
  await store.pool.query(`update email_changes set expires_at = now() where user_id = $1`, [ada.id])
  assert.equal((await store.register({ email })).email, email)
  assertProblem(await revertChange(store, revert), 422, 'invalid_one_time_token')
})

test('an account gets back an address that it had before', async () => {
  const ada = await store.register()
  const email = newAddress()
  await changeEmail(store, ada, email)
  await changeEmail(store, { ...ada, email }, ada.email)
  assert.deepEqual(await rowOf(ada.id), { email: ada.email, is_proven: true })
})

test('a registration that waits for an address change does not get the released address', async () => {
  const ada = await store.register()
  const body = { email: ada.email, password: 'a long enough passphrase' }
  assertProblem(await duringChange(ada, () => store.call('POST', '/auth/register', { body })), 409, 'email_taken')
})

test('a login with the former address that waits for the address change opens no session', async () => {
  const ada = await store.register()
  assertProblem(await duringChange(ada, () => login(store, ada)), 401, 'invalid_credentials')
})

test('of two accounts that want one address at once, one gets it and the other stays unchanged', async () => {
  for (let round = 0; round < 5; round++) {
    const accounts = [await store.register(), await store.register(), await store.register()]
    const email = newAddress()
    const tokens: string[] = []
    for (const account of accounts) tokens.push((await askForChange(store, account, email)).confirm)
    const answers = await Promise.all(accounts.map(({ token }, i) => confirmChange(store, token, tokens[i] ?? '')))
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 409, 409])
    for (const [i, answer] of answers.entries()) {
      const { id, email: old } = accounts[i] ?? assert.fail()
      if (answer.status === 409) assertProblem(answer, 409, 'email_taken')
      assert.equal((await rowOf(id)).email, answer.status === 200 ? email : old)
    }
  }
})

test('two requests of one account at once leave one confirmable request', async () => {
  const ada = await store.register()
  const addresses = [newAddress(), newAddress(), newAddress()]
  const asked = await Promise.all(addresses.map((email) => requestChange(store, ada.token, email)))
  assert.deepEqual(
    asked.map(({ status }) => status),
    [202, 202, 202],
  )
  const { pending_email: pending } = await accountOf(ada.token)
  const statuses = []
  for (const email of addresses) {
    const { status } = await confirmChange(store, ada.token, await mailFor(store, email, 'confirm_email'))
    statuses.push([status, email === pending])
  }
  assert.deepEqual(statuses.toSorted(), [
    [200, true],
    [422, false],
    [422, false],
  ])
})

test('does not change the address of an account that is erased or blocked meanwhile', async () => {
  const operator = await registerOperator(store)
  for (let round = 0; round < 5; round++) {
    const [ada, bob] = [await store.register(), await store.register()]
    const email = newAddress()
    const { confirm } = await askForChange(store, ada, email)
    const [erased, changed] = await Promise.all([ada.call('DELETE', '/me'), confirmChange(store, ada.token, confirm)])
    assert.ok([200, 401].includes(changed.status), changed.text)
    assert.equal(erased.status, 204, erased.text)
    const { rowCount } = await store.pool.query('select from email_changes where user_id = $1', [ada.id])
    assert.equal(rowCount, 0)

    const { confirm: token } = await askForChange(store, bob, email)
    const body = { reason: 'Fraud' }
    await operator.ok('POST', `/admin/customers/${bob.id}/block`, { body })
    assertProblem(await confirmChange(store, bob.token, token), 401, 'invalid_token')
    assert.deepEqual(await rowOf(bob.id), { email: bob.email, is_proven: false })
  }
})
