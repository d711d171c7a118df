import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { readAccountMails } from '../../../test/account-mails.ts'
import { askForChange, changeEmail, confirmChange, login, mailFor, requestChange, revertChange } from '../../../test/email-changes.ts'
import { createGuest, placeOrder } from '../../../test/guests.ts'
import { assertProblem } from '../../../test/problem.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { startStore, type TestStore } from '../../../test/store.ts'

let aheadMs = 0
const now = () => new Date(Date.now() + aheadMs)
const HOUR_MS = 3_600_000
const store = await startStore({ after }, { now })
const newAddress = () => `${randomUUID()}@new.example`
const requestProof = ({ call }: Pick<TestStore, 'call'>, token: string) => call('POST', '/me/email/proof', { token })
const accountOf = (token: string) => store.ok('GET', '/me', { token })
const ordersOf = async (token: string) => (await store.ok('GET', '/orders', { token })).data.length

/** The token mailed to the account's address. */
async function askForProof({ token, email }: { token: string; email: string }): Promise<string> {
  const { status, text } = await requestProof(store, token)
  assert.equal(status, 202, text)
  return mailFor(store, email, 'confirm_email')
}

test("a customer proves the account's address by a mailed token, and takes over the orders of its guests", async () => {
  const lamp = await store.addProduct()
  const ada = await store.register()
  const { json: phone } = await login(store, ada)
  const [guest, stranger] = [await createGuest(store, ada.email), await createGuest(store, newAddress())]
  for (const { token } of [guest, stranger]) await placeOrder(store, token, lamp)
  assert.equal((await accountOf(ada.token)).is_email_verified, false)

  // No recent sign-in is needed, because the mailbox is the proof.
  await store.pool.query(`update sessions set authenticated_at = authenticated_at - interval '1 hour' where user_id = $1`, [ada.id])
  const asked = await requestProof(store, ada.token)
  assert.deepEqual([asked.status, asked.json, asked.headers['cache-control']], [202, { status: 'accepted' }, 'no-store'])
  const mails = (await readAccountMails(store)).filter(({ to }) => to === ada.email)
  assert.deepEqual(
    mails.map(({ kind }) => kind),
    ['confirm_email'],
    'no notice about a change',
  )
  const { is_email_verified, pending_email } = await accountOf(ada.token)
  assert.deepEqual([is_email_verified, pending_email], [false, null])
  assert.equal(await ordersOf(ada.token), 0)

  const token = mails[0]?.token ?? ''
  const uses = await Promise.all([1, 2].map(() => confirmChange(store, phone.access_token, token)))
  assert.deepEqual(uses.map(({ status }) => status).toSorted(), [200, 422], 'once')
  const proven = await accountOf(ada.token)
  assert.deepEqual([proven.email, proven.is_email_verified], [ada.email, true], 'the other session stays')
  assert.equal(await ordersOf(ada.token), 1)
  assertProblem(await guest.call('GET', '/me'), 401, 'invalid_token')
  assert.equal(await ordersOf(stranger.token), 1)
  assert.equal((await readAccountMails(store)).filter(({ to }) => to === ada.email).length, 1)

  // The next proof takes over a later order as a guest.
  await placeOrder(store, (await createGuest(store, ada.email)).token, lamp)
  assert.equal((await confirmChange(store, ada.token, await askForProof(ada))).status, 200)
  assert.equal(await ordersOf(ada.token), 2)
})

test('the token proves its own account only, within a day, until another request or an address change', async () => {
  const [ada, eve] = [await store.register(), await store.register()]
  const refused = async (session: string, token: string, what: string) =>
    assertProblem(await confirmChange(store, session, token), 422, 'invalid_one_time_token', what)
  const first = await askForProof(ada)
  const second = await askForProof(ada)
  await refused(ada.token, first, 'a newer one was mailed')
  await refused(eve.token, second, 'another account')
  assertProblem(await store.call('POST', '/me/email/confirm', { body: { token: second } }), 401, 'unauthenticated')
  assertProblem(await revertChange(store, second), 422, 'invalid_one_time_token')

  const { confirm, notice } = await askForChange(store, ada, newAddress())
  await refused(ada.token, second, 'another address was asked for')
  await refused(ada.token, await askForProof(ada).then(() => confirm), 'the address is to stay')
  assert.equal((await revertChange(store, notice)).status, 204, 'the notice of the request still counts')

  const proof = await askForProof(eve)
  aheadMs += 24 * HOUR_MS
  const { json } = await login(store, eve)
  await refused(json.access_token, proof, 'a day later')
  await changeEmail(store, { token: json.access_token, email: eve.email }, newAddress())
  await refused(json.access_token, proof, 'the address of former days')
})

test('a change after a proof can be reverted like any other', async () => {
  const ada = await store.register()
  assert.equal((await confirmChange(store, ada.token, await askForProof(ada))).status, 200)
  const second = newAddress()
  const { revert } = await changeEmail(store, ada, second)
  assert.equal((await confirmChange(store, ada.token, await askForProof({ ...ada, email: second }))).status, 200)
  await changeEmail(store, { ...ada, email: second }, newAddress())
  assert.equal((await revertChange(store, revert)).status, 204)
  const { rows } = await store.pool.query('select email, email_verified_at is not null as is_proven from users where id = $1', [ada.id])
  assert.deepEqual(rows, [{ email: ada.email, is_proven: true }])
})

test('a guest has no account whose address could be proven, and an account gets at most five mails an hour', async (t) => {
  const guest = await createGuest(store, newAddress())
  assertProblem(await requestProof(store, guest.token), 403, 'forbidden')
  assert.equal((await readAccountMails(store)).filter(({ to }) => to === guest.email).length, 0)

  const limited = await startStore(t, { isRateLimited: true })
  const ada = await limited.register()
  const statuses = []
  for (let i = 0; i < 6; i++) statuses.push((await requestProof(limited, ada.token)).status)
  assert.deepEqual(statuses, [202, 202, 202, 202, 202, 429])
})

test('accounts that are created and erased with one address cause no more mails than one account', async (t) => {
  const limited = await startStore(t, { isRateLimited: true })
  const email = newAddress()
  for (let round = 0; round < 3; round++) {
    const { token } = await limited.register({ email })
    for (let i = 0; i < 4; i++) {
      const { status } = await (i % 2 ? requestProof(limited, token) : requestChange(limited, token, newAddress()))
      assert.equal(status, 202)
    }
    await limited.ok('DELETE', '/me', { token })
  }
  const mails = await readAccountMails(limited)
  assert.equal(mails.filter(({ to, kind }) => to === email && ['confirm_email', 'email_change_requested'].includes(kind)).length, 10)
})

test('an operator proves the address too, which is recorded as an activity', async () => {
  const operator = await registerOperator(store)
  assert.equal((await confirmChange(store, operator.token, await askForProof(operator))).status, 200)
  const { rows } = await store.pool.query('select action, subject_id, before, after from activities where actor_id = $1', [operator.id])
  assert.deepEqual(rows, [{ action: 'confirmEmailChange', subject_id: operator.id, before: null, after: { email: 'proven' } }])
})
