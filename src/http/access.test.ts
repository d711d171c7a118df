import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import type { FastifyRequest } from 'fastify'
import { pino } from 'pino'
import { assertProblem, problemTypeOf } from '../../test/problem.ts'
import { type Answer, startStore } from '../../test/store.ts'
import { AppError } from '../errors.ts'
import { actorOf, type Caller, callerOf } from './caller.ts'
import { isAccountRole, isScope } from './scopes.ts'
import { createHttpServer } from './server.ts'

const ID = '01900000-0000-7000-8000-000000000000'
const CUSTOMER: Caller = { kind: 'account', userId: 'u', sessionId: 's', role: 'customer' }
const PUBLIC = [
  'DELETE /console/session',
  'GET /.well-known/jwks.json',
  'GET /auth/oidc',
  'GET /auth/oidc/:provider/authorize',
  'GET /auth/oidc/:provider/callback',
  'GET /categories',
  'GET /console',
  'GET /console/:file',
  'GET /docs',
  'GET /docs/:file',
  'GET /feeds/products.ndjson',
  'GET /feeds/products.xml',
  'GET /livez',
  'GET /openapi.json',
  'GET /problems/:code',
  'GET /products',
  'GET /products/:id',
  'GET /products/by-slug/:slug',
  'GET /products/facets',
  'GET /readyz',
  'POST /auth/email/revert',
  'POST /auth/guest',
  'POST /auth/login',
  'POST /auth/oidc/token',
  'POST /auth/passkey',
  'POST /auth/passkey/options',
  'POST /auth/password-reset',
  'POST /auth/password-reset/confirm',
  'POST /auth/refresh',
  'POST /auth/register',
  'POST /auth/second-factor',
  'POST /auth/verify-email',
  'POST /console/session',
  'POST /console/session/passkey',
  'POST /console/session/refresh',
  'POST /console/session/second-factor',
]

const store = await startStore({ after })

/** A server without a route, on which `customer`, `support`, `admin` and `key`, which may move orders, are tokens. */
async function makeServer(t: TestContext) {
  const server = await createHttpServer({
    logger: pino({ level: 'silent' }),
    baseUrl: 'http://localhost',
    authenticate: async ({ headers: { authorization } }) => {
      if (authorization === 'key') return { kind: 'key', keyId: 'k', scopes: new Set(['orders:move'] as const) }
      if (!isAccountRole(authorization)) throw new AppError('unauthenticated', 'Send a token.')
      return { ...CUSTOMER, role: authorization }
    },
  })
  t.after(() => server.close())
  const call = async (url: string, authorization?: string): Promise<Answer> => {
    const { statusCode, headers, body } = await server.inject({ url, headers: authorization === undefined ? {} : { authorization } })
    return { status: statusCode, headers: headers as Answer['headers'], text: body, json: undefined }
  }
  return { server, call }
}

test('a route without access prevents the start, with its name in the error', async (t) => {
  const { server } = await makeServer(t)
  const refusal = /^Error: POST \/v1\/open does not say who may call it: set config\.access$/
  assert.throws(() => server.post('/v1/open', async () => 'open'), refusal)
  assert.throws(() => server.post('/v1/open', { config: {} }, async () => 'open'), refusal)
  assert.throws(() => server.post('/v1/open', { config: { access: 'toString' as never } }, async () => 'open'), refusal)
  // The route's own authentication is not a mark: it can be wrong.
  assert.throws(() => server.post('/v1/open', { onRequest: async () => {} }, async () => 'open'), refusal)
  const scoped = server.register(
    async (scope) => {
      scope.post('/open', async () => 'open')
    },
    { prefix: '/v1' },
  )
  await assert.rejects(async () => scoped, refusal)
})

test('a route that needs no scope prevents the start unless it says what it costs', async (t) => {
  const { server } = await makeServer(t)
  const refusal = /^Error: GET \/v1\/open does not say what it costs: set config\.cost$/
  for (const access of ['public', 'caller'] as const)
    assert.throws(() => server.get('/v1/open', { config: { access } }, async () => 'open'), refusal)
})

