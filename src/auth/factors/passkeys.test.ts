import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { after, test } from 'node:test'
import { newestToken } from '../../../test/account-mails.ts'
import { createAuthenticator, type Forgery } from '../../../test/authenticator.ts'
import { collectLog } from '../../../test/logs.ts'
import { assertProblem } from '../../../test/problem.ts'
import { addPasskey, signInByPasskey, tryPasskey } from '../../../test/second-factor.ts'
import { startStore } from '../../../test/store.ts'
import { CHALLENGE_SECONDS } from './challenges.ts'

let now = new Date()
const { logger, lines } = collectLog()
const store = await startStore({ after }, { now: () => now, logger })

const countPasskeys = async (userId: string): Promise<number> =>
  (await store.pool.query('select count(*)::int as n from passkeys where user_id = $1', [userId])).rows[0].n
const reasons = () => lines.flatMap((line) => (line.includes('"passkey_refused"') ? [JSON.parse(line).reason] : []))

test('a customer registers passkeys of two devices, signs in with each without a password, and still with the password', async () => {
  const customer = await store.register()
  const phone = await addPasskey(store, customer.token)
  const laptop = await addPasskey(store, customer.token)
  assert.equal(phone.recoveryCodes, null, 'the password still signs in')
  for (const { authenticator } of [phone, laptop]) {
    const opened = await signInByPasskey(store, authenticator)
    assert.equal(opened.status, 200, opened.text)
    assert.equal(opened.json.user.id, customer.id)
    const factors = await store.ok('GET', '/me/factors', { token: opened.json.access_token })
    assert.deepEqual(factors.authenticated_by, ['passkey'])
    assert.equal(factors.second_factor_required, false)
    assert.deepEqual(
      factors.passkeys.map(({ id }: { id: string }) => id),
      [phone.id, laptop.id],
    )
  }
  const { email, password } = customer
  await store.ok('POST', '/auth/login', { body: { email, password } })
})

test('a password reset that first proves an address removes the passkeys that were added before', async () => {
  const [eve, ada] = [await store.register(), await store.register()]
  const [hers, adas] = [await addPasskey(store, eve.token), await addPasskey(store, ada.token)]
  await store.pool.query('update users set email_verified_at = now() where id = $1', [ada.id])
  for (const { email } of [eve, ada]) {
    await store.call('POST', '/auth/password-reset', { body: { email } })
    const token = await newestToken(store, 'reset_password')
    await store.ok('POST', '/auth/password-reset/confirm', { body: { token, password: 'the passphrase of the owner' } })
  }
  assert.deepEqual([await countPasskeys(eve.id), await countPasskeys(ada.id)], [0, 1])
  assert.notEqual((await signInByPasskey(store, hers.authenticator)).status, 200)
  assert.equal((await signInByPasskey(store, adas.authenticator)).status, 200)
})

test('a removed passkey no longer signs in, and the other sessions end; another account cannot remove it', async () => {
  const [customer, stranger] = [await store.register(), await store.register()]
  const { authenticator, id } = await addPasskey(store, customer.token)
  const other = await signInByPasskey(store, authenticator)
  assertProblem(await stranger.call('DELETE', `/me/passkeys/${id}`), 404, 'not_found')
  assert.equal(await countPasskeys(customer.id), 1)
  await customer.ok('DELETE', `/me/passkeys/${id}`)
  assertProblem(await signInByPasskey(store, authenticator), 422, 'invalid_second_factor')
  assertProblem(await store.call('GET', '/me', { token: other.json.access_token }), 401, 'invalid_token')
  await customer.ok('GET', '/me')
})

test('only its owner can rename a passkey, to a visible name of at most 100 characters', async () => {
  const [ada, eve] = [await store.register(), await store.register()]
  const [phone, laptop] = [await addPasskey(store, ada.token), await addPasskey(store, ada.token)]
  const rename = (body: object, token = ada.token) => store.call('PATCH', `/me/passkeys/${phone.id}`, { token, body })
  const namesOf = async () => (await ada.ok('GET', '/me/factors')).passkeys.map(({ id, name }: { id: string; name: string }) => [id, name])
  const name = `Ada’s phone ${'x'.repeat(88)}`
  const renamed = await rename({ name })
  assert.deepEqual(
    [renamed.status, renamed.json.id, renamed.json.name, renamed.headers['cache-control']],
    [200, phone.id, name, 'no-store'],
  )
  for (const refused of ['', `${name}x`, 'two\nlines']) assertProblem(await rename({ name: refused }), 422, 'invalid_body')
  for (const body of [{}, { name: 'Phone', id: laptop.id }, { name: null }]) assertProblem(await rename(body), 422, 'invalid_body')
  assertProblem(await rename({ name: 'Mine' }, eve.token), 404, 'not_found')
  assert.deepEqual(await namesOf(), [
    [phone.id, name],
    [laptop.id, 'Phone'],
  ])
  assert.equal((await signInByPasskey(store, phone.authenticator)).status, 200)
})

