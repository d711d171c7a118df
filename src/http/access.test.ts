import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { FastifyRequest } from 'fastify'
import { pino } from 'pino'
import { assertProblem } from '../../test/problem.ts'
import type { Answer } from '../../test/store.ts'
import { AppError } from '../errors.ts'
import { actorOf, type Caller, callerOf } from './caller.ts'
import { isAccountRole } from './scopes.ts'
import { createHttpServer } from './server.ts'

const CUSTOMER: Caller = { kind: 'account', userId: 'u', sessionId: 's', role: 'customer' }

/** A server without routes. Its valid tokens are `customer`, `support`, `admin`, and `key`, which may change orders. */
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
  // The route's own authentication is not enough, because it can be wrong.
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
