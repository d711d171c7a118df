import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { totpCode, totpStepOf } from '../src/auth/factors/totp.ts'
import { readConfig } from '../src/config.ts'
import { makeDataFolder } from './data-folders.ts'
import { eventually, Stopwatch } from './eventually.ts'
import { runStorefront, serve } from './store-process.ts'

// A new cluster takes a second: the tests share this one, one after the other.
const folder = makeDataFolder({ after })
const env = { DATA_DIR: folder.path }

async function post(url: string, path: string, body: object) {
  const answer = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { status: answer.status, json: JSON.parse(await answer.text()) }
}

test('admin create makes an operator, with a password from standard input or one that it prints once', async (t) => {
  assert.equal((await runStorefront(t, ['migrate'], { env })).status, 0)
  const given = await runStorefront(t, ['admin', 'create', 'Boss@Example.com'], { env, input: 'the passphrase of the boss\n' })
  assert.deepEqual(given, { status: 0, stdout: 'created the operator boss@example.com with the role admin\n', stderr: '' })
  const store = await serve(t, { env })
  const made = await runStorefront(t, ['admin', 'create', 'second@example.com'], { env })
  assert.deepEqual([made.status, made.stderr], [0, ''], 'beside a running store')
  const password = /^created the operator second@example\.com with the role admin\npassword: (\S{24})\n$/.exec(made.stdout)?.[1]
  assert.ok(password !== undefined, made.stdout)
  for (const credentials of [
    { email: 'boss@example.com', password: 'the passphrase of the boss' },
    { email: 'second@example.com', password },
  ]) {
    const { status, json } = await post(store.url, '/auth/login', credentials)
    assert.deepEqual([status, json.user?.role], [200, 'admin'])
  }
})

test('admin create promotes nobody, and refuses bad addresses and passwords in one line', async (t) => {
  const store = await serve(t, { env })
  const password = 'a long enough passphrase'
  assert.equal((await post(store.url, '/auth/register', { email: 'eve@example.com', password })).status, 201)
  const refusals: [string[], string, RegExp, number][] = [
    [['eve@example.com'], password, /exists already/, 1],
    [['Eve <new@example.com>'], password, /e-mail address is not acceptable/, 2],
    [['banana'], password, /e-mail address is not acceptable/, 2],
    [['new@example.com'], 'short', /must have 8 to 128 characters/, 1],
    [['new@example.com'], 'password1', /first an attacker would try/, 1],
    [[], password, /admin create lacks an argument/, 2],
    [['a@example.com', 'b@example.com'], password, /admin create takes 1 at most; leave out b@example\.com/, 2],
  ]
  for (const [args, input, message, expected] of refusals) {
    const { status, stdout, stderr } = await runStorefront(t, ['admin', 'create', ...args], { env, input: `${input}\n` })
    assert.deepEqual([status, stdout], [expected, ''], stderr)
    assert.match(stderr, message)
    assert.ok(!stderr.includes(input) && !/\n\s+at /.test(stderr), stderr)
  }
  assert.equal((await post(store.url, '/auth/login', { email: 'eve@example.com', password })).json.user.role, 'customer')
})

test('signing-keys rotate works beside a running store, which publishes the key within seconds and signs with the old one meanwhile', async (t) => {
  const store = await serve(t, { env })
  const credentials = { email: 'ada@example.com', password: 'a long enough passphrase' }
  const { json: before } = await post(store.url, '/auth/register', credentials)
  const keyIds = async () => {
    const { keys } = (await (await fetch(`${store.url}/.well-known/jwks.json`)).json()) as { keys: { kid: string }[] }
    return keys.map(({ kid }) => kid)
  }
  const [oldId] = await keyIds()
  const rotated = await runStorefront(t, ['signing-keys', 'rotate'], { env })
  assert.deepEqual([rotated.status, rotated.stderr], [0, ''])
  const [, newId, signsFrom = ''] = /^published the key (\S{43})\nit signs new access tokens from (\S+Z) on\n$/.exec(rotated.stdout) ?? []
  const waitSeconds = (Date.parse(signsFrom) - Date.now()) / 1_000
  assert.ok(waitSeconds > 240 && waitSeconds <= 360, rotated.stdout)
  const stopwatch = new Stopwatch(t)
  await eventually(async () => (await keyIds()).join() === [newId, oldId].join(), { what: 'the new key' })
  assert.ok(stopwatch.ms < 5_000)
  const { json: now } = await post(store.url, '/auth/login', credentials)
  assert.equal(JSON.parse(Buffer.from(now.access_token.split('.')[0], 'base64url').toString()).kid, oldId)
  for (const { access_token } of [before, now]) {
    assert.equal((await fetch(`${store.url}/me`, { headers: { authorization: `Bearer ${access_token}` } })).status, 200)
  }
  const wrong = await runStorefront(t, ['signing-keys', 'rotate'], { env: { ...env, STOREFRONT_SECRET: 'x'.repeat(32) } })
  const stderr = 'storefront: STOREFRONT_SECRET is not the secret of this store: set the one that it was last changed to\n'
  assert.deepEqual(wrong, { status: 1, stdout: '', stderr })
  assert.deepEqual(await keyIds(), [newId, oldId])
})

