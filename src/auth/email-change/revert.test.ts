import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { readAccountMails } from '../../../test/account-mails.ts'
import {
  askForChange,
  changeEmail,
  confirmChange,
  login,
  mailFor,
  recover,
  requestChange,
  revertChange,
} from '../../../test/email-changes.ts'
import { promptly } from '../../../test/eventually.ts'
import { createGuest, placeOrder } from '../../../test/guests.ts'
import { assertProblem } from '../../../test/problem.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { addPasskey, addTotp, signInByPasskey } from '../../../test/second-factor.ts'
import { type Account, startSecondProcess, startStore } from '../../../test/store.ts'

let aheadMs = 0
const now = () => new Date(Date.now() + aheadMs)
const DAY_MS = 86_400_000
const store = await startStore({ after }, { now, isAdminFactorRequired: false })
const { pool } = store
const newAddress = () => `${randomUUID()}@new.example`
const refusedToken = async (token: string, what: string) =>
  assertProblem(await revertChange(store, token), 422, 'invalid_one_time_token', what)
const emailOf = async ({ id }: Pick<Account, 'id'>) => (await pool.query('select email from users where id = $1', [id])).rows[0].email
const prove = ({ id }: Pick<Account, 'id'>) => pool.query('update users set email_verified_at = created_at where id = $1', [id])
const kindsTo = async (address: string) => (await readAccountMails(store)).filter(({ to }) => to === address).map(({ kind }) => kind)

test('the holder of the former address takes the account back once: every session ends, and a new password is needed', async (t) => {
  const other = await startSecondProcess(t, store, { now })
  const ada = await store.register()
  const stolen = newAddress()
  const { revert, notice } = await changeEmail(store, ada, stolen)
  assert.equal((await login(store, { ...ada, email: stolen })).status, 200)
  const uses = await Promise.all([revert, revert, notice].map((token) => revertChange(store, token)))
  assert.deepEqual(uses.map(({ status }) => status).toSorted(), [204, 422, 422])
  assert.equal(await emailOf(ada), ada.email)
  assertProblem(await ada.call('GET', '/me'), 401, 'invalid_token')
  const isRefusedThere = async () => (await other.call('GET', '/me', { token: ada.token })).status === 401
  await promptly(pool, isRefusedThere, { withinMs: 1_000, what: 'the refusal in the other process' })
  assertProblem(await login(store, ada), 401, 'invalid_credentials', 'the password that somebody else knows')
  assertProblem(await login(store, { ...ada, email: stolen }), 401, 'invalid_credentials')
  assert.deepEqual((await kindsTo(stolen)).at(-1), 'email_change_reverted')
  const token = await recover(store, ada.email)
  assert.equal((await store.ok('GET', '/me', { token })).id, ada.id)
  // The new address is free again.
  assert.equal((await store.register({ email: stolen })).email, stolen)
  for (const used of [revert, notice, '', 'x', 'A'.repeat(43)]) await refusedToken(used, used)
})

test('the notice of a request prevents or reverts the change, also after other requests', async () => {
  const [ada, bob] = [await store.register(), await store.register()]
  const target = newAddress()
  const { confirm, notice } = await askForChange(store, ada, target)
  assert.equal((await revertChange(store, notice)).status, 204)
  assert.deepEqual([await emailOf(ada), await kindsTo(target)], [ada.email, ['confirm_email']])
  assertProblem(await ada.call('GET', '/me'), 401, 'invalid_token')
  const token = await recover(store, ada.email)
  assertProblem(await confirmChange(store, token, confirm), 422, 'invalid_one_time_token')
  assert.equal((await store.ok('GET', '/me', { token })).pending_email, null)

  const { notice: first } = await askForChange(store, bob, newAddress())
  const { revert } = await changeEmail(store, bob, newAddress())
  assert.equal((await revertChange(store, first)).status, 204)
  assert.equal(await emailOf(bob), bob.email)
  await refusedToken(revert, 'of the same change')
})

test('a change can be reverted for seven days, and an unconfirmed request for one day', async () => {
  const [ada, bob, eve] = [await store.register(), await store.register(), await store.register()]
  const { revert, notice } = await changeEmail(store, ada, newAddress())
  const { notice: unconfirmed } = await askForChange(store, bob, newAddress())
  const { notice: early } = await changeEmail(store, eve, newAddress())
  aheadMs += DAY_MS
  await refusedToken(unconfirmed, 'after a day')
  aheadMs += 5.9 * DAY_MS
  assert.equal((await revertChange(store, early)).status, 204)
  aheadMs += 0.1 * DAY_MS
  for (const token of [revert, notice]) await refusedToken(token, 'after seven days')
})

