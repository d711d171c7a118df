import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import type { InjectOptions } from 'fastify'
import { ACCOUNT_ROLES, KEY_SCOPES, OPERATOR_ROLES, ROLE_SCOPES, SCOPE_NAMES, SCOPES, type Scope } from '../src/http/scopes.ts'
import { makeKey } from './api-keys.ts'
import { addBuyer } from './buyers.ts'
import { assertProblem, problemTypeOf } from './problem.ts'
import { type Answer, startStore } from './store.ts'

interface Operation {
  security?: object[]
  'x-required-scope'?: string
}

interface MatrixCaller {
  name: string
  kind: 'nobody' | 'forger' | 'account' | 'key'
  token: string | undefined
  /** What it may do. */
  scopes: readonly Scope[]
}

/** What each role may do. It changes only by a deliberate change of this table. */
const ROLES = {
  customer: '',
  guest: '',
  support: 'orders:read orders:move orders:place orders:amend stock:read customers:read mails:read mails:send',
  warehouse: 'orders:read orders:move stock:read stock:write',
  catalogue: 'products:write stock:read stock:write figures:read',
  analyst: 'figures:read lake:query pipeline:read',
  admin: SCOPE_NAMES.join(' '),
}
/** The routes that anybody may call. One becomes public only by a deliberate change of this list. */
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
  'GET /order',
  'GET /order/:file',
  'GET /problems/:code',
  'GET /products',
  'GET /products/:id',
  'GET /products/by-slug/:slug',
  'GET /products/facets',
  'GET /readyz',
  'GET /sample-pictures/:file',
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
  'POST /mail-events',
  'POST /orders/by-link',
  'POST /orders/by-link/cancel',
]
const REFUSALS = { nobody: 'unauthenticated', forger: 'invalid_token', account: 'forbidden', key: 'forbidden' } as const
const ID = '01900000-0000-7000-8000-000000000000'
/** Values of parameters that a path's form demands; any other gets an id that nothing has. */
const PARAMETERS: Record<string, string> = { file: 'start.js', code: 'not_found', name: 'order-pending', event_id: `${ID}.1` }

const document: { paths: Record<string, Record<string, Operation>> } = JSON.parse(
  readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'),
)
const store = await startStore({ after })
const callers: MatrixCaller[] = [
  { name: 'nobody', kind: 'nobody', token: undefined, scopes: [] },
  { name: 'a forged token', kind: 'forger', token: `${(await store.register()).token.slice(0, -4)}AAAA`, scopes: [] },
]
for (const role of ACCOUNT_ROLES) {
  const account = await addBuyer(store, role)
  const scopes = ROLES[role].split(' ').filter((scope) => scope !== '') as Scope[]
  callers.push({ name: `the role ${role}`, kind: 'account', token: account.token, scopes })
}
for (const scope of KEY_SCOPES) {
  const others = KEY_SCOPES.filter((other) => other !== scope)
  for (const [name, scopes] of [
    [`a key with ${scope} only`, [scope]],
    [`a key with all but ${scope}`, others],
  ] as const)
    callers.push({ name, kind: 'key', token: (await makeKey(store, scopes, { name })).key, scopes })
}

