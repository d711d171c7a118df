import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { registerOperator } from '../../test/register-operator.ts'
import { startStore } from '../../test/store.ts'

const store = await startStore({ after }, { pageCacheBytes: 0 })
const { token } = await registerOperator(store)

const products: { id: string; brand: string | null; category: string }[] = []
for (let i = 0; i < 12; i++) {
  const answer = await store.call('POST', '/admin/products', {
    token,
    body: {
      sku: `SKU-${i}`,
      name: `Lamp ${i}`,
      categories: [['Home', i % 2 === 0 ? 'Lamps' : 'Office'], ...(i % 4 === 0 ? [['Sale']] : [])],
      brand: [null, 'Ünique & Söhne', 'Acme'][i % 3],
      price: { amount: i, currency: 'EUR' },
      ...(i === 1 ? { translations: { de: { name: 'Leuchte' } } } : {}),
    },
  })
  assert.equal(answer.status, 201, answer.text)
  products.push(answer.json)
}
const ids = (list: readonly { id: string }[]) => list.map(({ id }) => id).sort()
const find = async (query: string) => ids((await store.call('GET', `/products?limit=100&${query}`)).json.data)
const expected = (brand: string) => ids(products.filter((product) => product.brand === brand))

test('lists can be filtered by brand, over several pages and together with other filters', async () => {
  assert.deepEqual(await find('brand=Acme'), expected('Acme'))
  assert.deepEqual(await find('brand=acme'), [])
  assert.deepEqual(await find(`brand=${encodeURIComponent("'; drop table products; --")}`), [])
  for (const sort of ['name', '-price', '-created_at']) {
    const first = (await store.call('GET', `/products?brand=Acme&sort=${sort}&limit=3&include=count`)).json
    const second = (await store.call('GET', `/products?brand=Acme&sort=${sort}&limit=3&cursor=${first.next_cursor}`)).json
    assert.deepEqual(ids([...first.data, ...second.data]), expected('Acme'))
    assert.deepEqual(first.count, { value: 4, exact: true })
  }
  const inOffice = ids(products.filter(({ brand, category }) => brand === 'Acme' && category === 'Office'))
  assert.deepEqual(await find('brand=Acme&category=office'), inOffice)
  assert.deepEqual(await find('brand=Acme&category=home&q=lamp'), expected('Acme'))
})

test('a search finds the words of a brand, also together with words of a name or a translation, and follows brand changes', async () => {
  assert.deepEqual(await find('q=unique'), expected('Ünique & Söhne'))
  assert.deepEqual(await find('q=sohne+lamp'), expected('Ünique & Söhne'))
  assert.deepEqual(await find('q=leuchte+unique'), [products[1]?.id])
  assert.deepEqual(await find('q=uniqe'), expected('Ünique & Söhne'), 'mistyped')
  const id = products[4]?.id ?? ''
  await store.pool.query(`update products set brand = 'Zulu' where id = $1`, [id])
  assert.deepEqual(await find('q=zulu'), [id])
  await store.pool.query(`update products set brand = $2 where id = $1`, [id, products[4]?.brand])
  assert.deepEqual(await find('q=zulu'), [])
})

test('facets count each product once, by brand and by category with its subcategories', async () => {
  const { categories, brands } = (await store.call('GET', '/products/facets')).json
  assert.deepEqual(brands, [
    { brand: 'Acme', count: 4 },
    { brand: 'Ünique & Söhne', count: 4 },
  ])
  assert.deepEqual(categories, [
    { category: 'Home', slug: 'home', count: 12 },
    { category: 'Lamps', slug: 'lamps', count: 6 },
    { category: 'Office', slug: 'office', count: 6 },
    { category: 'Sale', slug: 'sale', count: 3 },
  ])
  const below = (await store.call('GET', '/products/facets?category=lamps&brand=Acme')).json
  assert.deepEqual([below.categories, below.brands], [[{ category: 'Lamps', slug: 'lamps', count: 2 }], [{ brand: 'Acme', count: 2 }]])
})
