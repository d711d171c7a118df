import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { createStorefront, isProblem, memoryTokens } from '../client/src/index.ts'
import { mailFor } from './email-changes.ts'
import { addPasskey } from './second-factor.ts'
import { startStore } from './store.ts'

const PASSWORD = 'correct horse battery'
const store = await startStore({ after })
const baseUrl = `http://127.0.0.1:${store.port}`
const newAddress = () => `${randomUUID()}@example.com`
const isRefused = (code: Parameters<typeof isProblem>[1]) => (error: unknown) => isProblem(error, code)

/** A client with the headers of what it sends. */
function connect() {
  const tokens = memoryTokens()
  const sent: Request[] = []
  const fetchAndKeep = (request: Request) => {
    sent.push(request)
    return fetch(request)
  }
  return { shop: createStorefront({ baseUrl, tokens, fetch: fetchAndKeep }), tokens, sent }
}

async function registered() {
  const email = newAddress()
  const client = connect()
  await client.shop.register({ email, password: PASSWORD })
  return { ...client, email }
}

test('changes the address by the mailed token, and reverts it by that of the former address, without a session', async () => {
  const { shop, tokens, email } = await registered()
  const next = newAddress()
  await shop.requestEmailChange(next)
  assert.equal((await shop.account()).pending_email, next)
  assert.equal((await shop.confirmEmail(await mailFor(store, next, 'confirm_email'))).email, next)
  assert.deepEqual((({ email, is_email_verified }) => [email, is_email_verified])(await shop.account()), [next, true])

  const elsewhere = await registered()
  await elsewhere.shop.revertEmailChange(await mailFor(store, email, 'email_changed'))
  assert.equal(elsewhere.sent.at(-1)?.headers.has('authorization'), false)
  await assert.rejects(shop.account(), isRefused('invalid_token'))
  assert.equal(await tokens.load(), null)
  await shop.confirmPasswordReset({ token: await mailFor(store, email, 'reset_password'), password: 'quite another passphrase' })
  assert.equal((await shop.login({ email, password: 'quite another passphrase' })).email, email)
})

test('proves the own address, after which the orders of a guest are those of the account', async () => {
  const { shop, email } = await registered()
  const guest = connect().shop
  await guest.loginAsGuest({ email })
  const { number } = await guest.placeOrder({ items: [{ product_id: (await store.addProduct()).id, quantity: 1 }] })
  assert.equal((await shop.account()).is_email_verified, false)
  await shop.requestEmailProof()
  await shop.confirmEmail(await mailFor(store, email, 'confirm_email'))
  assert.equal((await shop.account()).is_email_verified, true)
  assert.deepEqual(
    (await shop.orderPage()).data.map((order) => order.number),
    [number],
  )
})

test('proves again who the customer is, and repeats the refused call', async () => {
  const { shop, email } = await registered()
  await store.pool.query(`update sessions set authenticated_at = now() - interval '11 minutes'`)
  const next = newAddress()
  await assert.rejects(shop.requestEmailChange(next), isRefused('step_up_required'))
  assert.deepEqual((await shop.stepUpOptions()).methods, ['password'])
  await assert.rejects(shop.stepUp({ password: 'a wrong passphrase' }), isRefused('invalid_second_factor'))
  await shop.stepUp({ password: PASSWORD })
  await shop.requestEmailChange(next)
  assert.equal((await shop.account()).email, email)
})

test('sets another password by a mailed token', async () => {
  const { shop, email } = await registered()
  await shop.requestPasswordReset(email)
  const token = await mailFor(store, email, 'reset_password')
  await shop.confirmPasswordReset({ token, password: 'quite another passphrase' })
  await assert.rejects(shop.confirmPasswordReset({ token, password: PASSWORD }), isRefused('invalid_one_time_token'))
  assert.equal((await shop.login({ email, password: 'quite another passphrase' })).email, email)
})

test('reaches what has no call of its own: passkeys, sessions, name, addresses, and the export as a file', async () => {
  const { shop, tokens, email } = await registered()
  await addPasskey(store, (await tokens.load())?.access_token ?? '')
  const { data: factors } = await shop.api.GET('/me/factors')
  const [passkey] = factors?.passkeys ?? []
  const path = { id: passkey?.id ?? '' }
  await shop.api.PATCH('/me/passkeys/{id}', { params: { path }, body: { name: 'Laptop' } })
  assert.equal((await shop.api.GET('/me/factors')).data?.passkeys[0]?.name, 'Laptop')
  await shop.api.DELETE('/me/passkeys/{id}', { params: { path } })
  assert.equal((await shop.api.GET('/auth/sessions')).data?.data.length, 1)
  assert.equal((await shop.api.PATCH('/me', { body: { name: 'Ada' } })).data?.name, 'Ada')
  assert.deepEqual((await shop.api.GET('/me/addresses')).data?.data, [])
  const { data: file } = await shop.api.GET('/me/export', { parseAs: 'blob' })
  assert.ok(file instanceof Blob && (await file.text()).includes(email))
})
