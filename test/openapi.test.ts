import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Value } from 'typebox/value'
import { PROBLEMS } from '../src/http/problem.ts'
import { startStore } from './store.ts'

interface Response {
  description: string
  content?: Record<string, { schema: object }>
}
interface Operation {
  summary?: string
  tags?: string[]
  security?: object[]
  parameters?: { name: string; in: string; required?: boolean }[]
  requestBody?: { content: Record<string, object> }
  responses: Record<string, Response>
}
interface Document {
  openapi: string
  info: { version: string }
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, object>; securitySchemes: Record<string, object> }
}

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const committed = await readFile(new URL('../openapi.json', import.meta.url), 'utf8')
const document: Document = JSON.parse(committed)
const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, path, method, operation })),
)
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
  assert.deepEqual(served.json, document)
})

test('is OpenAPI 3.1 and has every call of the contract', () => {
  assert.match(document.openapi, /^3\.1\.\d+$/)
  assert.deepEqual(
    CONTRACT.filter((name) => !operations.some((operation) => operation.name === name)),
    [],
  )
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
      assert.deepEqual(Object.keys(operation.requestBody.content), [takesLines ? 'application/x-ndjson' : 'application/json'], name)
      for (const status of takesLines ? ['415'] : ['400', '415', '422']) assert.ok(refusals.includes(status), `${name} ${status}`)
    }
    for (const [status, { description }] of Object.entries(operation.responses)) {
      assert.ok(description !== '' && description !== 'Default Response', `${name} ${status}`)
    }
    if (operation.security !== undefined) assert.ok(refusals.includes('401'), name)
  }
})

test('has a body for each call that takes one, and the version of the package', async () => {
  const withoutBody = operations.filter(({ method, operation }) => ['post', 'put', 'patch'].includes(method) && !operation.requestBody)
  assert.deepEqual(
    withoutBody.map(({ name }) => name),
    ['POST /auth/logout', 'POST /orders/{id}/cancel'],
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
    assert.deepEqual([...Value.Errors(schema, answer.json)], [], `${method} ${path} ${answer.text}`)
  }
})