test('TRUST_PROXY is a list of addresses and networks or a number of proxies, and trusts nobody unless it is set', () => {
  const trusted = (TRUST_PROXY?: string) => readConfig(TRUST_PROXY === undefined ? {} : { TRUST_PROXY }).trustProxy
  assert.equal(trusted(), false)
  assert.equal(trusted('2'), 2)
  assert.deepEqual(trusted('10.0.0.0/8, 192.0.2.1,::1, fd00::/8'), ['10.0.0.0/8', '192.0.2.1', '::1', 'fd00::/8'])
  for (const wrong of [
    'true',
    '*',
    '0',
    '11',
    '-1',
    '10.0.0.0/33',
    '0.0.0.0/0',
    '10.0.0/8',
    'proxy.example',
    '10.0.0.1,',
    '::1/129',
    '10.0.0.0/8/8',
  ]) {
    assert.throws(() => trusted(wrong), /^ConfigError: TRUST_PROXY must be addresses and networks/, wrong)
  }
})

test('accounts are made at once and limited unless the settings say otherwise', () => {
  const { isEmailVerificationRequired, isRateLimited, accountUrl } = readConfig({})
  assert.deepEqual(
    { isEmailVerificationRequired, isRateLimited, accountUrl },
    { isEmailVerificationRequired: false, isRateLimited: true, accountUrl: null },
  )
  const other = readConfig({ EMAIL_VERIFICATION: 'required', RATE_LIMITS: 'off', ACCOUNT_URL: 'https://shop.example/account#old' })
  assert.deepEqual(
    [other.isEmailVerificationRequired, other.isRateLimited, other.accountUrl],
    [true, false, 'https://shop.example/account'],
  )
  for (const name of ['EMAIL_VERIFICATION', 'RATE_LIMITS', 'ACCOUNT_URL'])
    assert.throws(() => readConfig({ [name]: 'maybe' }), new RegExp(name))
})

test('issuer change has processes start with the new BASE_URL, and needs one', async (t) => {
  const [before, now] = ['https://shop.example', 'https://store.example']
  const bare = await runStorefront(t, ['issuer', 'change'], { env })
  assert.deepEqual(bare, {
    status: 1,
    stdout: '',
    stderr: 'storefront: set BASE_URL to the address that access tokens are to be issued for\n',
  })
  assert.equal((await runStorefront(t, ['issuer', 'change'], { env: { ...env, BASE_URL: before } })).status, 0)
  const { status, stdout } = await runStorefront(t, ['issuer', 'change'], { env: { ...env, BASE_URL: `${now}/` } })
  assert.deepEqual([status, stdout.split('\n')[0]], [0, `access tokens are issued for ${now} now (${before} before)`])
  const again = await runStorefront(t, ['issuer', 'change'], { env: { ...env, BASE_URL: now } })
  assert.deepEqual([again.status, again.stdout], [0, `access tokens are issued for ${now} already\n`])
})

test('admin reset-factors removes the factors of one account and ends its sessions; the password signs in again', async (t) => {
  const store = await serve(t, { env })
  const password = 'a long enough passphrase'
  const accounts = []
  for (const email of ['lost@example.com', 'kept@example.com']) {
    const { json } = await post(store.url, '/auth/register', { email, password })
    const call = async (path: string, body?: object) => {
      const headers = { authorization: `Bearer ${json.access_token}`, 'content-type': 'application/json' }
      return (
        await fetch(`${store.url}${path}`, { method: 'POST', headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })
      ).json()
    }
    const { secret } = (await call('/me/totp')) as { secret: string }
    await call('/me/totp/confirm', { totp_code: totpCode(secret, totpStepOf(new Date())) })
    accounts.push({ email, token: json.access_token })
    assert.equal((await post(store.url, '/auth/login', { email, password })).json.code, 'second_factor_required')
  }
  const done = await runStorefront(t, ['admin', 'reset-factors', 'Lost@Example.com'], { env })
  assert.deepEqual(done, { status: 0, stdout: 'removed: passkeys 0, authenticator apps 1; ended sessions: 1\n', stderr: '' })
  assert.equal((await post(store.url, '/auth/login', { email: 'lost@example.com', password })).status, 200)
  assert.equal((await post(store.url, '/auth/login', { email: 'kept@example.com', password })).json.code, 'second_factor_required')
  const unknown = await runStorefront(t, ['admin', 'reset-factors', 'nobody@example.com'], { env })
  assert.deepEqual([unknown.status, unknown.stderr], [1, 'storefront: there is no account with the address nobody@example.com\n'])
})
