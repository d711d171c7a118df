import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { type TSchema, Type } from 'typebox'
import { Compile } from 'typebox/schema'
import type { FieldError } from '../src/errors.ts'
import { compileValidator } from '../src/http/validation.ts'
import { createGuest } from './guests.ts'
import { assertProblem, faults } from './problem.ts'
import { registerOperator } from './register-operator.ts'
import { startStore } from './store.ts'

interface Node {
  type?: string
  anyOf?: Node[]
  properties?: Record<string, Node>
  required?: string[]
  items?: Node
  examples?: unknown[]
  'x-must'?: string
  'x-input'?: string
  pattern?: string
  propertyNames?: Node
}

const store = await startStore({ after })
const PARTS = ['body', 'querystring'] as const
const routes = store.server.listedRoutes.flatMap(({ method, url, schema }) =>
  PARTS.flatMap((httpPart) => {
    const node = schema[httpPart] as Node | undefined
    return node === undefined ? [] : [{ name: `${method} ${url}`, method: String(method), url, httpPart, node }]
  }),
)
const bodies = routes.filter(({ httpPart, node }) => httpPart === 'body' && node.examples?.[0] !== undefined)

type Validate = (value: unknown) => { value?: unknown; error?: { details?: { errors?: FieldError[] } } }
const validatorOf = ({ method, url, httpPart, node }: (typeof routes)[number]) =>
  compileValidator({ method, url, httpPart, schema: node as TSchema }) as Validate

/** Each member that the schema of a body describes, in an example of it. */
function* membersOf(
  node: Node,
  value: unknown,
): Generator<{ parent: Record<string, unknown>; name: string; node: Node; isOptional: boolean }> {
  for (const branch of [node, ...(node.anyOf ?? [])]) {
    if (Array.isArray(value) && branch.items !== undefined) for (const item of value) yield* membersOf(branch.items, item)
    if (typeof value !== 'object' || value === null || branch.properties === undefined) continue
    const parent = value as Record<string, unknown>
    for (const [name, member] of Object.entries(branch.properties)) {
      yield { parent, name, node: member, isOptional: !(branch.required ?? []).includes(name) }
      yield* membersOf(member, parent[name])
    }
  }
}

const branchesOf = (node: Node): Node[] => (node.anyOf === undefined ? [node] : node.anyOf.flatMap(branchesOf))
const isScalar = (node: Node) => branchesOf(node).every(({ type }) => type !== 'object' && type !== 'array')

test('an optional member that is an empty text is the same as an absent one, in the body of every route for people', () => {
  let count = 0
  for (const route of bodies.filter(({ url }) => !url.startsWith('/admin/'))) {
    const validate = validatorOf(route)
    const example = () => structuredClone(route.node.examples?.[0])
    for (let index = 0; index < [...membersOf(route.node, example())].length; index++) {
      for (const empty of ['', ' \u00a0']) {
        const body = example()
        const member = [...membersOf(route.node, body)][index] ?? assert.fail()
        if (!member.isOptional || !isScalar(member.node) || member.node['x-input'] === 'verbatim') continue
        delete member.parent[member.name]
        const isAbsentFine = validate(structuredClone(body)).error === undefined
        member.parent[member.name] = empty
        const { value, error } = validate(body)
        assert.equal(error === undefined, isAbsentFine, `${route.name} ${member.name}: ${JSON.stringify(error?.details)}`)
        if (value !== undefined)
          assert.ok([undefined, null, ''].includes(member.parent[member.name] as undefined), `${route.name} ${member.name}`)
        count++
      }
    }
  }
  assert.ok(count > 40, `${count} members`)
})