test('of several changes, each holder reverts the later ones and never the earlier ones', async () => {
  const [ada, bob] = [await store.register(), await store.register()]
  for (const { account, isLaterFirst } of [
    { account: ada, isLaterFirst: false },
    { account: bob, isLaterFirst: true },
  ]) {
    const [b, c] = [newAddress(), newAddress()]
    const first = await changeEmail(store, account, b)
    const second = await changeEmail(store, { ...account, email: b }, c)
    if (isLaterFirst) {
      assert.equal((await revertChange(store, second.revert)).status, 204)
      assert.equal(await emailOf(account), b)
    }
    assert.equal((await revertChange(store, first.revert)).status, 204)
    assert.equal(await emailOf(account), account.email)
    for (const token of [second.revert, second.notice, first.notice]) await refusedToken(token, 'the address in between')
  }
})

test('removes what was added since a week before the request; older additions and orders stay', async () => {
  const ada = await store.register()
  await prove(ada)
  const { authenticator: own } = await addPasskey(store, ada.token)
  await placeOrder(store, ada.token, await store.addProduct())
  const address = { name: 'Ada', line1: 'Ring 1', city: 'Wien', postal_code: '1010', country: 'AT' }
  const add = async (line1: string) =>
    ada.call('POST', '/me/addresses', { body: { address: { ...address, line1 }, is_default: line1 === 'old' } })
  await add('old')
  const link = (subject: string) =>
    pool.query(`insert into oidc_identities (issuer, subject, user_id) values ($1, $1, $2)`, [subject, ada.id])
  await link('https://old.example')
  for (const [table, column] of [
    ['passkeys', 'created_at'],
    ['customer_addresses', 'created_at'],
    ['oidc_identities', 'linked_at'],
  ])
    await pool.query(`update ${table} set ${column} = ${column} - interval '8 days' where user_id = $1`, [ada.id])

  const { authenticator: early } = await addPasskey(store, ada.token)
  const stolen = newAddress()
  const { revert } = await changeEmail(store, ada, stolen)
  const { authenticator: late } = await addPasskey(store, ada.token)
  await addTotp(store, ada.token, now())
  await add('new')
  await link('https://new.example')
  assert.equal((await revertChange(store, revert)).status, 204)
  for (const passkey of [early, late]) assertProblem(await signInByPasskey(store, passkey), 422, 'invalid_second_factor')
  const { json } = await signInByPasskey(store, own)
  const factors = await store.call('GET', '/me/factors', { token: json.access_token })
  assert.deepEqual([factors.json.passkeys.length, factors.json.totp, factors.json.recovery_codes_left], [1, null, 0])
  const addresses = await store.ok('GET', '/me/addresses', { token: json.access_token })
  assert.deepEqual(
    addresses.data.map((entry: { address: { line1: string }; is_default: boolean }) => [entry.address.line1, entry.is_default]),
    [['old', false]],
  )
  const me = await store.ok('GET', '/me', { token: json.access_token })
  assert.deepEqual([me.email, me.sign_ins.map(({ issuer }: { issuer: string }) => issuer)], [ada.email, ['https://old.example']])
  assert.equal((await store.ok('GET', '/orders', { token: json.access_token })).data.length, 1)
  assert.deepEqual((await kindsTo(ada.email)).slice(-2), ['second_factor_removed', 'reset_password'])
})

test('removes every addition from an account whose former address was unproven, whatever its age', async () => {
  const eve = await store.register()
  const { authenticator } = await addPasskey(store, eve.token)
  await pool.query(`update passkeys set created_at = created_at - interval '1 year' where user_id = $1`, [eve.id])
  const { revert } = await changeEmail(store, eve, newAddress())
  assert.equal((await revertChange(store, revert)).status, 204)
  assertProblem(await signInByPasskey(store, authenticator), 422, 'invalid_second_factor')
  const { rows } = await pool.query('select email, email_verified_at is not null as is_proven, password_hash from users where id = $1', [
    eve.id,
  ])
  assert.deepEqual(rows, [{ email: eve.email, is_proven: true, password_hash: null }])
})

