import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem, faults } from '../../../test/problem.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { type Answer, type CallOptions, startStore } from '../../../test/store.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
let lastSku = 0
let lastName = 0

const call = (method: string, path: string, options: CallOptions = {}) => store.call(method, path, { token, ...options })
const post = (body: object) => call('POST', '/admin/categories', { body })
const add = async (parent_id: string | null = null, name = `Category ${++lastName}`) => (await post({ name, parent_id })).json
const patch = (id: string, body: object, etag = '*') => call('PATCH', `/admin/categories/${id}`, { body, headers: { 'if-match': etag } })
const addProduct = async (body: object) => {
  const answer = await call('POST', '/admin/products', {
    body: { sku: `SKU-${++lastSku}`, name: `Product ${lastSku}`, price: { amount: lastSku, currency: 'EUR' }, ...body },
  })
  assert.equal(answer.status, 201, answer.text)
  return answer.json
}
const tree = async () =>
  (await store.call('GET', '/categories')).json.data as { id: string; name: string; parent_id: string | null; position: number }[]
const below = async (parentId: string | null) => (await tree()).filter(({ parent_id }) => parent_id === parentId).map(({ name }) => name)
const activities = async (id: string) =>
  (await store.pool.query('select action, before, after from activities where subject_id = $1 order by id', [id])).rows

test('the tree lists each category before its subcategories, and its entity tag changes with it', async () => {
  const top = await add(null, 'Clothes')
  const shoes = await add(top.id, 'Shoes')
  const boots = await add(shoes.id, 'Boots')
  assert.deepEqual(boots, { id: boots.id, slug: 'boots', name: 'Boots', parent_id: shoes.id, position: 0, depth: 2 })
  const answer = await store.call('GET', '/categories')
  assert.deepEqual(answer.json.data.slice(-3), [top, shoes, boots])
  assert.equal(answer.json.is_complete, true)
  const etag = answer.headers.etag ?? ''
  assert.equal((await store.call('GET', '/categories', { headers: { 'if-none-match': etag } })).status, 304)
  await patch(boots.id, { name: 'Winter boots' })
  const changed = await store.call('GET', '/categories', { headers: { 'if-none-match': etag } })
  assert.deepEqual([changed.status, changed.json.data.at(-1).name], [200, 'Winter boots'])
  assert.match(changed.headers['cdn-cache-control'] ?? '', /max-age/)
})

test('names that differ only in blanks, case or symbols are different categories with different slugs', async () => {
  const names = ['Tea', 'TEA', '  Teä ', '🍵', 'чай', '.. / ..', `"; drop table categories; --`]
  const added = []
  for (const name of names) added.push(await post({ name }))
  assert.deepEqual(
    added.map(({ status }) => status),
    names.map(() => 201),
  )
  const slugs: string[] = added.map(({ json }) => json.slug)
  assert.equal(new Set(slugs).size, names.length)
  assert.deepEqual([slugs[0], slugs[4]], ['tea', 'чаи'])
  for (const slug of slugs) assert.match(slug, /^[\p{L}\p{N}-]+$/u)
  assertProblem(await post({ name: ' Tea' }), 409, 'category_name_taken')
  for (const slug of ['tea', 'TEA', 'Teä!']) assertProblem(await post({ name: `Other ${slug}`, slug }), 409, 'slug_taken')
})

test('refuses invalid names, slugs and parents', async () => {
  const refused: [object, string][] = [
    [{ name: '\u200b' }, '#/name'],
    [{ name: 'a', slug: '🙂' }, '#/slug'],
    [{ name: 'a', slug: '..' }, '#/slug'],
    [{ name: 'a', parent_id: '00000000-0000-4000-8000-000000000000' }, '#/parent_id'],
  ]
  for (const [body, pointer] of refused) {
    assert.deepEqual(faults(assertProblem(await post(body), 422, 'invalid_body', JSON.stringify(body))), [pointer], JSON.stringify(body))
  }
  assertProblem(await post({ name: 'x'.repeat(1_000_000) }), 413, 'payload_too_large')
  assertProblem(await patch('00000000-0000-4000-8000-000000000000', { name: 'a' }), 404, 'not_found')
})