test('an optional member that is an empty text is refused below /admin, where it may come from a program that lost a value', () => {
  let count = 0
  for (const route of bodies.filter(({ url }) => url.startsWith('/admin/'))) {
    const validate = validatorOf(route)
    const example = () => structuredClone(route.node.examples?.[0])
    const members = [...membersOf(route.node, example())]
    for (const [index, { name, node, isOptional }] of members.entries()) {
      if (!isOptional || !isScalar(node) || node['x-input'] === 'verbatim' || Compile(node as TSchema).Check('')) continue
      const body = example()
      const member = [...membersOf(route.node, body)][index] ?? assert.fail()
      member.parent[member.name] = ''
      assert.ok(validate(body).error !== undefined, `${route.name} ${name}`)
      count++
    }
  }
  assert.ok(count > 40, `${count} members`)
})

test('blanks around a text do not count, and a text of blanks is empty, in the body of every route', () => {
  let count = 0
  for (const route of bodies) {
    const validate = validatorOf(route)
    const expected = validate(structuredClone(route.node.examples?.[0])).value
    const body = structuredClone(route.node.examples?.[0])
    for (const { parent, name, node } of membersOf(route.node, body)) {
      if (typeof parent[name] !== 'string' || branchesOf(node).some((branch) => branch['x-input'] === 'verbatim')) continue
      if (route.url.endsWith('/mail-templates/:name') || branchesOf(node).every(({ type }) => type !== 'string')) continue
      const isPasted = branchesOf(node).some((branch) => branch['x-input'] === 'pasted')
      parent[name] = isPasted ? `\u202a\u00a0${parent[name]}\u200b \u202c` : `\t\u00a0${parent[name]}\u3000 \ufeff`
      count++
    }
    const { value, error } = validate(body)
    assert.deepEqual(error?.details?.errors ?? [], [], route.name)
    assert.deepEqual(value, expected, route.name)
  }
  assert.ok(count > 50, `${count} texts`)
})

function* patternsOf(node: unknown, path = ''): Generator<{ path: string; node: Node }> {
  if (typeof node !== 'object' || node === null) return
  if (typeof (node as Node).pattern === 'string') yield { path, node: node as Node }
  for (const [name, child] of Object.entries(node)) yield* patternsOf(child, `${path}/${name}`)
}