/** What the document says about a route; what the route says itself when the document leaves it out. */
function accessOf({ method, url, access, schema }: (typeof store.server.listedRoutes)[number]): string | undefined {
  if ('hide' in schema || method === 'HEAD') return access
  const operation = document.paths[url.replaceAll(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()]
  assert.ok(operation !== undefined, `openapi.json lacks ${method} ${url}`)
  return operation['x-required-scope'] ?? (operation.security?.length === 0 ? 'public' : 'caller')
}

/** The body is not JSON where one is read: nobody's account is deleted by this test. */
async function call(method: string, url: string, token: string | undefined): Promise<Answer> {
  const path = url.replaceAll(/:(\w+)/g, (_, name) => PARAMETERS[name] ?? ID)
  const hasBody = !['GET', 'HEAD'].includes(method)
  const { statusCode, headers, body } = await store.server.inject({
    method: method as NonNullable<InjectOptions['method']>,
    url: path,
    headers: {
      ...(hasBody ? { 'content-type': 'application/json' } : {}),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    ...(hasBody ? { payload: '{' } : {}),
  })
  return { status: statusCode, headers: headers as Answer['headers'], text: body, json: undefined }
}

/** Whether a route reads something by an id that nothing has. */
function isOfUnknown({ method, url }: { method: string; url: string }): boolean {
  const names = [...url.matchAll(/:(\w+)/g)].map(([, name = '']) => name)
  return method === 'GET' && names.length > 0 && names.every((name) => name === 'event_id' || !Object.hasOwn(PARAMETERS, name))
}

function assertRefused(
  answer: Answer,
  { method, url }: { method: string; url: string },
  code: (typeof REFUSALS)[MatrixCaller['kind']],
  scope: string | undefined,
  what: string,
): void {
  const status = code === 'forbidden' ? 403 : 401
  // An answer to HEAD has no body.
  if (method === 'HEAD') {
    assert.equal(answer.status, status, what)
    return
  }
  assert.equal(assertProblem(answer, status, code, what, problemTypeOf(url)).required_scope, scope, what)
}

test('every role may do what the table says', () => {
  const roles = Object.entries(ROLE_SCOPES).map(([role, scopes]) => [role, scopes.join(' ')])
  assert.deepEqual(Object.fromEntries(roles), ROLES)
})

test('docs/inside/security.md lists every scope, what it permits and the roles that have it', () => {
  const text = readFileSync(new URL('../docs/inside/security.md', import.meta.url), 'utf8')
  const documented = [...text.matchAll(/^\| `(\w+:\w+)` \| (.*?) \| (.*?) ?\|$/gm)].map(([, scope, permits, roles]) => [
    scope,
    permits,
    roles,
  ])
  const expected = SCOPE_NAMES.map((scope) => {
    const roles = OPERATOR_ROLES.filter((role) => role !== 'admin' && (ROLE_SCOPES[role] as readonly Scope[]).includes(scope))
    return [scope, SCOPES[scope], roles.map((role) => `\`${role}\``).join(', ')]
  })
  assert.deepEqual(documented, expected)
})

test('every route answers every kind of caller as its access says, and no other way', async () => {
  const counts = { allowed: 0, unauthenticated: 0, invalid_token: 0, forbidden: 0 }
  const asked = new Set<string>()
  for (const route of store.server.listedRoutes) {
    const { method, url } = route
    const access = accessOf(route)
    assert.equal(access, route.access, `${method} ${url}`)
    asked.add(access ?? '')
    for (const { name, kind, token, scopes } of callers) {
      const what: string = `${method} ${url} (${access}) called by ${name}`
      const answer = await call(method, url, token)
      // A guest has nothing to prove who it is with.
      const canProve = !(name === 'the role guest' && route.stepUp === 'always')
      const isAllowed =
        access === 'public' ||
        (access === 'key' && kind === 'key') ||
        (access === 'caller' && kind === 'account' && canProve) ||
        (scopes as readonly string[]).includes(access ?? '')
      if (isAllowed) {
        assert.ok(answer.status !== 401 && answer.status !== 403 && answer.status < 500, `${what}: ${answer.status} ${answer.text}`)
        if (isOfUnknown(route)) assert.equal(answer.status, 404, what)
        counts.allowed++
      } else {
        const code = REFUSALS[kind]
        assertRefused(answer, route, code, code === 'forbidden' && access !== 'caller' && access !== 'key' ? access : undefined, what)
        counts[code]++
      }
    }
  }
  const open = store.server.listedRoutes.filter(({ method, access }) => access === 'public' && method !== 'HEAD')
  assert.deepEqual(open.map(({ method, url }) => `${method} ${url}`).toSorted(), PUBLIC)
  const documented = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
  )
  const listed = new Set(store.server.listedRoutes.map(({ method, url }) => `${method} ${url.replaceAll(/:(\w+)/g, '{$1}')}`))
  assert.deepEqual(
    documented.filter((name) => !listed.has(name)),
    [],
    'documented, and not asked',
  )
  assert.deepEqual(
    ['public', 'caller', 'key', 'orders:move', 'access:write'].filter((access) => !asked.has(access)),
    [],
  )
  assert.ok(
    Object.values(counts).every((count) => count > 50),
    JSON.stringify(counts),
  )
})
