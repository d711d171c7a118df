import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import SerializerSelector from '@fastify/fast-json-stringify-compiler'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import spectral from '@stoplight/spectral-core'
import rulesets from '@stoplight/spectral-rulesets'
import type { TSchema } from 'typebox'
import { readContract } from '../fuzz/contract.ts'
import { Judge } from '../fuzz/judge.ts'
import { PROBLEMS } from '../src/http/problem.ts'
import { compileValidator } from '../src/http/validation.ts'
import { startStore } from './store.ts'

interface Media {
  schema: object
  example?: unknown
  examples?: Record<string, unknown>
}
interface Response {
  /** Present until the shared response takes its place. */
  $ref?: string
  description: string
  content?: Record<string, Media>
}
interface Operation {
  operationId?: string
  description?: string
  summary?: string
  tags?: string[]
  security?: object[]
  parameters?: { name: string; in: string; required?: boolean }[]
  requestBody?: { required?: boolean; content: Record<string, Media> }
  responses: Record<string, Response>
}
interface Document {
  openapi: string
  info: { version: string }
  paths: Record<string, Record<string, Operation>>
  components: { responses: Record<string, Response>; schemas: Record<string, object>; securitySchemes: Record<string, object> }
}

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const committed = await readFile(new URL('../openapi.json', import.meta.url), 'utf8')
const document: Document = JSON.parse(committed)
for (const { responses } of Object.values(document.paths).flatMap((item) => Object.values(item)))
  for (const [status, { $ref }] of Object.entries(responses))
    if ($ref !== undefined) responses[status] = document.components.responses[$ref.slice('#/components/responses/'.length)] as Response
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, path, method, operation })),
)
const judge = new Judge(await readContract())
const store = await startStore({ after })

const CONTRACT = [
  'POST /auth/register',
  'POST /auth/login',
  'POST /auth/refresh',
  'POST /auth/logout',
  'GET /me',
  'GET /products',
  'GET /products/{id}',
  'POST /orders',
  'GET /orders',
  'GET /orders/{id}',
  'POST /orders/{id}/cancel',
  'GET /livez',
  'GET /readyz',
]

/** Calls whose body is NDJSON. */
const LINES = ['POST /admin/products/import', 'POST /admin/orders/transitions']

test('is committed as the command prints it', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['bin/storefront.mjs', 'openapi'], { cwd: ROOT, maxBuffer: 1e8 })
  assert.equal(committed, stdout, 'run npm run openapi')
})

test('is served as it is committed', async () => {
  const served = await store.call('GET', '/openapi.json')
  assert.equal(served.status, 200)
  assert.deepEqual(served.json, JSON.parse(committed))
})

test('is OpenAPI 3.1 and has every call of the contract', () => {
  assert.match(document.openapi, /^3\.1\.\d+$/)
  assert.deepEqual(
    CONTRACT.filter((name) => !operations.some((operation) => operation.name === name)),
    [],
  )
})

test('has schemas that compile, each of which a store compiles only for the first request', () => {
  const compile = SerializerSelector()(store.server.getSchemas())
  let answers = 0
  // Most routes answer with the same problems.
  const compiled = new Set<string>()
  for (const { method, url, schema } of store.server.listedRoutes) {
    for (const httpPart of ['body', 'querystring', 'params', 'headers'] as const) {
      const part = schema[httpPart] as TSchema | undefined
      if (part !== undefined) assert.doesNotThrow(() => compileValidator({ method, url, httpPart, schema: part }), `${method} ${url}`)
    }
    for (const [httpStatus, answer] of Object.entries((schema.response ?? {}) as Record<string, Response>)) {
      const schemas = answer.content === undefined ? [answer] : Object.values(answer.content).map((media) => media.schema)
      answers += schemas.length
      for (const part of schemas) {
        const text = JSON.stringify(part)
        if (compiled.has(text)) continue
        assert.doesNotThrow(() => compile({ method, url, httpStatus, schema: part as never }), `${method} ${url}`)
        compiled.add(text)
      }
    }
  }
  assert.ok(answers > operations.length)
})