test('no refusal shows a regular expression, whichever pattern a text does not have', () => {
  let count = 0
  for (const { name, httpPart, node } of routes) {
    for (const { path, node: text } of patternsOf(node)) {
      const validate = compileValidator({ method: 'POST', url: '/', httpPart, schema: Type.Object({ text: text as TSchema }) }) as Validate
      for (const wrong of ['\u0001', '!\u0001!', '\u0000', '-\n-']) {
        const errors = validate({ text: wrong }).error?.details?.errors ?? []
        for (const { detail } of errors) {
          assert.doesNotMatch(detail, /pattern|\^|\\|\[|\$$/, `${name} ${path}: ${detail}`)
          assert.notEqual(detail, 'is not written as it must be', `${name} ${path} needs x-must`)
          count++
        }
      }
    }
  }
  assert.ok(count > 40, `${count} refusals`)
})

test('an address needs what its country needs, in orders and in address books', async () => {
  const [ada, { id }] = [await store.register(), await store.addProduct()]
  const base = { name: 'Chan Tai Man', line1: 'Flat 1, 2 Nathan Road' }
  const place = (address: object) =>
    store.call('POST', '/orders', { token: ada.token, body: { items: [{ product_id: id, quantity: 1 }], shipping_address: address } })
  const keep = (address: object) => store.call('POST', '/me/addresses', { token: ada.token, body: { address } })
  const enough: object[] = [
    { city: 'Kowloon', country: 'HK' },
    { city: 'Kowloon', country: 'HK', postal_code: '', region: ' ', line2: '', phone: '' },
    { city: 'Dubai', country: 'AE', postal_code: null },
    { postal_code: '049483', country: 'SG' },
    { city: 'Pristina', country: 'XK' },
    { city: 'Belfast', postal_code: 'BT1 1AA', country: 'XI' },
    { city: 'Dublin', country: 'IE' },
    { city: 'Bologna', postal_code: '40126', country: 'IT' },
    { city: 'Springfield', region: 'IL', postal_code: '62701', country: 'US' },
  ]
  for (const address of enough) {
    const placed = await place({ ...base, ...address })
    assert.equal(placed.status, 201, JSON.stringify(address) + placed.text)
    assert.equal((await keep({ ...base, ...address })).status, 201, JSON.stringify(address))
  }
  const wrong: [address: object, faults: string[]][] = [
    [{ city: 'Berlin', country: 'DE' }, ['postal_code']],
    [{ city: 'Berlin', country: 'DE', postal_code: ' ' }, ['postal_code']],
    [{ city: 'Berlin', country: 'DE', postal_code: '-' }, ['postal_code']],
    [{ country: 'GB' }, ['city', 'postal_code']],
    [{ city: 'Springfield', postal_code: '62701', country: 'US' }, ['region']],
    [{ city: 'London', postal_code: 'SW1', country: 'UK' }, ['country']],
    [{ city: 'Nowhere', postal_code: '1', country: 'ZZ' }, ['country']],
  ]
  for (const [address, names] of wrong) {
    const inOrder = assertProblem(await place({ ...base, ...address }), 422, 'invalid_body')
    assert.deepEqual(faults(inOrder).toSorted(), names.map((name) => `#/shipping_address/${name}`).toSorted())
    const inBook = assertProblem(await keep({ ...base, ...address }), 422, 'invalid_body')
    assert.deepEqual(faults(inBook).toSorted(), names.map((name) => `#/address/${name}`).toSorted())
  }
})

test('an address of a person is the same with blanks around it, in the account and in filters, where a plus may not be encoded', async () => {
  const email = 'ada+shop@example.com'
  const [{ token: admin }, password] = [await registerOperator(store), 'a long enough passphrase']
  assert.equal((await store.call('POST', '/auth/register', { body: { email: `\u00a0${email} `, password, name: '' } })).status, 201)
  const login = await store.call('POST', '/auth/login', { body: { email: `${email}\u200b`, password } })
  assert.equal(login.status, 200)
  assertProblem(await store.call('POST', '/auth/login', { body: { email, password: `${password} ` } }), 401, 'invalid_credentials')
  await createGuest(store, ` ${email} `)
  const { id } = await store.addProduct()
  const order = await store.call('POST', '/orders', { token: login.json.access_token, body: { items: [{ product_id: id, quantity: 1 }] } })
  for (const written of [email, encodeURIComponent(email), `%20${encodeURIComponent(email)}%C2%A0`, email.toUpperCase()]) {
    const orders = await store.call('GET', `/admin/orders?email=${written}`, { token: admin })
    assert.deepEqual(
      orders.json.data.map((found: { id: string }) => found.id),
      [order.json.id],
      written,
    )
    const customers = await store.call('GET', `/admin/customers?email=${written}`, { token: admin })
    assert.equal(customers.json.data.length, 2, written)
    const mails = await store.call('GET', `/admin/mails?email=${written}`, { token: admin })
    assert.equal(mails.status, 200, written)
  }
  const byNumber = await store.call('GET', `/admin/orders?number=%20${order.json.number}%20&limit=%205`, { token: admin })
  assert.equal(byNumber.json.data.length, 1)
})

test('a password is the same in each spelling of its letters, and also the hash of another system', async () => {
  const password = 'Straße-übung-ñ-12345'
  for (const [registered, typed] of [
    [password.normalize('NFC'), password.normalize('NFD')],
    [password.normalize('NFD'), password.normalize('NFC')],
  ] as const) {
    const ada = await store.register({ password: registered })
    const login = (text: string) => store.call('POST', '/auth/login', { body: { email: ada.email, password: text } })
    for (const text of [typed, registered]) assert.equal((await login(text)).status, 200)
    assertProblem(await login(password.replace('ü', 'u')), 401, 'invalid_credentials')
  }
})

test('every link of a list leads to an answer, whatever was searched for', async () => {
  const growing = fc.constantFrom('ß', '\ufdfa', 'ﬃ', '㌀', '½', 'İ', 'Ǆ', 'ö', '한')
  const character = fc.oneof(growing, fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }), fc.constantFrom(' ', '-', '/'))
  const search = fc.array(character, { minLength: 1, maxLength: 40 }).map((parts) => [...parts.join('')].slice(0, 200).join(''))
  const fixed = ['ß'.repeat(110), `-${'ß'.repeat(110)} x`, '\ufdfa'.repeat(100), `${'ﬃ'.repeat(99)} ${'㌀'.repeat(99)}`]
  let followed = 0
  for (const q of [...fixed, ...fc.sample(search, { numRuns: 150, seed: 31 })]) {
    const first = await store.call('GET', `/products?${new URLSearchParams({ q, limit: '1' })}`)
    if (first.status !== 200) continue
    for (const [, url = ''] of (first.headers.link ?? '').matchAll(/<([^>]*)>/g)) {
      const { pathname, search: query } = new URL(url)
      const next = await store.call('GET', pathname + query)
      assert.equal(next.status, 200, `${JSON.stringify(q)}: ${next.text}`)
      followed++
    }
  }
  assert.ok(followed > 60, `${followed} links`)
  const long = await store.call('GET', `/products?${new URLSearchParams({ q: 'ß'.repeat(201) })}`)
  assert.deepEqual(assertProblem(long, 400, 'invalid_query').errors, [{ parameter: 'q', detail: 'must have at most 200 characters' }])
})

