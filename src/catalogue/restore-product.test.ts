import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { assertProblem, faults } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startStore } from '../../test/store.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
const ada = await store.register()
const HOUR = 3_600_000

const call = (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object, headers: Record<string, string> = {}) =>
  store.call(method, path, { token, headers, ...(body && { body }) })
async function create(changes: object = {}) {
  const price = { amount: 1_000, currency: 'EUR' }
  const { status, json, text } = await call('POST', '/admin/products', {
    sku: randomUUID(),
    name: 'Numbat',
    category: 'Numbats',
    price,
    ...changes,
  })
  assert.equal(status, 201, text)
  return json
}
const archive = async (id: string) => assert.equal((await call('DELETE', `/admin/products/${id}`)).status, 204)
const restore = (id: string, headers?: Record<string, string>) => call('POST', `/admin/products/${id}/restore`, undefined, headers)
const idsOf = async (query: string) => {
  const { status, json, text } = await call('GET', `/admin/products?limit=100&${query}`)
  assert.equal(status, 200, text)
  return json.data.map(({ id }: { id: string }) => id)
}
const written = async (id: string) =>
  (
    await store.pool.query(
      `select (select array_agg(type order by version) from product_events where product_id = $1 and stream = 'product' and type <> 'price.changed') as events,
         (select array_agg(action order by id) from activities where subject_id = $1::text) as actions`,
      [id],
    )
  ).rows[0]

test('an archived product is restored once with its state, even by two calls at once', async () => {
  const { id, sku } = await create({ stock: 3, slug: 'the-numbat' })
  await archive(id)
  const archived = await call('GET', `/admin/products/${id}`)
  assert.match(archived.json.archived_at, /^20/)
  assertProblem(await call('PATCH', `/admin/products/${id}`, { name: 'X' }, { 'if-match': '*' }), 404, 'not_found')
  assert.deepEqual(await idsOf('state=archived'), [id])
  const answers = await Promise.all([restore(id), restore(id)])
  for (const { status, headers, json } of answers) {
    assert.deepEqual([status, json.sku, json.slug, json.archived_at], [200, sku, 'the-numbat', null])
    assert.equal(headers.etag, (await call('GET', `/admin/products/${id}`)).headers.etag)
  }
  assert.deepEqual(await idsOf('state=archived'), [])
  assert.equal((await store.call('GET', `/products/${id}`)).status, 200)
  const order = await store.call('POST', '/orders', { token: ada.token, body: { items: [{ product_id: id, quantity: 3 }] } })
  assert.equal(order.status, 201, order.text)
  assert.deepEqual(await store.readStock({ id }), [0])
  assert.deepEqual(await written(id), {
    events: ['product.created', 'product.archived', 'product.restored'],
    actions: ['createProduct', 'archiveProduct', 'restoreProduct'],
  })
})

test('a product that was never archived stays unchanged, and an unknown one is 404', async () => {
  const product = await create()
  const before = await call('GET', `/admin/products/${product.id}`)
  const after = await restore(product.id, { 'if-match': String(before.headers.etag) })
  assert.deepEqual([after.status, after.json, after.headers.etag], [200, before.json, before.headers.etag])
  assert.deepEqual(await written(product.id), { events: ['product.created'], actions: ['createProduct'] })
  assertProblem(await restore(randomUUID()), 404, 'not_found')
})