test('a marked route is open to the callers that its mark names, and its handler gets the caller', async (t) => {
  const { server, call } = await makeServer(t)
  const answers = { public: () => 'anybody', caller: (request: FastifyRequest) => callerOf(request).role }
  for (const access of ['public', 'caller'] as const)
    server.get(`/${access}`, { config: { access, cost: 'memory' } }, async (request) => answers[access](request))
  for (const access of ['orders:move', 'access:write'] as const)
    server.get(`/${access.replace(':', '-')}`, { config: { access } }, async (request) => actorOf(request).type)
  const read = async (path: string, token?: string) => {
    const { status, text } = await call(path, token)
    return status === 200 ? text : status
  }
  const tokens = [undefined, 'customer', 'support', 'admin', 'key']
  const readAll = (path: string) => Promise.all(tokens.map((token) => read(path, token)))
  assert.deepEqual(await readAll('/public'), Array(5).fill('anybody'))
  assert.deepEqual(await readAll('/caller'), [401, 'customer', 'support', 'admin', 403])
  assert.deepEqual(await readAll('/orders-move'), [401, 403, 'admin', 'admin', 'key'])
  assert.deepEqual(await readAll('/access-write'), [401, 403, 403, 'admin', 403])
  const refusal = JSON.parse((await call('/access-write', 'support')).text)
  assert.deepEqual([refusal.code, refusal.required_scope], ['forbidden', 'access:write'])
})

test('the handler of a public route that asks for a caller fails', async (t) => {
  const { server, call } = await makeServer(t)
  server.get('/public', { config: { access: 'public', cost: 'memory' } }, async (request) => callerOf(request).role)
  assertProblem(await call('/public', 'admin'), 500, 'internal')
})

test('every route of the store that is not public answers 401 without a token, and 403 to a customer where it is for operators', async () => {
  const { token } = await store.register()
  const names = new Set<string>()
  for (const { method, url, access } of store.server.listedRoutes) {
    const path = url
      .replaceAll(':id', ID)
      .replace(':version', '2')
      .replace(':event_id', `${ID}.1`)
      .replace(':provider', 'acme')
      .replace(':namespace', 'storefront')
      .replace(':table', 'order_events')
      .replace(':name', 'order-pending')
      .replace(':file', 'start.js')
      .replace(':code', 'not_found')
      .replace(':slug', 'a-lamp')
    assert.doesNotMatch(path, /:/, `a value for each parameter of ${url}`)
    if (access === 'public') {
      if (method !== 'HEAD') names.add(`${method} ${url}`)
      continue
    }
    const [stranger, forged, customer] = await Promise.all([
      store.call(method, path, { raw: '{' }),
      store.call(method, path, { raw: '{', token: `${token.slice(0, -4)}AAAA` }),
      store.call(method, path, { raw: '{', token }),
    ])
    if (method === 'HEAD') assert.deepEqual([stranger.status, forged.status], [401, 401], path)
    else {
      assertProblem(stranger, 401, 'unauthenticated', `${method} ${path}`, problemTypeOf(path))
      assertProblem(forged, 401, 'invalid_token', `${method} ${path}`, problemTypeOf(path))
    }
    assert.equal(customer.status === 403, isScope(access ?? ''), `${method} ${path} ${customer.status}`)
  }
  // A route becomes public only by a deliberate change of this list.
  assert.deepEqual([...names].sort(), PUBLIC)
})

test('the OpenAPI document requires a token where the server does', async () => {
  const { paths } = (await store.call('GET', '/openapi.json')).json
  for (const { method, url, access, schema } of store.server.listedRoutes) {
    if (method === 'HEAD' || 'hide' in schema) continue
    const operation = paths[url.replaceAll(/:(\w+)/g, '{$1}')][method.toLowerCase()]
    assert.deepEqual(operation.security, access === 'public' ? [] : [{ bearer: [] }], `${method} ${url}`)
    assert.equal(operation['x-required-scope'], isScope(access ?? '') ? access : undefined, `${method} ${url}`)
  }
})
