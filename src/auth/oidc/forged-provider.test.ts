import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, test } from 'node:test'
import pino from 'pino'
import { freePort } from '../../../test/free-port.ts'
import { Browser, SHOP } from '../../../test/oidc-browser.ts'
import { CLIENT, type Forgery, startForgedProvider } from '../../../test/oidc-providers.ts'
import { assertProblem } from '../../../test/problem.ts'
import { startStore } from '../../../test/store.ts'
import { Provider } from './provider.ts'

const forger = await startForgedProvider({ after })
const other = await startForgedProvider({ after })
const reasons: string[] = []
const logger = pino({ level: 'info' }, { write: (line: string) => void reasons.push(JSON.parse(line).reason) })
const store = await startStore(
  { after },
  {
    logger,
    corsOrigins: [SHOP],
    oidcProviders: [
      { id: 'acme', name: 'Acme', issuer: forger.issuer, ...CLIENT },
      { id: 'other', name: 'Other', issuer: other.issuer, ...CLIENT },
      { id: 'away', name: 'Away', issuer: `http://127.0.0.1:${await freePort()}`, ...CLIENT },
    ],
  },
)

async function signIn(forgery: Forgery) {
  forger.state.forgery = forgery
  const browser = new Browser(store)
  const start = await browser.start()
  assert.equal(start.status, 303, start.text)
  return { browser, answer: await browser.comeBack(forger.signIn(start.headers.location ?? '')) }
}

const countRows = async () =>
  (await store.pool.query('select (select count(*) from users) + (select count(*) from oidc_codes) as count')).rows[0].count

test('what the provider signs for this browser opens a session, so the forgeries below fail because of what is forged', async () => {
  const { browser, answer } = await signIn({})
  assert.equal((await browser.exchange(browser.outcome(answer).code ?? '')).json.user.email, 'eve@example.com')
})

test('an ID token with a forged nonce, issuer, audience, time or signature is refused, and nothing is created', async () => {
  const before = await countRows()
  const now = Math.floor(Date.now() / 1_000)
  const forgeries: Record<string, Forgery> = {
    'the nonce of another sign-in': { claims: { nonce: 'another' } },
    'no nonce': { claims: { nonce: undefined } },
    'another issuer': { claims: { iss: 'https://evil.example' } },
    'another audience': { claims: { aud: 'another-client' } },
    'two audiences without an authorized party': { claims: { aud: [CLIENT.clientId, 'another-client'] } },
    'another authorized party': { claims: { aud: [CLIENT.clientId, 'another-client'], azp: 'another-client' } },
    expired: { claims: { iat: now - 600, exp: now - 300 } },
    'no expiry': { claims: { exp: undefined } },
    'no subject': { claims: { sub: undefined } },
    'the signature of a stranger': { signature: 'of a stranger' },
    'no signature': { signature: 'none' },
    'the issuer of another provider in the address': { redirect: { iss: 'https://evil.example' } },
    'no issuer in the address': { redirect: { iss: undefined } },
    'no code': { redirect: { code: undefined } },
    'an error of the provider': { redirect: { code: undefined, error: 'server_error' } },
  }
  for (const [what, forgery] of Object.entries(forgeries)) {
    const { browser, answer } = await signIn(forgery)
    assert.deepEqual(browser.outcome(answer), { error: 'failed' }, what)
    assert.ok(!answer.text.includes('evil'), what)
  }
  assert.equal(await countRows(), before)
})

test('the answer of one provider is refused at the address of another', async () => {
  forger.state.forgery = {}
  const browser = new Browser(store)
  const back = forger.signIn((await browser.start()).headers.location ?? '')
  assertProblem(await browser.comeBack(back.replace('/acme/', '/other/')), 401, 'invalid_sign_in')
  assert.ok(!other.state.asked.includes('/token'), 'the other provider gets no code')
  assert.ok(browser.outcome(await browser.comeBack(back)).code)
})

