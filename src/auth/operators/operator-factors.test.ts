import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { newestToken, readAccountMails } from '../../../test/account-mails.ts'
import { eventually } from '../../../test/eventually.ts'
import { assertProblem } from '../../../test/problem.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { addPasskey, addTotp, askedForFactor } from '../../../test/second-factor.ts'
import { startSecondProcess, startStore, type TestStore } from '../../../test/store.ts'

let now = new Date()
const store = await startStore({ after }, { now: () => now })
const other = await startSecondProcess({ after }, store, { now: () => now })

const reset = (id: string, token: string, { call }: Pick<TestStore, 'call'> = store) =>
  call('DELETE', `/admin/operators/${id}/factors`, { token })
/** An admin with an authenticator app, which managing operators with factors requires. */
async function registerGuarded() {
  const operator = await registerOperator(store)
  return { ...operator, ...(await addTotp(store, operator.token, now)) }
}
async function listed(token: string, id: string) {
  const json = await store.ok('GET', '/admin/operators?limit=100', { token })
  return json.data.find((operator: { id: string }) => operator.id === id)
}
const login = ({ email, password }: { email: string; password: string }) => store.call('POST', '/auth/login', { body: { email, password } })

test("an admin resets another operator's factors: the password signs in again, sessions end, the owner gets a mail", async () => {
  const [boss, clerk, kept] = [await registerGuarded(), await registerOperator(store, 'support'), await registerOperator(store, 'support')]
  assert.equal((await listed(boss.token, clerk.id)).has_second_factor, false)
  await addTotp(store, clerk.token, now)
  await addPasskey(store, clerk.token)
  await addPasskey(store, kept.token)
  assert.equal((await listed(boss.token, clerk.id)).has_second_factor, true)
  await askedForFactor(store, clerk)

  assert.equal((await reset(clerk.id.toUpperCase(), boss.token)).status, 204)
  assert.equal((await clerk.call('GET', '/me')).status, 401)
  await eventually(async () => (await other.call('GET', '/me', { token: clerk.token })).status === 401, { what: 'the end elsewhere' })
  assert.equal((await login(clerk)).status, 200)
  assert.equal((await listed(boss.token, clerk.id)).has_second_factor, false)
  assert.equal((await listed(boss.token, kept.id)).has_second_factor, true, 'of nobody else')
  await askedForFactor(store, kept)
  const last = (await readAccountMails(store)).at(-1)
  assert.deepEqual([last?.kind, last?.to], ['second_factor_removed', clerk.email])
  const { rows } = await store.pool.query(
    'select actor_type, actor_id, action, before, after from activities where subject_id = $1 order by id desc limit 1',
    [clerk.id],
  )
  assert.deepEqual(rows, [
    {
      ...{ actor_type: 'admin', actor_id: boss.id, action: 'resetOperatorFactors' },
      ...{ before: { passkeys: 1, totp: 1 }, after: { passkeys: 0, totp: 0 } },
    },
  ])
})

test("refuses to reset one's own factors, a customer's, and any without the scope or a proof from the last ten minutes", async () => {
  const boss = await registerGuarded()
  const plain = await registerOperator(store, 'support')
  const customer = await store.register()
  await addTotp(store, customer.token, now)
  assertProblem(await reset(boss.id, boss.token), 403, 'forbidden')
  assertProblem(await reset(customer.id, boss.token), 404, 'not_found')
  assertProblem(await reset(randomUUID(), boss.token), 404, 'not_found')
  assertProblem(await reset(boss.id, plain.token), 403, 'forbidden')
  await askedForFactor(store, customer)
  await askedForFactor(store, boss)
  now = new Date(now.getTime() + 11 * 60_000)
  const clerk = await registerOperator(store, 'support')
  await addTotp(store, clerk.token, now)
  assertProblem(await reset(clerk.id, boss.token), 403, 'step_up_required')
  await store.ok('POST', '/auth/step-up', { token: boss.token, body: { totp_code: boss.codeAt(now) } })
  assert.equal((await reset(clerk.id, boss.token)).status, 204)
})

test('an admin without a second factor needs a proof too, even if admins need no second factor', async (t) => {
  const lax = await startStore(t, { now: () => now, isAdminFactorRequired: false })
  const [boss, clerk] = [await registerOperator(lax), await registerOperator(lax, 'support')]
  now = new Date(now.getTime() + 11 * 60_000)
  assertProblem(await reset(clerk.id, boss.token, lax), 403, 'step_up_required')
  await boss.ok('POST', '/auth/step-up', { body: { password: boss.password } })
  assert.equal((await reset(clerk.id, boss.token, lax)).status, 204)
})

test('of two admins who reset each other at once, in two processes, one keeps the second factor', async () => {
  for (let round = 0; round < 10; round++) {
    const [one, two] = [await registerGuarded(), await registerGuarded()]
    const answers = await Promise.all([reset(two.id, one.token), reset(one.id, two.token, other)])
    const { rows } = await store.pool.query('select count(*)::int as count from totp_authenticators where user_id = any($1)', [
      [one.id, two.id],
    ])
    assert.equal(rows[0].count, 1, JSON.stringify(answers.map(({ status, json }) => [status, json?.code])))
  }
})

test('an operator stays invited until accepting; one made by a command or promoted was never invited', async () => {
  const boss = await registerGuarded()
  const customer = await store.register()
  await store.pool.query('update users set email_verified_at = now() where id = $1', [customer.id])
  const invite = async (email: string) =>
    (await store.call('POST', '/admin/operators', { token: boss.token, body: { email, role: 'support' } })).json
  assert.equal((await invite(customer.email)).is_invited, false)
  const { id, is_invited } = await invite(`${randomUUID()}@shop.example`)
  assert.equal(is_invited, true)
  assert.equal((await listed(boss.token, id)).is_invited, true)
  assert.equal((await listed(boss.token, boss.id)).is_invited, false)
  const changed = await store.call('PATCH', `/admin/operators/${id}`, { token: boss.token, body: { role: 'analyst' } })
  assert.deepEqual([changed.json.role, changed.json.is_invited], ['analyst', true])
  const body = { token: await newestToken(store, 'operator_invited'), password: 'the passphrase of grace' }
  await store.ok('POST', '/auth/password-reset/confirm', { body })
  assert.equal((await listed(boss.token, id)).is_invited, false)
})