test('guests that came with the new address leave with it, and those of the former address return', async () => {
  const ada = await store.register()
  const lamp = await store.addProduct()
  const stolen = newAddress()
  const [before, later] = [await createGuest(store, ada.email), await createGuest(store, stolen)]
  for (const { token } of [before, later]) await placeOrder(store, token, lamp)
  const { revert } = await changeEmail(store, ada, stolen)
  const ownersOf = async () => (await pool.query('select owner_id from users where id = any($1) order by id', [[before.id, later.id]])).rows
  assert.deepEqual(await ownersOf(), [{ owner_id: null }, { owner_id: ada.id }])
  assert.equal((await revertChange(store, revert)).status, 204)
  assert.deepEqual(await ownersOf(), [{ owner_id: ada.id }, { owner_id: null }])
})

test('guests of an address that the account requested and never got stay with the account', async () => {
  const ada = await store.register()
  await prove(ada)
  const lamp = await store.addProduct()
  const [own, b] = [newAddress(), newAddress()]
  const guest = await createGuest(store, own)
  await placeOrder(store, guest.token, lamp)
  await changeEmail(store, ada, own)
  await changeEmail(store, { ...ada, email: own }, b)
  // This address is requested again, not confirmed, and then replaced by another change.
  await askForChange(store, { ...ada, email: b }, own)
  const { revert } = await changeEmail(store, { ...ada, email: b }, newAddress())
  const ownerOf = async () => (await pool.query('select owner_id from users where id = $1', [guest.id])).rows[0].owner_id
  assert.equal(await ownerOf(), ada.id)
  assert.equal((await revertChange(store, revert)).status, 204)
  assert.deepEqual([await emailOf(ada), await ownerOf()], [b, ada.id])
})

test("an operator's recent API keys are revoked too, and activities record it", async () => {
  const operator = await registerOperator(store)
  const makeKey = async (name: string) => await operator.ok('POST', '/admin/api-keys', { body: { name, scopes: ['orders:read'] } })
  const old = await makeKey('old')
  await pool.query(`update api_keys set created_at = created_at - interval '8 days' where id = $1`, [old.id])
  const { revert } = await changeEmail(store, operator, newAddress())
  const added = await makeKey('added')
  assert.equal((await revertChange(store, revert)).status, 204)
  const list = async ({ key }: { key: string }) => (await store.call('GET', '/admin/orders', { token: key })).status
  await promptly(pool, async () => (await list(added)) === 401, { withinMs: 1_000, what: 'the end of the key' })
  assert.equal(await list(old), 200)
  const { rows } = await pool.query(
    `select actor_type, subject_type, subject_id from activities where action = 'revertEmailChange' order by id`,
  )
  assert.deepEqual(rows, [
    { actor_type: 'system', subject_type: 'account', subject_id: operator.id },
    { actor_type: 'system', subject_type: 'api_key', subject_id: added.id },
  ])
  const token = await recover(store, operator.email)
  await store.ok('GET', '/admin/orders', { token })
})

test('a blocked account gets its address back and stays blocked; an erased account stays erased', async () => {
  const [ada, bob] = [await store.register(), await store.register()]
  const changed = { ada: await changeEmail(store, ada, newAddress()), bob: await changeEmail(store, bob, newAddress()) }
  await pool.query(`update users set blocked_at = now(), blocked_reason = 'Fraud' where id = $1`, [ada.id])
  assert.equal((await revertChange(store, changed.ada.revert)).status, 204)
  await assert.rejects(recover(store, ada.email), /account_blocked/)
  assert.equal(await emailOf(ada), ada.email)
  await bob.ok('DELETE', '/me')
  await refusedToken(changed.bob.revert, 'of nobody')
  assert.equal((await store.register({ email: bob.email })).email, bob.email, 'the former address is free')
})

test('many requests cannot keep the holder of the mailbox out', async () => {
  const ada = await store.register()
  const notices = []
  for (let i = 0; i < 4; i++) {
    await requestChange(store, ada.token, newAddress())
    notices.push(await mailFor(store, ada.email, 'email_change_requested'))
  }
  await changeEmail(store, ada, newAddress())
  assert.equal((await revertChange(store, notices[0] ?? '')).status, 204)
  assert.equal(await emailOf(ada), ada.email)
})
