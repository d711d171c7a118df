import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem } from '../../../test/problem.ts'
import { registerOperator } from '../../../test/register-operator.ts'
import { type Answer, startStore } from '../../../test/store.ts'

const store = await startStore({ after }, { pageCacheBytes: 0 })
const { token } = await registerOperator(store)

interface Listed {
  id: string
  name: string
  category: string
  group: string | null
  in_stock: boolean
  price: { amount: number }
  created_at: string
}

const PATHS = [
  ['Home'],
  ['Home', 'Kitchen'],
  ['Home', 'Kitchen', 'Knives'],
  ['Home', 'Garden'],
  ['Men', 'Shoes'],
  ['Women', 'Shoes'],
  ['Sale'],
]
const DAYS = ['2026-01-01T00:00:00.000Z', '2026-01-02T00:00:00.000Z', '2026-01-03T00:00:00.000Z']
const products: (Listed & { paths: string[][] })[] = []

// Each product in one to three categories, with ties in every sort key.
for (let i = 0; i < 40; i++) {
  const paths = [PATHS[i % 7], PATHS[(i * 3 + 1) % 7], PATHS[(i * 5 + 2) % 7]].slice(0, 1 + (i % 3)).map((path) => path ?? [])
  const answer = await store.call('POST', '/admin/products', {
    token,
    body: {
      sku: `SKU-${i}`,
      name: `${['lamp', 'knife', 'boot'][i % 3]} ${i % 5}`,
      categories: paths,
      price: { amount: i % 6, currency: 'EUR' },
      stock: i % 4,
      attributes: { size: i % 3 },
      ...(i % 2 === 0 ? { group: `G${i % 8}`, options: { n: String(i) } } : {}),
    },
  })
  assert.equal(answer.status, 201, answer.text)
  await store.pool.query('update products set created_at = $2 where id = $1', [answer.json.id, DAYS[i % 3]])
  products.push({ ...answer.json, created_at: DAYS[i % 3], paths })
}

const isBelow = (path: readonly string[], root: readonly string[]) => root.every((name, level) => path[level] === name)
/** The products of a subtree. */
const inside = (...root: string[]) => products.filter(({ paths }) => paths.some((path) => isBelow(path, root)))

async function readPages(query: string): Promise<Listed[]> {
  const listed: Listed[] = []
  for (let next: string | undefined = `/products?${query}`; next !== undefined; ) {
    const page: Answer = await store.call('GET', next)
    assert.equal(page.status, 200, page.text)
    listed.push(...page.json.data)
    next = /<http:\/\/localhost:3000([^<>]+)>; rel="next"$/.exec(page.headers.link ?? '')?.[1]
    assert.ok(listed.length < 200, 'the list ends')
  }
  return listed
}

const KEYS: Record<string, (product: Listed) => string | number> = {
  name: ({ name }) => name,
  price: ({ price }) => price.amount,
  created_at: ({ created_at }) => created_at,
}
function ordered(list: readonly Listed[], sort: string): string[] {
  const key = KEYS[sort.replace('-', '')] ?? (() => '')
  const sign = sort.startsWith('-') ? -1 : 1
  const order = <T>(a: T, b: T) => (a < b ? -1 : a > b ? 1 : 0)
  return list.toSorted((a, b) => sign * (order(key(a), key(b)) || order(a.id, b.id))).map(({ id }) => id)
}

