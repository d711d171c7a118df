import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { assertProblem, faults } from '../../test/problem.ts'
import { type Answer, startStore } from '../../test/store.ts'

const store = await startStore({ after })
const NAMES = ['ant', 'Bee', 'bee', 'bee', 'b\u00e9e', 'cat', 'cat', 'cat', '"dog', "e'mu", 'z\u{1f986}', '\u00e9']
const AMOUNTS = [0, 5, 5, 5, 9, 9, 10, 100, Number.MAX_SAFE_INTEGER]
const DAYS = ['2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.001Z', '2026-01-02T00:00:00.000Z']

interface Listed {
  id: string
  name: string
  category: string
  price: { amount: number }
  created_at: string
}

// 24 products with many ties in each sort key, half of them in each of two categories.
for (let i = 0; i < 24; i++) {
  const category = i % 2 === 0 ? 'tools & co' : 'toys'
  const product = await store.addProduct({
    name: `${NAMES[i % NAMES.length]}${i % 3 === 0 ? ' wooden' : ''}`,
    category,
    amount: AMOUNTS[i % AMOUNTS.length] ?? 0,
  })
  await store.pool.query('update products set created_at = $2 where id = $1', [product.id, DAYS[i % DAYS.length]])
}

function linkOf({ headers }: Answer, rel: string): string | undefined {
  return new RegExp(`<http://localhost:3000([^<>]+)>; rel="${rel}"`).exec(headers.link ?? '')?.[1]
}

/** Every page of a list, followed by `Link` to its end. */
/** A link longer than this may be missing: 1,500 bytes less the characters around the address. */
const MAX_LINK_CHARACTERS = 1_400

async function readPages(path: string): Promise<Answer[]> {
  const pages: Answer[] = []
  for (let next: string | undefined = path; next !== undefined; ) {
    const page: Answer = await store.call('GET', next)
    assert.equal(page.status, 200, page.text)
    pages.push(page)
    const cursor: string | null = page.json.next_cursor
    assert.equal(page.json.has_more, cursor !== null)
    const link = /<http:\/\/localhost:3000(\/products\?[^<>]+)>; rel="next"$/.exec(page.headers.link ?? '')?.[1]
    const [, query] = path.split('?')
    const address = `/products?${new URLSearchParams([...new URLSearchParams(query), ...(cursor === null ? [] : [['cursor', cursor]])])}`
    // A link that is too long for a header is omitted, but the cursor in the body is not.
    if (link === undefined) assert.ok(cursor === null || address.length > MAX_LINK_CHARACTERS, 'the link to the next page is missing')
    else assert.equal(new URLSearchParams(link.split('?')[1]).get('cursor'), cursor)
    assert.ok(pages.length < 100, 'the list does not end')
    next = cursor === null ? undefined : (link ?? address)
  }
  return pages
}

const KEYS = {
  name: (product: Listed) => Buffer.from(product.name),
  price: (product: Listed) => product.price.amount,
  created_at: (product: Listed) => product.created_at,
}

/** Compares by the sort key, names by their bytes, then by id. */
function compare(sort: string): (a: Listed, b: Listed) => number {
  const sign = sort.startsWith('-') ? -1 : 1
  const key = KEYS[sort.replace('-', '') as keyof typeof KEYS]
  const order = (a: unknown, b: unknown) => {
    if (Buffer.isBuffer(a) && Buffer.isBuffer(b)) return Buffer.compare(a, b)
    return a === b ? 0 : (a as string) < (b as string) ? -1 : 1
  }
  return (a, b) => sign * (order(key(a), key(b)) || order(a.id, b.id))
}

async function readAllIds(condition: string): Promise<string[]> {
  const { rows } = await store.pool.query<{ id: string }>(`select id from products where ${condition} order by id`)
  return rows.map(({ id }) => id)
}

const SORTS = ['name', '-name', 'price', '-price', 'created_at', '-created_at']

for (const sort of SORTS) {
  test(`lists each product once over many pages, by ${sort} and then by id`, async () => {
    const pages = await readPages(`/products?limit=5&sort=${sort}`)
    const listed: Listed[] = pages.flatMap((page) => page.json.data)
    assert.deepEqual(
      pages.map((page) => page.json.data.length),
      [5, 5, 5, 5, 4],
    )
    assert.deepEqual(listed, listed.toSorted(compare(sort)))
    assert.deepEqual(listed.map(({ id }) => id).sort(), await readAllIds('true'))
  })
}

test('lists the newest products first by default', async () => {
  const [unsorted, sorted] = await Promise.all(['', '&sort=-created_at'].map((sort) => store.call('GET', `/products?limit=100${sort}`)))
  assert.equal(unsorted?.text, sorted?.text)
})

test('later pages keep category, search and sort', async () => {
  for (const sort of SORTS) {
    const pages = await readPages(`/products?limit=1&category=tools%20%26%20co&q=wooden&sort=${sort}`)
    assert.ok(pages.length >= 3)
    const listed: Listed[] = pages.flatMap((page) => page.json.data)
    assert.deepEqual(listed, listed.toSorted(compare(sort)), sort)
    assert.deepEqual(listed.map(({ id }) => id).sort(), await readAllIds(`category = 'tools & co' and name like '%wooden'`))
  }
})

