import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { ONLY_FOR_OPERATORS } from '../../../test/edited-product.ts'
import { assertProblem, faults } from '../../../test/problem.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { type CallOptions, startStore } from '../../../test/store.ts'
import { renameProducts } from './rename-products.ts'

const store = await startStore({ after }, { pageCacheBytes: 0 })
const { token } = await registerOperator(store)
let last = 0

const call = (method: string, path: string, options: CallOptions = {}) => store.call(method, path, { token, ...options })
const unique = (text: string) => `${text} ${++last}`
const add = async (name: string, parent_id: string | null = null) =>
  (await call('POST', '/admin/categories', { body: { name, parent_id } })).json
const post = (body: object) =>
  call('POST', '/admin/products', {
    body: { sku: unique('SKU'), name: unique('Product'), price: { amount: ++last, currency: 'EUR' }, ...body },
  })
const addProduct = async (body: object) => {
  const answer = await post(body)
  assert.equal(answer.status, 201, answer.text)
  return answer.json
}
const patch = (id: string, body: object) => call('PATCH', `/admin/products/${id}`, { body, headers: { 'if-match': '*' } })
const patchCategory = (id: string, body: object) => call('PATCH', `/admin/categories/${id}`, { body, headers: { 'if-match': '*' } })
const pathsOf = (product: { categories: { path: { name: string }[] }[] }) =>
  product.categories.map(({ path }) => path.map(({ name }) => name))
const countOf = async (name: string) => (await store.pool.query('select count(*) as n from categories where name = $1', [name])).rows[0].n

test('a product can be in several categories, by slugs or by paths of names, and missing ones are created', async () => {
  const [men, shoes, sale] = [unique('Men'), unique('Shoes'), await add(unique('Sale'))]
  const product = await addProduct({ categories: [[men, shoes], sale.slug] })
  assert.equal(product.category, shoes)
  assert.deepEqual(pathsOf(product), [[men, shoes], [sale.name]])
  const [first] = product.categories
  assert.deepEqual(first.path.at(-1), { id: first.id, slug: first.slug, name: first.name })
  const other = await addProduct({ category: shoes, categories: [[men, ` ${shoes} `]] })
  assert.equal(other.categories[0].id, first.id, 'the same one')
  const page = await store.call('GET', `/products/${product.id}`)
  assert.deepEqual({ ...page.json, ...ONLY_FOR_OPERATORS }, product)
  const listed = (await store.call('GET', `/products?ids=${product.id}`)).json.data[0]
  assert.equal('categories' in listed, false, 'lists are short')
})

test('a text means the root category of that name, otherwise the oldest category of that name, otherwise a new root', async () => {
  const [top, name] = [await add(unique('Top')), unique('Lamps')]
  const product = await addProduct({ category: name })
  assert.deepEqual(pathsOf(product), [[name]])
  const nested = unique('Nested')
  await add(nested, top.id)
  assert.deepEqual(pathsOf(await addProduct({ category: nested })), [[top.name, nested]])
  await add(nested)
  assert.deepEqual(pathsOf(await addProduct({ category: nested })), [[nested]])
})

test('a text alone replaces the first category, and `categories` replaces all of them', async () => {
  const [a, b, c] = [unique('a'), unique('b'), unique('c')]
  const { id } = await addProduct({ categories: [[a], [b]] })
  assert.deepEqual(pathsOf((await patch(id, { category: c })).json), [[c], [b]])
  const promoted = (await patch(id, { category: b })).json
  assert.deepEqual([promoted.category, pathsOf(promoted)], [b, [[b]]])
  const replaced = (await patch(id, { categories: [[a], [c]] })).json
  assert.deepEqual([replaced.category, pathsOf(replaced)], [a, [[a], [c]]])
  const reordered = (await patch(id, { categories: [[c], [a]] })).json
  assert.deepEqual([reordered.category, pathsOf(reordered)], [c, [[c], [a]]])
  assert.deepEqual(pathsOf((await patch(id, { name: 'Another' })).json), [[c], [a]])
  // The previous release's statement.
  await store.pool.query('update products set category = $2 where id = $1', [id, b])
  assert.deepEqual(pathsOf((await call('GET', `/products/${id}`)).json), [[b], [a]])
  assert.equal(await countOf(b), 1)
})

test('refuses invalid categories, and accepts a category that is named twice as one', async () => {
  const { slug, name } = await add(unique('Known'))
  const refused: [object, string][] = [
    [{}, '#/category'],
    [{ categories: [] }, '#/categories'],
    [{ categories: Array.from({ length: 1_000 }, (_, index) => [`many ${index}`]) }, '#/categories'],
    [{ categories: ['unknown-slug'] }, '#/categories/0'],
    [{ categories: [slug, '..'] }, '#/categories/1'],
    [{ categories: [['  ']] }, '#/categories/0/0'],
    [{ category: 'Other', categories: [slug] }, '#/category'],
  ]
  for (const [body, pointer] of refused) {
    const found = faults(assertProblem(await post(body), 422, 'invalid_body', JSON.stringify(body)))
    assert.ok(found[0]?.startsWith(pointer), `${JSON.stringify(body).slice(0, 100)}: ${found}`)
  }
  const product = await addProduct({ categories: [slug, [name], slug] })
  assert.deepEqual(pathsOf(product), [[name]])
})

