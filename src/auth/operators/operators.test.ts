import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { newestToken, readAccountMails } from '../../../test/account-mails.ts'
import { changeEmail, revertChange } from '../../../test/email-changes.ts'
import { eventually } from '../../../test/eventually.ts'
import { assertProblem } from '../../../test/problem.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { startSmtpServer } from '../../../test/smtp-server.ts'
import { type Account, startSecondProcess, startStore, type TestStore } from '../../../test/store.ts'
import { UNBRANDED } from '../../mail/templates.ts'
import { listOperators } from './operators.ts'

const roleOf = async ({ pool }: TestStore, id: string) => (await pool.query('select role from users where id = $1', [id])).rows[0]?.role
const proveAddress = ({ pool }: TestStore, { id }: Account) => pool.query('update users set email_verified_at = now() where id = $1', [id])

test('an invited operator gets a mail, sets a password within three days, which proves the address, and has the role', async (t) => {
  const smtp = await startSmtpServer(t)
  let aheadMs = 0
  const store = await startStore(t, {
    ...{ roles: ['api', 'stream', 'email'], smtpUrl: smtp.url, now: () => new Date(Date.now() + aheadMs) },
    ...{ baseUrl: 'https://api.shop.example/v1', accountUrl: 'https://shop.example/account', shop: { ...UNBRANDED, name: 'Teapot' } },
  })
  const boss = await registerOperator(store)
  const invite = async (role: string) => {
    const email = `${randomUUID()}@shop.example`
    const login = await store.call('POST', '/auth/login', { body: { email: boss.email, password: boss.password } })
    const answer = await store.call('POST', '/admin/operators', {
      token: login.json.access_token,
      body: { email: email.toUpperCase(), role },
    })
    assert.equal(answer.status, 201, answer.text)
    return { email, invited: answer.json }
  }
  const mailTo = (email: string) =>
    eventually(async () => smtp.mails.find(({ to }) => to !== undefined && 'value' in to && to.value[0]?.address === email), {
      what: 'the invitation',
    })
  const confirm = (token: string | undefined) =>
    store.call('POST', '/auth/password-reset/confirm', { body: { token, password: 'the passphrase of grace' } })
  const tokenIn = (text = '') => /^https:\/\/api\.shop\.example\/v1\/console#operator-invited=([\w-]{43})$/m.exec(text)?.[1]

  const { email, invited } = await invite('warehouse')
  assert.deepEqual([invited.email, invited.role, invited.is_email_verified], [email, 'warehouse', false])
  const mail = await mailTo(email)
  assert.equal(mail?.subject, 'You are invited as an operator of Teapot')
  for (const part of ['Role: warehouse\n', `Invited by: ${boss.email}\n`, 'https://api.shop.example/v1/console\n', 'within 3 days'])
    assert.ok(mail?.text?.includes(part), String(mail?.text))
  for (const part of ['warehouse', boss.email, '#operator-invited&#x3D;']) assert.ok(String(mail?.html).includes(part), String(mail?.html))
  aheadMs = 3 * 86_400_000 - 60_000
  assert.equal((await confirm(tokenIn(mail?.text))).status, 204)
  const login = await store.call('POST', '/auth/login', { body: { email, password: 'the passphrase of grace' } })
  assert.deepEqual([login.json.user.role, login.json.user.scopes.includes('stock:write')], ['warehouse', true])
  const operators = await listOperators(store.pool)
  assert.deepEqual(
    operators.filter((one) => one.email === email).map((one) => one.is_email_verified),
    [true],
  )

  const late = await invite('support')
  const lateMail = await mailTo(late.email)
  aheadMs += 3 * 86_400_000
  assertProblem(await confirm(tokenIn(lateMail?.text)), 422, 'invalid_one_time_token', 'three days later')
  await store.ok('POST', '/auth/password-reset', { body: { email: late.email } })
  const next = await eventually(async () => smtp.mails.find((one) => one.subject === 'Set a new password'), { what: 'the other mail' })
  assert.match(
    next?.text ?? '',
    /^https:\/\/api\.shop\.example\/v1\/console#reset-password=[\w-]{43}$/m,
    "an operator's page is the console",
  )
})