test('a sku and a category have one spelling, in the API, in imports and in filters', async () => {
  const { token } = await registerOperator(store)
  const [composed, decomposed] = ['Café'.normalize('NFC'), 'Café'.normalize('NFD')]
  const body = (sku: string, category: string) => ({ sku, name: sku, category, price: { amount: 100, currency: 'EUR' } })
  const create = (sku: string, category: string) => store.call('POST', '/admin/products', { token, body: body(sku, category) })
  assert.equal((await create(decomposed, decomposed)).status, 201)
  assertProblem(await create(composed, composed), 409, 'sku_taken')
  assert.equal((await create('other', composed)).status, 201)
  const lines = [composed, decomposed].map((sku) => JSON.stringify(body(sku, decomposed))).join('\n')
  const imported = await store.call('POST', '/admin/products/import', {
    token,
    raw: lines,
    headers: { 'content-type': 'application/x-ndjson' },
  })
  assert.doesNotMatch(imported.text, /"created":[1-9]/, imported.text)
  for (const category of [composed, decomposed]) {
    const { json } = await store.call('GET', `/products?${new URLSearchParams({ category, include: 'count' })}`)
    assert.equal(json.count.value, 2, category)
  }
})

test('a compressed body is 415 on every route that takes one, and a byte order mark before JSON is ignored', async () => {
  const { token } = await registerOperator(store)
  const taking = store.server.listedRoutes.filter(({ method }) => ['POST', 'PUT', 'PATCH', 'DELETE'].includes(String(method)))
  assert.ok(taking.length > 50)
  for (const { method, url } of taking) {
    const path = url.replaceAll(/:\w+/g, '01900000-0000-7000-8000-000000000000')
    for (const type of ['application/json', 'application/x-ndjson']) {
      const headers = { 'content-type': type, 'content-encoding': type === 'application/json' ? 'gzip' : 'br' }
      const answer = await store.call(String(method), path, { token, raw: gzipSync('{}'), headers })
      assertProblem(answer, 415, 'unsupported_media_type', `${method} ${url}`)
      assert.equal(answer.headers['accept-encoding'], 'identity')
    }
  }
  const body = `\ufeff${JSON.stringify({ email: 'bom@example.com' })}`
  assert.equal((await store.call('POST', '/auth/guest', { raw: body, headers: { 'content-encoding': 'identity' } })).status, 201)
})