test('a restored draft is a draft again, a planned product waits, and an ended product stays ended', async () => {
  const inHours = (hours: number) => new Date(Date.now() + hours * HOUR).toISOString()
  const draft = await create({ status: 'draft' })
  const planned = await create({ published_at: inHours(5), unpublished_at: inHours(6) })
  const ended = await create({ unpublished_at: inHours(-1) })
  for (const { id } of [draft, planned, ended]) {
    await archive(id)
    assert.equal((await restore(id)).status, 200)
  }
  assert.deepEqual(await idsOf(''), [ended.id, planned.id, draft.id])
  const { json } = await call('GET', `/admin/products/${planned.id}`)
  assert.deepEqual([json.published_at, json.unpublished_at], [planned.published_at, planned.unpublished_at])
  const { rows } = await store.pool.query('select changes_at from products where id = $1', [planned.id])
  assert.equal(rows[0].changes_at.toISOString(), planned.published_at)
  // Its publication had ended before it was archived, so restoring it does not put it on sale.
  assert.equal((await store.call('GET', `/products/${ended.id}`)).status, 404)
  assert.equal((await call('GET', `/admin/products/${ended.id}`)).json.unpublished_at, ended.unpublished_at)
})

test('an end that passed while the product was archived is removed, and the activity reports it', async () => {
  const { id } = await create({ unpublished_at: new Date(Date.now() + HOUR).toISOString() })
  await archive(id)
  const { rows } = await store.pool.query(
    `update products set archived_at = now() - interval '2 hours', unpublished_at = date_trunc('milliseconds', now()) - interval '1 hour'
     where id = $1 returning unpublished_at`,
    [id],
  )
  const { status, json } = await restore(id)
  assert.deepEqual([status, json.unpublished_at], [200, null])
  assert.equal((await store.call('GET', `/products/${id}`)).status, 200)
  const { rows: activities } = await store.pool.query(
    `select before, after from activities where subject_id = $1::text and action = 'restoreProduct'`,
    [id],
  )
  assert.deepEqual(activities, [
    {
      before: { is_archived: true, unpublished_at: rows[0].unpublished_at.toISOString() },
      after: { is_archived: false, unpublished_at: null },
    },
  ])
})

test('a product whose category was renamed or deleted meanwhile is in a category after its return', async () => {
  const renamed = await create({ category: 'Marsupials' })
  const deleted = await create({ category: 'Insects' })
  for (const { id } of [renamed, deleted]) await archive(id)
  const { data } = (await store.call('GET', '/categories')).json
  const idOf = (name: string) => data.find((category: { name: string }) => category.name === name).id
  await call('PATCH', `/admin/categories/${idOf('Marsupials')}`, { name: 'Animals' }, { 'if-match': '*' })
  const answer = await call('DELETE', `/admin/categories/${idOf('Insects')}`)
  for (const { id } of [renamed, deleted]) assert.equal((await restore(id)).status, 200)
  const categoryOf = async (id: string) => (await store.call('GET', `/products/${id}`)).json.category
  assert.deepEqual([await categoryOf(renamed.id), await categoryOf(deleted.id), answer.status], ['Animals', 'Insects', 204])
})

test('operators can list the variants of a group, a sku and ids in every state', async () => {
  const options = (size: string) => ({ group: 'shirt', options: { size } })
  const [small, medium, large] = [
    await create({ ...options('S'), sku: 'SHIRT-S' }),
    await create({ ...options('M'), status: 'draft' }),
    await create(options('L')),
  ]
  await archive(large.id)
  const all = [large.id, medium.id, small.id]
  assert.deepEqual(await idsOf('group=shirt'), all)
  assert.deepEqual(await idsOf('group=shirt&state=withheld'), [medium.id])
  assert.deepEqual(await idsOf(`ids=${all.join(',')}`), all)
  assert.deepEqual(await idsOf('sku=SHIRT-S'), [small.id])
  assert.deepEqual(await idsOf('group=none'), [])
  const { json } = await call('GET', '/admin/products?group=shirt')
  assert.deepEqual(
    json.data.map(({ state, archived_at, options: { size } }: { state: string; archived_at: string | null; options: { size: string } }) => [
      ...[size, state, archived_at === null],
    ]),
    [
      ['L', 'archived', false],
      ['M', 'withheld', true],
      ['S', 'active', true],
    ],
  )
  assert.deepEqual(faults(assertProblem(await call('GET', '/admin/products?state=sold'), 400, 'invalid_query')), ['state'])
})