test('has all methods of each of its paths, and no other', async () => {
  for (const [path, item] of Object.entries(document.paths)) {
    const { headers } = await store.call('TRACE', path.replaceAll(/\{\w+\}/g, '01900000-0000-7000-8000-000000000000'))
    const methods = Object.keys(item).map((method) => method.toUpperCase())
    assert.deepEqual(headers.allow?.split(', '), [...methods, ...(methods.includes('GET') ? ['HEAD'] : [])].sort(), path)
  }
})

test('has a target for each of its references', () => {
  const references = [...committed.matchAll(/"\$ref": "([^"]*)"/g)].map(([, reference = '']) => reference)
  assert.ok(references.length > 0)
  for (const reference of new Set(references)) {
    assert.match(reference, /^#\//)
    const steps = reference.slice(2).split('/')
    // biome-ignore lint/suspicious/noExplicitAny: walks the document wherever the reference leads
    assert.ok(steps.reduce((node: any, step) => node?.[step], document) !== undefined, reference)
  }
})

test('gives each refusal under the status of its code', () => {
  for (const { name, operation } of operations) {
    for (const [status, { description, content }] of Object.entries(operation.responses)) {
      if (content?.['application/problem+json'] === undefined) continue
      const codes = [...description.matchAll(/`(\w+)`:/g)].map(([, code = '']) => code)
      assert.ok(codes.length > 0, `${name} ${status}`)
      for (const code of codes) assert.equal(String(PROBLEMS[code as keyof typeof PROBLEMS]?.status), status, `${name} ${code}`)
    }
  }
})

test('describes each call: what it does, what it takes, who may, and how it fails', () => {
  for (const { name, path, operation } of operations) {
    assert.ok(operation.summary && operation.tags?.length === 1, name)
    const inPath = operation.parameters
      ?.filter((parameter) => parameter.in === 'path' && parameter.required)
      .map((parameter) => parameter.name)
    assert.deepEqual(
      inPath ?? [],
      [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]),
      name,
    )
    const refusals = Object.keys(operation.responses)
    if (operation.requestBody !== undefined) {
      const takesLines = LINES.includes(name)
      const types = takesLines ? ['application/x-ndjson', ...(name.endsWith('/import') ? ['text/csv'] : [])] : ['application/json']
      assert.deepEqual(Object.keys(operation.requestBody.content), types, name)
      for (const status of takesLines ? ['415'] : ['400', '415', '422']) assert.ok(refusals.includes(status), `${name} ${status}`)
    }
    for (const [status, { description }] of Object.entries(operation.responses)) {
      assert.ok(description !== '' && description !== 'Default Response', `${name} ${status}`)
    }
    if (operation.security?.length !== 0) assert.ok(refusals.includes('401'), name)
  }
})

test('a body may be left out only where that can do no harm', () => {
  const optional = operations.filter(({ operation }) => operation.requestBody?.required === false)
  assert.deepEqual(
    optional.map(({ name }) => name),
    ['POST /admin/api-keys/{id}/rotate', 'POST /admin/api-keys/{id}/revoke'],
  )
})