test('a provider that answers with 10 MB or never is unavailable, and everything else still works', async () => {
  const huge = JSON.stringify({ filling: 'x'.repeat(10_000_000) })
  const cases: Record<string, (response: ServerResponse) => void> = {
    '10 MB': (response) => response.writeHead(200, { 'content-type': 'application/json' }).end(huge),
    nothing: (response) => response.destroy(),
    'no answer': () => {},
  }
  for (const [what, answer] of Object.entries(cases)) {
    const began = performance.now()
    const { browser, answer: back } = await signIn({
      instead(path, response) {
        if (path === '/token') answer(response)
        return path === '/token'
      },
    })
    assert.deepEqual(browser.outcome(back), { error: 'unavailable' }, what)
    assert.ok(performance.now() - began < 9_000, what)
  }
  const ada = await store.register()
  await store.ok('POST', '/auth/login', { body: { email: ada.email, password: ada.password } })
})

test('an unavailable provider delays neither the start nor a login, and is asked once in five seconds', async () => {
  const starts = await Promise.all(Array.from({ length: 20 }, () => new Browser(store).start('away')))
  for (const answer of starts) {
    assert.deepEqual([answer.status, answer.headers.location], [303, `${SHOP}/account?from=basket#oidc-error=unavailable`])
    assert.equal(answer.headers['set-cookie'], undefined)
  }
  assert.ok(
    reasons.some((reason) => /^http:\/\/127\.0\.0\.1:\d+ does not answer: ECONNREFUSED$/.test(reason)),
    String(new Set(reasons)),
  )
  const ada = await store.register()
  await store.ok('POST', '/auth/login', { body: { email: ada.email, password: ada.password } })
})

test('reads metadata once an hour, retries five seconds after a failure, and keeps old metadata during an outage', async (t) => {
  const server = await startForgedProvider(t)
  let nowMs = 0
  const bounds = { timeoutMs: 300, maxBytes: 100_000 }
  const settings = { id: 'acme', name: 'Acme', issuer: server.issuer, ...CLIENT }
  const provider = new Provider(settings, { baseUrl: 'http://localhost:3000', now: () => new Date(nowMs), bounds })
  const ask = () => provider.authorizationUrl({ state: 's', nonce: 'n', codeVerifier: 'v'.repeat(43) }, null)
  const asked = () => server.state.asked.length
  server.state.forgery = { metadata: { issuer: 'https://evil.example' } }
  await assert.rejects(ask, { name: 'ProviderUnavailable' })
  server.state.forgery = { metadata: { filling: 'x'.repeat(100_000) } }
  await assert.rejects(ask, { name: 'ProviderUnavailable' })
  assert.equal(asked(), 1, 'within five seconds it is not asked again')
  nowMs += 5_001
  await assert.rejects(ask, { name: 'ProviderUnavailable' }, 'too large')
  nowMs += 5_001
  server.state.forgery = { instead: () => true }
  await assert.rejects(ask, { name: 'ProviderUnavailable', message: /no whole answer within 0\.3 s/ })
  nowMs += 5_001
  server.state.forgery = {
    instead(_path, response) {
      response.writeHead(200, { 'content-type': 'application/json' })
      const drip = setInterval(() => response.write(' '), 50)
      return response.on('close', () => clearInterval(drip)) !== undefined
    },
  }
  await assert.rejects(ask, { name: 'ProviderUnavailable', message: /no whole answer within 0\.3 s/ }, 'a drop at a time')
  nowMs += 5_001
  server.state.forgery = {}
  await Promise.all([ask(), ask(), ask()])
  assert.equal(asked(), 5, 'parallel sign-ins share one request')
  nowMs += 3_600_001
  server.state.forgery = { instead: (_path, response) => response.destroy() !== undefined }
  assert.match(await ask(), new RegExp(`^${server.issuer}/authorize\\?`))
  await ask()
  assert.equal(asked(), 6)
})