const { privateKey: foreignKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const FORGERIES: Record<string, Forgery> = {
  'another origin': { origin: 'https://evil.example' },
  'another port': { origin: 'http://localhost:3001' },
  'the origin of TLS': { origin: 'https://localhost:3000' },
  'a page in a frame of another site': { crossOrigin: true },
  'another domain': { rpId: 'evil.example' },
  'another ceremony': { type: 'payment.get' },
  'a user who was not verified': { isUserVerified: false },
}

for (const [name, forgery] of Object.entries(FORGERIES)) {
  test(`refuses a sign-in and a registration with ${name}`, async () => {
    const customer = await store.register()
    const { authenticator } = await addPasskey(store, customer.token)
    assertProblem(await signInByPasskey(store, authenticator, forgery), 422, 'invalid_second_factor')
    assertProblem(await tryPasskey(store, customer.token, createAuthenticator(), forgery), 422, 'invalid_second_factor')
    assert.equal(await countPasskeys(customer.id), 1)
    assert.equal((await signInByPasskey(store, authenticator)).status, 200)
  })
}

test("refuses a sign-in signed by another key, or with another account's id or handle", async () => {
  const [ada, eve] = [await store.register(), await store.register()]
  const [hers, eves] = [await addPasskey(store, ada.token), await addPasskey(store, eve.token)]
  assertProblem(await signInByPasskey(store, hers.authenticator, { privateKey: foreignKey }), 422, 'invalid_second_factor')
  // Eve's authenticator claims to be Ada's.
  assertProblem(await signInByPasskey(store, eves.authenticator, { id: hers.authenticator.id }), 422, 'invalid_second_factor')
  const handle = Buffer.from(ada.id.replaceAll('-', ''), 'hex').toString('base64url')
  assertProblem(await signInByPasskey(store, eves.authenticator, { userHandle: handle }), 422, 'invalid_second_factor')
  assertProblem(await signInByPasskey(store, createAuthenticator()), 422, 'invalid_second_factor')
})

test('a challenge is answered once, in time, by the session that requested it', async () => {
  const [ada, eve] = [await store.register(), await store.register()]
  const { authenticator } = await addPasskey(store, ada.token)
  const begun = await store.ok('POST', '/auth/passkey/options')
  const body = { passkey: authenticator.answer(begun.options) }
  const both = await Promise.all([store.call('POST', '/auth/passkey', { body }), store.call('POST', '/auth/passkey', { body })])
  assert.deepEqual(both.map(({ status }) => status).sort(), [200, 422], 'two at once')
  assertProblem(await store.call('POST', '/auth/passkey', { body }), 422, 'invalid_challenge', 'replayed')

  // A wrong answer uses up the challenge too.
  const again = await store.ok('POST', '/auth/passkey/options')
  const wrong = { passkey: authenticator.answer(again.options, { origin: 'https://evil.example' }) }
  assertProblem(await store.call('POST', '/auth/passkey', { body: wrong }), 422, 'invalid_second_factor')
  const right = { passkey: authenticator.answer(again.options) }
  assertProblem(await store.call('POST', '/auth/passkey', { body: right }), 422, 'invalid_challenge')

  // One challenge is for another purpose, and one belongs to another account's session.
  const registration = await ada.ok('POST', '/me/passkeys/options')
  assertProblem(
    await store.call('POST', '/auth/passkey', { body: { passkey: authenticator.answer(registration.options) } }),
    422,
    'invalid_challenge',
  )
  const stolen = { name: 'Phone', passkey: createAuthenticator().register(registration.options) }
  assertProblem(await eve.call('POST', '/me/passkeys', { body: stolen }), 422, 'invalid_challenge')
  await ada.ok('POST', '/me/passkeys', { body: stolen })
  const signIn = await store.ok('POST', '/auth/passkey/options')
  const misused = {
    name: 'Phone',
    passkey: createAuthenticator().register({ ...registration.options, challenge: signIn.options.challenge }),
  }
  assertProblem(await ada.call('POST', '/me/passkeys', { body: misused }), 422, 'invalid_challenge')

  const late = await store.ok('POST', '/auth/passkey/options')
  now = new Date(now.getTime() + CHALLENGE_SECONDS * 1000)
  assertProblem(
    await store.call('POST', '/auth/passkey', { body: { passkey: authenticator.answer(late.options) } }),
    422,
    'invalid_challenge',
  )
  const invented = authenticator.answer({ challenge: 'A'.repeat(43) })
  assertProblem(await store.call('POST', '/auth/passkey', { body: { passkey: invented } }), 422, 'invalid_challenge')
  const nonsense = { ...invented, response: { ...invented.response, clientDataJSON: 'bm8' } }
  assertProblem(await store.call('POST', '/auth/passkey', { body: { passkey: nonsense } }), 422, 'invalid_second_factor')
  const { rows } = await store.pool.query(`select encode(token_hash, 'escape') as text from auth_challenges`)
  assert.equal(JSON.stringify(rows).includes(late.options.challenge), false, 'only the hash is stored')
})

test('refuses and records a counter that decreases or stands still; accepts one that is always zero', async () => {
  const customer = await store.register()
  const { authenticator } = await addPasskey(store, customer.token, { signCount: 5 })
  const before = reasons().length
  for (const [signCount, status] of [
    [6, 200],
    [6, 422],
    [5, 422],
    [0, 422],
    [4_294_967_295, 200],
    [7, 422],
  ] as const)
    assert.equal((await signInByPasskey(store, authenticator, { signCount })).status, status, String(signCount))
  assert.deepEqual(reasons().slice(before), Array(4).fill('the counter went back'))
  const { rows } = await store.pool.query('select sign_count from passkeys where user_id = $1', [customer.id])
  assert.equal(Number(rows[0].sign_count), 4_294_967_295)
  const other = await addPasskey(store, (await store.register()).token)
  for (let use = 0; use < 2; use++) assert.equal((await signInByPasskey(store, other.authenticator)).status, 200)
})

test('a passkey belongs to one account, and an account has twenty at most', async () => {
  const [ada, eve] = [await store.register(), await store.register()]
  const { authenticator } = await addPasskey(store, ada.token)
  assertProblem(await tryPasskey(store, eve.token, authenticator), 409, 'passkey_taken')
  assertProblem(await tryPasskey(store, ada.token, authenticator), 409, 'passkey_taken')
  for (let number = 1; number < 20; number++) await addPasskey(store, ada.token)
  assertProblem(await tryPasskey(store, ada.token, createAuthenticator()), 409, 'too_many_passkeys')
  assert.equal(await countPasskeys(ada.id), 20)
})

test('refuses attestations with certificates, and broken ones', async () => {
  const { token } = await store.register()
  const send = async (change: (passkey: ReturnType<ReturnType<typeof createAuthenticator>['register']>) => unknown) => {
    const json = await store.ok('POST', '/me/passkeys/options', { token })
    return store.call('POST', '/me/passkeys', {
      token,
      body: { name: 'Phone', passkey: change(createAuthenticator().register(json.options)) },
    })
  }
  const withObject = (object: Buffer) => (passkey: { response: object }) => ({
    ...passkey,
    response: { ...passkey.response, attestationObject: object.toString('base64url') },
  })
  // Decoded: {fmt: 'packed', attStmt: {x5c: []}, authData: h''}
  const packed = Buffer.from('a363666d74667061636b656467617474 53746d74a163783563 80 68617574684461746140'.replaceAll(' ', ''), 'hex')
  for (const object of [packed, Buffer.from('a0', 'hex'), Buffer.from('ff', 'hex'), Buffer.alloc(3_000, 0x81)])
    assertProblem(await send(withObject(object)), 422, 'invalid_second_factor')
  assertProblem(await send((passkey) => ({ ...passkey, more: 1 })), 422, 'invalid_body')
  assertProblem(await send((passkey) => ({ ...passkey, type: 'password' })), 422, 'invalid_body')
})

test("pages of the shop that CORS_ORIGINS lists may use passkeys, if PASSKEY_DOMAIN is a parent domain of the API's host", async (t) => {
  const settings = { corsOrigins: ['https://shop.example'], baseUrl: 'https://api.shop.example', passkeyDomain: 'shop.example' }
  const other = await startStore(t, settings)
  const { token } = await other.register()
  const shop = createAuthenticator('https://shop.example', 'shop.example')
  await addPasskey(other, token, {}, shop)
  assert.equal((await signInByPasskey(other, shop)).status, 200)
  assertProblem(await signInByPasskey(other, shop, { origin: 'https://evil.shop.example' }), 422, 'invalid_second_factor')
})

test('deleting the account erases its passkeys and challenges', async () => {
  const customer = await store.register()
  await addPasskey(store, customer.token)
  await customer.call('POST', '/me/passkeys/options')
  await customer.ok('DELETE', '/me')
  assert.equal(await countPasskeys(customer.id), 0)
  const { rows } = await store.pool.query('select from auth_challenges where user_id = $1', [customer.id])
  assert.equal(rows.length, 0)
})