test('a position is a place among the siblings, and the other siblings move', async () => {
  const top = await add()
  const [a, b, c] = [await add(top.id, 'a'), await add(top.id, 'b'), await add(top.id, 'c')]
  assert.deepEqual(await below(top.id), ['a', 'b', 'c'])
  assert.equal((await patch(c.id, { position: 0 })).json.position, 0)
  assert.deepEqual(await below(top.id), ['c', 'a', 'b'])
  await patch(c.id, { position: Number.MAX_SAFE_INTEGER })
  assert.deepEqual(await below(top.id), ['a', 'b', 'c'])
  await patch(b.id, { position: 0 })
  await add(top.id, '0 comes after those with a position')
  assert.deepEqual(await below(top.id), ['b', 'a', 'c', '0 comes after those with a position'])
  const moved = await patch(a.id, { parent_id: b.id })
  assert.deepEqual([moved.json.parent_id, moved.json.position, moved.json.depth], [b.id, 0, 2])
  assert.deepEqual(await below(top.id), ['b', 'c', '0 comes after those with a position'])
})

test('a category cannot move below itself, and the tree has at most ten levels', async () => {
  const chain = [await add()]
  for (let level = 2; level <= 10; level++) chain.push(await add(chain.at(-1).id))
  assert.equal(chain.at(-1).depth, 9)
  assertProblem(await post({ name: 'too deep', parent_id: chain.at(-1).id }), 409, 'category_misplaced')
  for (const parent of [chain[0], chain[1], chain[9]]) {
    assertProblem(await patch(chain[0].id, { parent_id: parent.id }), 409, 'category_misplaced')
  }
  const other = await add()
  assertProblem(await patch(chain[0].id, { parent_id: other.id }), 409, 'category_misplaced')
  assert.equal((await patch(chain[1].id, { parent_id: other.id })).status, 200)
})

test('of two concurrent moves that would make a cycle, one is refused', async () => {
  for (let round = 0; round < 10; round++) {
    const [a, b] = [await add(), await add()]
    const answers: Answer[] = await Promise.all([patch(a.id, { parent_id: b.id }), patch(b.id, { parent_id: a.id })])
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409])
    assert.equal((await tree()).filter(({ id }) => id === a.id || id === b.id).length, 2, 'both are in the tree')
  }
})

test('the database itself refuses a cycle', async () => {
  const [a, b] = [await add(), await add()]
  await patch(a.id, { parent_id: b.id })
  await assert.rejects(store.pool.query('update categories set parent_id = $1 where id = $2', [a.id, b.id]), /below itself/)
})

test('each change of a category is recorded', async () => {
  const { id } = await add()
  const renamed = await patch(id, { name: 'First' })
  assert.equal(renamed.status, 200, renamed.text)
  assert.equal((await call('DELETE', `/admin/categories/${id}`, { headers: { 'if-match': renamed.headers.etag ?? '' } })).status, 204)
  assertProblem(await call('GET', `/admin/categories/${id}`), 404, 'not_found')
  assert.deepEqual(
    (await activities(id)).map(({ action }) => action),
    ['createCategory', 'updateCategory', 'deleteCategory'],
  )
})

test('a category with products or subcategories is not deleted, and a category with only archived products is', async () => {
  const [top, leaf] = [await add(), await add()]
  await patch(leaf.id, { parent_id: top.id })
  const remove = (id: string) => call('DELETE', `/admin/categories/${id}`)
  assertProblem(await remove(top.id), 409, 'category_not_empty')
  const product = await addProduct({ categories: [leaf.slug] })
  assertProblem(await remove(leaf.id), 409, 'category_not_empty')
  await call('DELETE', `/admin/products/${product.id}`)
  assert.equal((await remove(leaf.id)).status, 204)
  assert.equal((await remove(top.id)).status, 204)
})