test('concurrently created products with the same new categories share them', async () => {
  const [top, leaf] = [unique('Race'), unique('Leaf')]
  await Promise.all(
    Array.from({ length: 8 }, (_, index) => addProduct(index % 2 === 0 ? { categories: [[top, leaf]] } : { category: top })),
  )
  assert.deepEqual([await countOf(top), await countOf(leaf)], [1, 1])
})

test("renaming a category changes its products' text, search words and path", async () => {
  const [top, leaf] = [await add(unique('Renamed')), await add(unique('Leaf'))]
  await patchCategory(leaf.id, { parent_id: top.id })
  const inside = await Promise.all(Array.from({ length: 3 }, () => addProduct({ categories: [leaf.slug] })))
  const second = await addProduct({ categories: [[unique('First')], leaf.slug] })
  const word = `zebra${++last}`
  assert.equal((await patchCategory(leaf.id, { name: word })).status, 200)
  const { signal } = new AbortController()
  while (!(await renameProducts(store.pool, signal)));
  for (const { id } of inside) {
    const { json } = await call('GET', `/products/${id}`)
    assert.deepEqual([json.category, pathsOf(json)], [word, [[top.name, word]]])
  }
  const { json } = await call('GET', `/products/${second.id}`)
  assert.deepEqual([json.category, pathsOf(json)[1]], [second.category, [top.name, word]])
  const found = (await store.call('GET', `/products?q=${word}`)).json.data
  assert.deepEqual(found.map(({ id }: { id: string }) => id).sort(), inside.map(({ id }) => id).sort())
  assert.equal((await store.pool.query('select from categories where renamed_at is not null')).rows.length, 0)
})

test('a product that is locked while its category is renamed gets the new name later', async (t) => {
  const category = await add(unique('Locked'))
  const [locked, free] = [await addProduct({ categories: [category.slug] }), await addProduct({ categories: [category.slug] })]
  const tx = await store.pool.connect()
  t.after(() => tx.release())
  await tx.query('begin')
  await tx.query('select from products where id = $1 for update', [locked.id])
  const name = unique('Free')
  await patchCategory(category.id, { name })
  const { signal } = new AbortController()
  await renameProducts(store.pool, signal)
  assert.equal(await renameProducts(store.pool, signal), false, 'one is left')
  const texts = async () =>
    (await store.pool.query('select category from products where id = any($1) order by id', [[locked.id, free.id]])).rows
  assert.deepEqual(await texts(), [{ category: category.name }, { category: name }])
  await tx.query('rollback')
  while (!(await renameProducts(store.pool, signal)));
  assert.deepEqual(await texts(), [{ category: name }, { category: name }])
})

test("a former name moves products to the category that has it now, even before they got their own category's new name", async () => {
  const category = await add(unique('Former'))
  const line = { sku: unique('SKU'), name: 'Imported', price: { amount: 1, currency: 'EUR' } }
  const importLine = (rest: object) =>
    call('POST', '/admin/products/import', {
      raw: JSON.stringify({ ...line, ...rest }),
      headers: { 'content-type': 'application/x-ndjson' },
    })
  await importLine({ category: category.name })
  const [patched, untouched] = [await addProduct({ category: category.name }), await addProduct({ category: category.name })]
  const [imported] = (await store.call('GET', `/products?category=${category.slug}`)).json.data.filter(
    ({ sku }: { sku: string }) => sku === line.sku,
  )
  const name = unique('Renamed')
  await patchCategory(category.id, { name })
  // Nobody else has the former name: it still means the same category.
  assert.deepEqual(pathsOf((await patch(patched.id, { category: category.name })).json), [[name]])
  const other = await add(category.name)
  assert.deepEqual(pathsOf((await patch(untouched.id, { description: 'Of something else' })).json), [[name]])
  assert.deepEqual(pathsOf((await patch(patched.id, { category: category.name })).json), [[other.name]])
  assert.match((await importLine({ category: category.name })).text, /"updated"/)
  const { signal } = new AbortController()
  while (!(await renameProducts(store.pool, signal)));
  const now = async (id: string) => (await call('GET', `/products/${id}`)).json
  const expected = { [untouched.id]: category.id, [patched.id]: other.id, [imported.id]: other.id }
  for (const [id, first] of Object.entries(expected)) {
    const { category: text, categories } = await now(id)
    assert.deepEqual([text, categories.map(({ id }: { id: string }) => id)], [first === other.id ? other.name : name, [first]])
  }
})

test('an archived product that is sold again is in its category', async () => {
  const category = unique('Archived')
  const product = await addProduct({ category })
  await call('DELETE', `/admin/products/${product.id}`)
  const list = async () => (await store.call('GET', `/products?category=${encodeURIComponent(category)}`)).json.data.length
  assert.equal(await list(), 0)
  await store.pool.query('delete from product_categories where product_id = $1', [product.id])
  await store.pool.query('update products set archived_at = null where id = $1', [product.id])
  assert.equal(await list(), 1)
})