test('a link mailed before a role change or removal sets no password; an open invitation is mailed again with the new role', async (t) => {
  const smtp = await startSmtpServer(t)
  const store = await startStore(t, { roles: ['api', 'stream', 'email'], smtpUrl: smtp.url })
  const { token } = await registerOperator(store)
  const linksTo = (email: string) =>
    smtp.mails
      .filter(({ to }) => to !== undefined && 'value' in to && to.value[0]?.address === email)
      .map(({ text }) => ({ role: /^Role: (\w+)$/m.exec(text ?? '')?.[1], token: /#[a-z-]+=([\w-]{43})$/m.exec(text ?? '')?.[1] }))
  const confirm = ({ token }: { token?: string } = {}) =>
    store.call('POST', '/auth/password-reset/confirm', { body: { token, password: 'the passphrase of grace' } })
  const invite = async (role: string) => {
    const email = `${randomUUID()}@shop.example`
    const { json } = await store.call('POST', '/admin/operators', { token, body: { email, role } })
    await eventually(async () => linksTo(email).length === 1, { what: 'the invitation' })
    return { email, path: `/admin/operators/${json.id}` }
  }

  const { email, path } = await invite('support')
  assert.equal((await store.call('PATCH', path, { token, body: { role: 'support' } })).status, 200)
  assert.equal((await store.call('PATCH', path, { token, body: { role: 'admin' } })).status, 200)
  await eventually(async () => linksTo(email).length === 2, { what: 'the second invitation' })
  const [first, second] = linksTo(email)
  assert.deepEqual([first?.role, second?.role], ['support', 'admin'])
  assertProblem(await confirm(first), 422, 'invalid_one_time_token', 'of the role before')
  assert.equal((await confirm(second)).status, 204)

  // No invitation is open now. The next change mails nothing, and ends the token of a forgotten password.
  await store.call('POST', '/auth/password-reset', { body: { email } })
  await eventually(async () => linksTo(email).some(({ role, token }) => role === undefined && token !== undefined), { what: 'the reset' })
  assert.equal((await store.call('PATCH', path, { token, body: { role: 'analyst' } })).status, 200)
  assertProblem(await confirm(linksTo(email).at(-1)), 422, 'invalid_one_time_token')

  const removed = await invite('admin')
  assert.equal((await store.call('DELETE', removed.path, { token })).status, 204)
  assertProblem(await confirm(linksTo(removed.email)[0]), 422, 'invalid_one_time_token', 'removed')
  // A mail that has arrived may not be recorded as sent yet.
  await eventually(async () => (await store.pool.query('select from account_mails')).rowCount === 0, { what: 'no mail is left' })
  assert.deepEqual([linksTo(email).filter(({ role }) => role).length, linksTo(removed.email).length], [2, 1])
})

test('an invited operator who was removed before accepting is invited again with a new token', async (t) => {
  const store = await startStore(t)
  const { token } = await registerOperator(store)
  const email = `${randomUUID()}@shop.example`
  const invite = () => store.call('POST', '/admin/operators', { token, body: { email, role: 'support' } })
  const { json } = await invite()
  const first = await newestToken(store, 'operator_invited')
  await store.ok('DELETE', `/admin/operators/${json.id}`, { token })
  const again = await invite()
  assert.deepEqual([again.status, again.json.id, again.json.role, again.json.is_invited], [201, json.id, 'support', true])
  const confirm = (mailed: string) =>
    store.call('POST', '/auth/password-reset/confirm', { body: { token: mailed, password: 'the passphrase of grace' } })
  assertProblem(await confirm(first), 422, 'invalid_one_time_token', 'of the first invitation')
  assert.equal((await confirm(await newestToken(store, 'operator_invited'))).status, 204)
  const login = await store.call('POST', '/auth/login', { body: { email, password: 'the passphrase of grace' } })
  assert.equal(login.json.user.role, 'support')

  // An operator who accepted and was then removed has proven the address and keeps the password.
  await store.ok('DELETE', `/admin/operators/${json.id}`, { token })
  const promoted = await invite()
  assert.deepEqual([promoted.status, promoted.json.is_invited], [200, false])
})

test('changing the role of an operator made by a command invites nobody, even while a password token is open', async (t) => {
  const store = await startStore(t)
  const { token } = await registerOperator(store)
  const clerk = await registerOperator(store)
  await store.ok('POST', '/auth/password-reset', { body: { email: clerk.email } })
  const before = (await readAccountMails(store)).map(({ kind }) => kind)
  assert.deepEqual(before, ['reset_password'])
  const changed = await store.call('PATCH', `/admin/operators/${clerk.id}`, { token, body: { role: 'support' } })
  assert.deepEqual([changed.status, changed.json.is_invited], [200, false])
  assert.deepEqual(
    (await readAccountMails(store)).map(({ kind }) => kind),
    before,
  )
})

test("an invited operator gets the new role by mail even after the invitation's token has expired", async (t) => {
  let aheadMs = 0
  const store = await startStore(t, { now: () => new Date(Date.now() + aheadMs) })
  const boss = await registerOperator(store)
  const email = `${randomUUID()}@shop.example`
  const { json } = await boss.call('POST', '/admin/operators', { body: { email, role: 'support' } })
  aheadMs = 4 * 86_400_000
  await store.pool.query('delete from password_resets')
  const login = await store.call('POST', '/auth/login', { body: { email: boss.email, password: boss.password } })
  const path = `/admin/operators/${json.id}`
  const change = (role: string) => store.call('PATCH', path, { token: login.json.access_token, body: { role } })
  assert.equal((await change('support')).status, 200, 'the same role again mails nothing')
  assert.equal((await change('analyst')).status, 200)
  assert.equal((await readAccountMails(store)).filter(({ kind }) => kind === 'operator_invited').length, 2)
})

test('the holder of a former mailbox cannot take back an account that has got a role since', async (t) => {
  const store = await startStore(t)
  const [boss, customer] = [await registerOperator(store), await store.register()]
  const { notice, revert } = await changeEmail(store, customer, 'bob@shop.example')
  const body = { email: 'bob@shop.example', role: 'admin' }
  const promoted = await boss.call('POST', '/admin/operators', { body })
  assert.equal(promoted.status, 200, promoted.text)
  for (const token of [notice, revert]) assertProblem(await revertChange(store, token), 422, 'invalid_one_time_token')
})

test('a customer becomes an operator only with a proven address, and an operator cannot be invited again', async (t) => {
  const store = await startStore(t)
  const { token, email: own } = await registerOperator(store)
  const customer = await store.register()
  const promote = (email: string) => store.call('POST', '/admin/operators', { token, body: { email, role: 'support' } })
  assertProblem(await promote(customer.email), 409, 'address_unproven')
  assert.equal(await roleOf(store, customer.id), 'customer')
  await proveAddress(store, customer)
  const promoted = await promote(customer.email)
  assert.equal(promoted.status, 200, promoted.text)
  assert.equal(await roleOf(store, customer.id), 'support')
  // The access token of the customer's session has another role, so the session has ended.
  assertProblem(await customer.call('GET', '/me'), 401, 'invalid_token')
  assertProblem(await promote(customer.email), 409, 'email_taken')
  assertProblem(await promote(own), 409, 'email_taken')
})

test('a role change and a removal end the sessions in every process', async (t) => {
  const store = await startStore(t)
  const other = await startSecondProcess(t, store)
  const [boss, clerk] = [await registerOperator(store), await registerOperator(store)]
  const path = `/admin/operators/${clerk.id}`
  const changed = await boss.call('PATCH', path, { body: { role: 'support' } })
  assert.deepEqual([changed.status, changed.json.role], [200, 'support'])
  assert.equal((await clerk.call('GET', '/admin/orders')).status, 401)
  await eventually(async () => (await other.call('GET', '/me', { token: clerk.token })).status === 401, { what: 'the end elsewhere' })
  const login = await store.call('POST', '/auth/login', { body: { email: clerk.email, password: clerk.password } })
  await store.ok('GET', '/admin/orders', { token: login.json.access_token })
  assertProblem(await store.call('GET', '/admin/operators', { token: login.json.access_token }), 403, 'forbidden')
  assert.equal((await boss.call('DELETE', path)).status, 204)
  assert.equal((await store.call('GET', '/admin/orders', { token: login.json.access_token })).status, 401)
  assert.equal(await roleOf(store, clerk.id), 'customer')
  assertProblem(await boss.call('DELETE', path), 404, 'not_found')
  assertProblem(await boss.call('PATCH', `/admin/operators/${randomUUID()}`, { body: { role: 'admin' } }), 404, 'not_found')
})

test('nobody can change their own role, and the last admin stays by either route', async (t) => {
  const store = await startStore(t)
  const boss = await registerOperator(store)
  const { token } = boss
  assertProblem(await store.call('PATCH', `/admin/operators/${boss.id}`, { token, body: { role: 'support' } }), 403, 'forbidden')
  assertProblem(await store.call('DELETE', `/admin/operators/${boss.id}`, { token }), 403, 'forbidden')
  assertProblem(await store.call('DELETE', '/me', { token }), 409, 'last_admin')
  await assert.rejects(store.pool.query('delete from users'), { constraint: 'users_last_admin' })
  await assert.rejects(store.pool.query(`update users set role = 'support'`), { constraint: 'users_last_admin' })
  assert.equal(await roleOf(store, boss.id), 'admin')
  const { rows } = await store.pool.query('select count(*)::int as count from activities')
  assert.equal(rows[0].count, 0)
})

test('of two admins who remove each other at once, in two processes, one remains', async (t) => {
  const store = await startStore(t)
  const other = await startSecondProcess(t, store)
  for (let round = 0; round < 10; round++) {
    const [one, two] = [await registerOperator(store), await registerOperator(store)]
    await store.pool.query(`update users set role = 'support' where role = 'admin' and id <> all($1)`, [[one.id, two.id]])
    const answers = await Promise.all([
      one.call('DELETE', `/admin/operators/${two.id}`),
      other.call('PATCH', `/admin/operators/${one.id}`, { token: two.token, body: { role: 'analyst' } }),
    ])
    const { rows } = await store.pool.query(`select count(*)::int as count from users where role = 'admin'`)
    assert.equal(rows[0].count, 1, JSON.stringify(answers.map(({ status, json }) => [status, json?.code])))
  }
})

test('a login that waits for a demotion opens no session with the former role', async (t) => {
  const store = await startStore(t)
  const [clerk] = [await registerOperator(store), await registerOperator(store)]
  const demotion = await store.pool.connect()
  try {
    await demotion.query('begin')
    await demotion.query(`update users set role = 'customer' where id = $1`, [clerk.id])
    const login = store.call('POST', '/auth/login', { body: { email: clerk.email, password: clerk.password } })
    const WAITING = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    const isWaiting = async () => (await store.pool.query(WAITING)).rowCount !== 0
    await eventually(isWaiting, { what: 'the login waits for the account' })
    await demotion.query('commit')
    assertProblem(await login, 401, 'invalid_credentials')
  } finally {
    demotion.release()
  }
  const again = await store.call('POST', '/auth/login', { body: { email: clerk.email, password: clerk.password } })
  assert.equal(again.json.user.role, 'customer')
})

test('a former admin makes no operator while the token is still accepted, and a blocked account becomes none', async (t) => {
  const store = await startStore(t)
  const [boss, former, customer] = [await registerOperator(store), await registerOperator(store), await store.register()]
  const promote = (token: string) => store.call('POST', '/admin/operators', { token, body: { email: customer.email, role: 'admin' } })
  await proveAddress(store, customer)
  await store.pool.query(`update users set role = 'support' where id = $1`, [former.id])
  assert.ok([401, 403].includes((await promote(former.token)).status))
  await store.pool.query(`update users set blocked_at = now(), blocked_reason = 'A test' where id = $1`, [customer.id])
  assertProblem(await promote(boss.token), 403, 'forbidden')
  assert.equal(await roleOf(store, customer.id), 'customer')
})