for (const sort of ['name', '-name', 'price', '-price', 'created_at', '-created_at']) {
  test(`a category lists each product of its subtree once, over many pages by ${sort}, also with other filters`, async () => {
    const home = inside('Home')
    const filters: [string, readonly Listed[]][] = [
      ['category=home', home],
      ['category=Home', home],
      ['category=kitchen', inside('Home', 'Kitchen')],
      ['category=knives', inside('Home', 'Kitchen', 'Knives')],
      ['category=home&min_price=1&max_price=4', home.filter(({ price }) => price.amount >= 1 && price.amount <= 4)],
      [
        'category=knives&min_price=1&max_price=4',
        inside('Home', 'Kitchen', 'Knives').filter(({ price }) => price.amount >= 1 && price.amount <= 4),
      ],
      ['category=home&in_stock=true', home.filter(({ in_stock }) => in_stock)],
      ['category=home&q=lamp', home.filter(({ name }) => name.startsWith('lamp'))],
      ['category=sale&q=lamp', inside('Sale').filter(({ name }) => name.startsWith('lamp'))],
      ['category=home&group=G2', home.filter(({ group }) => group === 'G2')],
      ['category=home&attr=size=1', home.filter((_, index) => products.indexOf(home[index] as (typeof products)[number]) % 3 === 1)],
    ]
    for (const [query, expected] of filters) {
      const listed = await readPages(`${query}&sort=${sort}&limit=3&include=count`)
      assert.deepEqual(
        listed.map(({ id }) => id),
        ordered(expected, sort),
        query,
      )
      const { count } = (await store.call('GET', `/products?${query}&include=count&limit=1`)).json
      assert.deepEqual(count, { value: expected.length, exact: true }, query)
    }
  })

  test(`a category lists each group once, by ${sort}`, async () => {
    for (const [query, all] of [
      ['category=home', inside('Home')],
      ['category=sale', inside('Sale')],
    ] as const) {
      const seen = new Set<string>()
      const byPlace = new Map(all.map((product) => [product.id, product]))
      const expected = ordered(all, sort).filter((id) => {
        const group = byPlace.get(id)?.group ?? id
        return !seen.has(group) && seen.add(group)
      })
      const listed = await readPages(`${query}&sort=${sort}&limit=3&collapse=group`)
      assert.deepEqual(
        listed.map(({ id }) => id),
        expected,
        query,
      )
    }
  })
}

test('a list by relevance within a subtree shows each match once', async () => {
  for (const [query, all] of [
    ['category=home&q=boot', inside('Home')],
    ['category=garden&q=boot', inside('Home', 'Garden')],
  ] as const) {
    const expected = all.filter(({ name }) => name.startsWith('boot')).map(({ id }) => id)
    assert.deepEqual((await readPages(`${query}&limit=2`)).map(({ id }) => id).sort(), expected.sort(), query)
  }
})

test('a name that several categories have lists the products of all of them, and a slug those of one', async () => {
  const { data } = (await store.call('GET', '/categories')).json
  const slugs = data.filter(({ name }: Listed) => name === 'Shoes').map(({ slug }: { slug: string }) => slug)
  assert.equal(slugs.length, 2)
  const ids = (list: readonly Listed[]) => list.map(({ id }) => id).sort()
  assert.deepEqual(
    ids(await readPages('category=Shoes&limit=4')),
    ids([...new Set([...inside('Men', 'Shoes'), ...inside('Women', 'Shoes')])]),
  )
  const counts = await Promise.all(slugs.map(async (slug: string) => (await readPages(`category=${slug}`)).length))
  assert.deepEqual(counts.sort(), [inside('Men').length, inside('Women').length].sort())
})

test('an unknown category lists nothing, and a cursor belongs to one category', async () => {
  for (const query of ['', '&q=lamp', '&include=count', '&collapse=group', '&sort=price']) {
    assert.deepEqual((await store.call('GET', `/products?category=unknown${query}`)).json.data, [])
  }
  assert.deepEqual((await store.call('GET', '/products/facets?category=unknown')).json.categories, [])
  const { next_cursor: cursor } = (await store.call('GET', '/products?category=home&limit=1')).json
  assertProblem(await store.call('GET', `/products?category=sale&limit=1&cursor=${cursor}`), 400, 'invalid_cursor')
  assertProblem(await store.call('GET', `/products?category=home&limit=1&cursor=${cursor.slice(0, -2)}`), 400, 'invalid_cursor')
})

test('a list follows when a category moves, and when a product gets another price or is archived', async () => {
  const { data } = (await store.call('GET', '/categories')).json
  const idOf = (slug: string) => data.find((category: { slug: string }) => category.slug === slug).id
  const move = async (parent_id: string) => {
    const answer = await store.call('PATCH', `/admin/categories/${idOf('garden')}`, {
      token,
      body: { parent_id },
      headers: { 'if-match': '*' },
    })
    assert.equal(answer.status, 200, answer.text)
  }
  await move(idOf('sale'))
  const expected = new Set([...inside('Sale'), ...inside('Home', 'Garden')])
  assert.equal((await readPages('category=sale&limit=7')).length, expected.size)
  await move(idOf('home'))
  const [first, second] = inside('Sale')
  await store.pool.query('update products set price_amount = 1000 where id = $1', [first?.id])
  assert.equal((await readPages('category=sale&sort=-price'))[0]?.id, first?.id)
  await store.pool.query('update products set archived_at = now() where id = $1', [second?.id])
  assert.equal((await readPages('category=sale')).length, inside('Sale').length - 1)
})
