import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { addBuyer } from './buyers.ts'
import { assertProblem, faults } from './problem.ts'
import { startStore } from './store.ts'

/** A call with `If-Match`: what it changes, and where its state and entity tag are read. */
interface Conditional {
  /** The place of a new resource, whose state it may change once. */
  make: () => Promise<string>
  /** The path of the call, and of the resource. */
  pathOf: (place: string) => string
  stateOf: (place: string) => string
  body?: object | (() => object)
  token?: string
}

const document: { paths: Record<string, Record<string, { parameters?: { name: string }[]; responses: Record<string, unknown> }>> } =
  JSON.parse(readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'))
const documented = Object.entries(document.paths).flatMap(([path, operations]) =>
  Object.entries(operations).flatMap(([method, { parameters = [] }]) =>
    parameters.some(({ name }) => name === 'if-match') ? [`${method.toUpperCase()} ${path}`] : [],
  ),
)
const store = await startStore({ after })
const { token } = await addBuyer(store, 'admin')
const ada = await store.register()
const lamp = await store.addProduct({ stock: 1_000 })

async function send(method: string, path: string, body: object, by = token) {
  const answer = await store.call(method, path, { token: by, body })
  assert.ok(answer.status < 300, `${method} ${path} ${answer.text}`)
  return answer.json
}

const price = { amount: 500, currency: 'EUR' }
const makeProduct = async () =>
  (await send('POST', '/admin/products', { sku: randomUUID(), name: 'A lamp', category: 'lamps', stock: 5, price })).id
const archive = async () => {
  const id = await makeProduct()
  assert.equal((await store.call('DELETE', `/admin/products/${id}`, { token })).status, 204)
  return id
}
const makeCategory = async () => (await send('POST', '/admin/categories', { name: randomUUID() })).id
const place = async () => (await send('POST', '/orders', { items: [{ product_id: lamp.id, quantity: 2 }] }, ada.token)).id
const confirm = async () => {
  const id = await place()
  await send('POST', `/admin/orders/${id}/transitions`, { to: 'confirmed' })
  return id
}
const ship = async () => {
  const id = await confirm()
  await send('POST', `/admin/orders/${id}/shipments`, {})
  return id
}
const adjust = async () => {
  const id = await place()
  await send('POST', `/admin/orders/${id}/adjustments`, { kind: 'shipping', label: 'Parcel', amount: price })
  return id
}
const pay = async () => {
  const id = await place()
  await send('PUT', `/admin/orders/${id}/payment`, { provider: 'stripe', reference: 'pi_1', state: 'paid' })
  return id
}
const makeGroup = async () => {
  const group = randomUUID()
  await send('POST', '/admin/products', { sku: group, name: 'A lamp', category: 'lamps', price, group })
  return group
}
const [productOf, categoryOf] = [(id: string) => `/admin/products/${id}`, (id: string) => `/admin/categories/${id}`]
const placedOf = (id: string) => `${categoryOf(id)}/products`
let orderedId = ''
/** A category without an order of its product. */
const makeOrder = async () => {
  const body = { sku: randomUUID(), name: 'A lamp', categories: [[randomUUID()]], price }
  const { id, categories } = await send('POST', '/admin/products', body)
  orderedId = id
  return categories[0].id
}
const [stockOf, orderOf] = [(id: string) => `/admin/products/${id}/stock`, (id: string) => `/admin/orders/${id}`]
const ofOrder = (make: () => Promise<string>, path: string, body?: object): Conditional => ({
  make,
  pathOf: (id) => `/admin/orders/${id}/${path}`,
  stateOf: orderOf,
  ...(body === undefined ? {} : { body }),
})

/** Every call of the document that takes `If-Match`: with a new one the first test is red until it has a row here. */
const CALLS: Record<string, Conditional> = {
  'PATCH /admin/products/{id}': { make: makeProduct, pathOf: productOf, stateOf: productOf, body: { name: 'Another lamp' } },
  'DELETE /admin/products/{id}': { make: makeProduct, pathOf: productOf, stateOf: productOf },
  'POST /admin/products/{id}/restore': { make: archive, pathOf: (id) => `${productOf(id)}/restore`, stateOf: productOf },
  'PATCH /admin/groups/{group}': {
    make: makeGroup,
    pathOf: (group) => `/admin/groups/${group}`,
    stateOf: (group) => `/admin/groups/${group}`,
    body: () => ({ brand: randomUUID() }),
  },
  'PATCH /admin/categories/{id}': { make: makeCategory, pathOf: categoryOf, stateOf: categoryOf, body: () => ({ name: randomUUID() }) },
  'PUT /admin/categories/{id}/products': {
    make: makeOrder,
    pathOf: placedOf,
    stateOf: placedOf,
    body: () => ({ product_ids: [orderedId] }),
  },
  'DELETE /admin/categories/{id}': { make: makeCategory, pathOf: categoryOf, stateOf: categoryOf },
  'PUT /admin/products/{id}/stock': { make: makeProduct, pathOf: stockOf, stateOf: stockOf, body: { stock: 7 } },
  'POST /orders/{id}/cancel': { make: place, pathOf: (id) => `/orders/${id}/cancel`, stateOf: orderOf, token: ada.token },
  'POST /admin/orders/{id}/transitions': ofOrder(place, 'transitions', { to: 'confirmed' }),
  'POST /admin/orders/{id}/shipments': ofOrder(confirm, 'shipments', {}),
  'POST /admin/orders/{id}/cancellations': ofOrder(place, 'cancellations', {}),
  'POST /admin/orders/{id}/returns': ofOrder(ship, 'returns', { restock: true }),
  'POST /admin/orders/{id}/amendments': ofOrder(place, 'amendments', { email: 'ada@example.com' }),
  'POST /admin/orders/{id}/adjustments': ofOrder(place, 'adjustments', { kind: 'fee', label: 'A fee', amount: price }),
  'POST /admin/orders/{id}/refunds': ofOrder(pay, 'refunds', { amount: { ...price, amount: 1 }, reference: 'r 1' }),
  'DELETE /admin/orders/{id}/adjustments/{version}': ofOrder(adjust, 'adjustments/2'),
}

/** The entity tag of a resource; an order's is its version. Undefined when it is gone. */
async function tagOf(path: string): Promise<string | undefined> {
  const { status, headers, json } = await store.call('GET', path, { token })
  return status === 404 ? undefined : (headers.etag ?? `"${json.version}"`)
}

test('every call of the document that takes If-Match has a row here', () => {
  assert.deepEqual(Object.keys(CALLS).toSorted(), documented.toSorted())
})

for (const [name, { make, pathOf, stateOf, body, token: by = token }] of Object.entries(CALLS)) {
  const [method = '', path = ''] = name.split(' ')
  const ask = (id: string, ifMatch: string | undefined) =>
    store.call(method, pathOf(id), {
      token: by,
      ...(body === undefined ? {} : { body: typeof body === 'function' ? body() : body }),
      headers: ifMatch === undefined ? {} : { 'if-match': ifMatch },
    })

  test(`${name} changes nothing with an If-Match that is garbled, stale or weak`, async () => {
    const id = await make()
    const tag = await tagOf(stateOf(id))
    assert.ok(tag !== undefined)
    for (const garbled of ['"', '"1', ',', '*, "1"'])
      assert.deepEqual(faults(assertProblem(await ask(id, garbled), 400, 'invalid_header', garbled)), ['If-Match'])
    for (const stale of ['"0"', '"stale", "older"', 'W/"0"']) assertProblem(await ask(id, stale), 412, 'precondition_failed', stale)
    if ('428' in (document.paths[path]?.[method.toLowerCase()]?.responses ?? {}))
      assertProblem(await ask(id, undefined), 428, 'if_match_required')
    assert.equal(await tagOf(stateOf(id)), tag)
  })

  test(`${name} changes once of two at once with the same If-Match, and with one of a list or any`, async () => {
    const id = await make()
    const tag = (await tagOf(stateOf(id))) ?? ''
    const answers = await Promise.all([ask(id, tag), ask(id, tag)])
    const [done, refused] = answers.toSorted((a, b) => a.status - b.status)
    assert.ok(done !== undefined && done.status < 300, `${done?.text}`)
    // Voiding again is a repeat, which changes nothing.
    const isRepeat = answers.filter(({ headers }) => headers['idempotency-replayed'] === 'true').length === 1
    assert.ok(isRepeat || [404, 412].includes(refused?.status ?? 0), `${refused?.text}`)
    assert.notEqual(await tagOf(stateOf(id)), tag)
    for (const isListed of [true, false]) {
      const other = await make()
      const accepted = await ask(other, isListed ? `"0", ${await tagOf(stateOf(other))}` : '*')
      assert.ok(accepted.status < 300, accepted.text)
    }
  })
}