test('refuses a cursor that comes from another sort, search, category or list', async () => {
  const first = await store.call('GET', '/products?limit=1&sort=name&q=wooden&category=toys')
  const cursor = first.json.next_cursor
  assert.equal(
    (await store.call('GET', `/products?limit=50&sort=name&q=wooden&category=toys&cursor=${cursor}`)).status,
    200,
    'another limit',
  )
  for (const query of [
    'sort=-name&q=wooden&category=toys',
    'sort=price&q=wooden&category=toys',
    'sort=name&q=wood&category=toys',
    'sort=name&category=toys',
    'sort=name&q=wooden',
    'sort=name&q=toys&category=wooden',
  ]) {
    const answer = await store.call('GET', `/products?${query}&cursor=${cursor}`)
    assert.deepEqual(faults(assertProblem(answer, 400, 'invalid_cursor', query)), ['cursor'])
  }
})

test('lists products with the longest possible names over several pages', async () => {
  const category = 'long names'
  for (const name of ['\u{1f986}'.repeat(300), '\u{1f986}'.repeat(299), '"'.repeat(300)]) await store.addProduct({ name, category })
  const pages = await readPages('/products?limit=1&sort=name&category=long+names')
  assert.equal(pages.length, 3)
  await store.pool.query('delete from products where category = $1', [category])
})

test('treats SQL and operators in a search as words', async () => {
  const before = await readAllIds('true')
  for (const q of [
    `'; drop table products; --`,
    `' or 1=1 --`,
    `"`,
    `""`,
    `'`,
    '\\',
    '!!! & | <-> ( ) :*',
    '(((',
    'or',
    '-',
    '-wooden or',
    '$1',
    '%',
    '_',
    '\u{1f986}',
    '\u202e',
    ' ',
    'a'.repeat(200),
    'or '.repeat(66),
  ]) {
    const answer = await store.call('GET', `/products?q=${encodeURIComponent(q)}&limit=100`)
    assert.equal(answer.status, 200, `${q} ${answer.text}`)
  }
  assert.deepEqual(await readAllIds('true'), before)
})

test('finds products that have all words in any case, and excludes words with a minus', async () => {
  const count = async (q: string) => (await store.call('GET', `/products?limit=100&q=${encodeURIComponent(q)}`)).json.data.length
  assert.equal(await count('WOODEN'), 8)
  assert.equal(await count('wooden toys'), 4)
  assert.equal(await count('wooden -toys'), 4)
  assert.equal(await count('wooden nothing'), 0)
})

test('a page that is reached backwards says has_more only if a product follows', async () => {
  const category = 'backwards'
  const products: { id: string }[] = []
  for (let i = 0; i < 4; i++) products.push(await store.addProduct({ category, amount: i, name: `lamp ${i}` }))
  for (const order of ['sort=price', 'q=lamp']) {
    await store.pool.query('update products set archived_at = null where category = $1', [category])
    const [, second] = await readPages(`/products?category=${category}&limit=2&${order}`)
    const back = (answer: Answer) => linkOf(answer, 'prev') ?? assert.fail('a page before')
    const followed = await store.call('GET', back(second as Answer))
    assert.deepEqual([followed.json.data.length, followed.json.has_more], [2, true], order)
    const ids = (second as Answer).json.data.map(({ id }: Listed) => id)
    await store.pool.query('update products set archived_at = now() where id = any($1)', [ids])
    // Another limit, since the earlier page may still be cached.
    const last = await store.call('GET', back(second as Answer).replace('limit=2', 'limit=3'))
    assert.deepEqual(
      [last.json.data.length, last.json.has_more, last.json.next_cursor, linkOf(last, 'next')],
      [2, false, null, undefined],
      order,
    )
  }
  await store.pool.query('delete from products where category = $1', [category])
})

test('a walk backwards ends when all previous products were archived', async () => {
  const category = 'archived before'
  for (let i = 0; i < 4; i++) await store.addProduct({ category, amount: i, name: `lamp ${i}` })
  for (const order of ['sort=price', 'q=lamp']) {
    await store.pool.query('update products set archived_at = null where category = $1', [category])
    const [first, second] = await readPages(`/products?category=${encodeURIComponent(category)}&limit=2&${order}`)
    const ids = (first as Answer).json.data.map(({ id }: Listed) => id)
    await store.pool.query('update products set archived_at = now() where id = any($1)', [ids])
    const before = await store.call('GET', linkOf(second as Answer, 'prev') ?? '')
    assert.deepEqual([before.json.data, linkOf(before, 'prev')], [(second as Answer).json.data, undefined], order)
  }
  await store.pool.query('delete from products where category = $1', [category])
})

test('a search without a word matches nothing, and every link in its answer works', async () => {
  for (const q of ['-', '"!"', '--']) {
    const answer = await store.call('GET', `/products?q=${encodeURIComponent(q)}`)
    assert.deepEqual(answer.json, { data: [], has_more: false, next_cursor: null })
    assert.equal((await store.call('GET', linkOf(answer, 'first') ?? '')).status, 200, q)
  }
})

test('links have at most 1,500 bytes, and the cursor in the body works if a link is missing', async () => {
  const ids = Array.from({ length: 98 }, () => randomUUID())
  const products = [await store.addProduct({}), await store.addProduct({})]
  const query = `ids=${[...ids, ...products.map(({ id }) => id)].join(',')}&limit=1`
  const answer = await store.call('GET', `/products?${query}`)
  assert.ok((answer.headers.link ?? '').length <= 1_500, String(answer.headers.link?.length))
  assert.equal(linkOf(answer, 'first'), undefined)
  const next = await store.call('GET', `/products?${query}&cursor=${answer.json.next_cursor}`)
  assert.equal(next.json.data.length, 1)
  await store.pool.query('delete from products where id = any($1)', [products.map(({ id }) => id)])
})

test('returns an empty list when nothing matches', async () => {
  const answer = await store.call('GET', '/products?category=none')
  assert.deepEqual(answer.json, { data: [], has_more: false, next_cursor: null })
  assert.equal(answer.headers.link, '<http://localhost:3000/products?category=none>; rel="first"')
})