test('has a body for each call that takes one, and the version of the package', async () => {
  const withoutBody = operations.filter(({ method, operation }) => ['post', 'put', 'patch'].includes(method) && !operation.requestBody)
  assert.deepEqual(
    withoutBody.map(({ name }) => name),
    [
      'POST /me/email/proof',
      'POST /me/totp',
      'POST /me/passkeys/options',
      'POST /me/recovery-codes',
      'POST /auth/passkey/options',
      'POST /auth/step-up/options',
      'POST /auth/logout',
      'POST /admin/customers/{id}/unblock',
      'POST /admin/products/{id}/restore',
      'POST /orders/{id}/cancel',
      'POST /admin/webhooks/{id}/rotate',
      'POST /admin/webhooks/{id}/enable',
      'POST /admin/webhooks/{id}/disable',
      'POST /admin/webhooks/{id}/test',
      'POST /admin/mails/{event_id}/retry',
      'POST /admin/mails/{event_id}/send-again',
      'POST /admin/mails/retry',
    ],
  )
  assert.equal(document.info.version, JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8')).version)
})

test('has schemas that real answers match', async () => {
  const ada = await store.register()
  const lamp = await store.addProduct()
  const shipping_address = { name: 'Ada', line1: '1 St', city: 'London', postal_code: 'SW1', country: 'GB' }
  const body = { items: [{ product_id: lamp.id, quantity: 2 }], shipping_address }
  const placed = await store.call('POST', '/orders', { token: ada.token, body })
  const login = { email: ada.email, password: ada.password }
  const calls = [
    ['POST', '/orders', '/orders', { body: { items: body.items } }],
    ['GET', '/orders', '/orders', {}],
    ['GET', '/orders/{id}', `/orders/${placed.json.id}`, {}],
    ['POST', '/orders/{id}/cancel', `/orders/${placed.json.id}/cancel`, {}],
    ['GET', '/products', '/products?limit=1', {}],
    ['GET', '/products/{id}', `/products/${lamp.id}`, {}],
    ['GET', '/me', '/me', {}],
    ['POST', '/auth/login', '/auth/login', { body: login }],
    ['GET', '/readyz', '/readyz', {}],
  ] as const
  for (const [method, path, url, options] of calls) {
    const answer = await store.call(method, url, { token: ada.token, ...options })
    const schema = document.paths[path]?.[method.toLowerCase()]?.responses[answer.status]?.content?.['application/json']?.schema
    assert.ok(schema !== undefined, `${method} ${path} ${answer.status} ${answer.text}`)
    assert.deepEqual(judge.explain(schema as never, answer.json), null, `${method} ${path} ${answer.text}`)
  }
})

test('names each operation once and describes it', () => {
  const ids = operations.map(({ operation }) => operation.operationId)
  assert.equal(new Set(ids).size, operations.length)
  for (const { name, operation } of operations) {
    assert.match(operation.operationId ?? '', /^[a-z][A-Za-z]+$/, name)
    assert.ok((operation.description ?? '').length > 20, name)
  }
})

test('has a named schema for every body, and an example of it that is one', () => {
  for (const { name, operation } of operations) {
    const bodies = [operation.requestBody, ...Object.entries(operation.responses).flatMap(([, response]) => response)]
    for (const [type, media] of bodies.flatMap((body) => Object.entries(body?.content ?? {}))) {
      if (['application/x-ndjson', 'application/xml', 'text/csv', 'text/html'].includes(type)) continue
      assert.match(JSON.stringify(media.schema), /^{"\$ref":"#\/components\/schemas\/\w+"}$/, name)
      // Refusals have an example for each code, which the rules of Redocly check.
      if (type !== 'application/json' || media.examples !== undefined) continue
      assert.ok(media.example !== undefined, `${name} has no example of ${JSON.stringify(media.schema)}`)
      assert.equal(judge.explain(media.schema as never, media.example), null, name)
    }
  }
})

test('has the names that a client needs', () => {
  const names = [
    'Product',
    'ProductPage',
    'Order',
    'OrderPage',
    'OrderDetail',
    'Session',
    'SessionPage',
    'TokenSet',
    'User',
    'Money',
    'Problem',
  ]
  assert.deepEqual(
    names.filter((name) => !(name in document.components.schemas)),
    [],
  )
})

test('passes the recommended rules of Redocly', async () => {
  // The committed document names the address of a store on one's own machine.
  const config = await createConfig({
    extends: ['recommended'],
    rules: { 'no-server-example.com': 'off', 'operation-2xx-response': 'off' },
  })
  const found = await lintFromString({ source: committed, absoluteRef: '/openapi.json', config })
  assert.deepEqual(
    found.map(({ ruleId, message, location }) => `${ruleId} ${location[0]?.pointer}: ${message}`),
    [],
  )
})

test('every call can succeed; those that lead a browser on do it by 303', () => {
  const without = operations.filter(({ operation }) => !Object.keys(operation.responses).some((status) => status.startsWith('2')))
  assert.deepEqual(
    without.map(({ name, operation }) => [name, '303' in operation.responses]),
    ['authorize', 'callback'].map((last) => [`GET /auth/oidc/{provider}/${last}`, true]),
  )
})

test('passes the rules of Spectral', async () => {
  const linter = new spectral.Spectral()
  // Spectral compiles patterns without the flag u, so no example can match a class such as \p{Cc}; the examples are
  // checked above.
  linter.setRuleset({ extends: [[rulesets.oas, 'recommended']], rules: { 'oas3-valid-media-example': 'off' } } as never)
  const found = await linter.run(JSON.parse(committed))
  assert.deepEqual(
    found.map(({ code, path, message }) => `${code} ${path.join('/')}: ${message}`),
    [],
  )
})
