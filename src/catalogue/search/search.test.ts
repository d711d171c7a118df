import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem, faults } from '../../../test/problem.ts'
import { startStore } from '../../../test/store.ts'
import { CANDIDATES } from './ranked-products.ts'
import { parseSearch, toTextQuery } from './search-words.ts'
import { findSimilarWords, matchesAny } from './similar-words.ts'

const store = await startStore({ after })

async function add(name: string, more: { sku?: string; category?: string; description?: string; amount?: number; stock?: number } = {}) {
  const { description = '', ...rest } = more
  const product = await store.addProduct({ name, category: 'things', ...rest })
  await store.pool.query('update products set description = $2 where id = $1', [product.id, description])
  return product
}

await add('Oak table', { category: 'tables', amount: 50_000 })
await add('Table lamp', { category: 'lamps', amount: 3_000, sku: 'LMP-42-B' })
await add('Floor lamp', { category: 'lamps', description: 'Stands beside a table.', amount: 9_000, stock: 0 })
await add('Keyboard', { category: 'computers', amount: 7_000 })
await add("Women's boots", { category: 'shoes', description: 'A waterproof leather boot, 100% made by hand', amount: 12_000 })

async function names(query: string): Promise<string[]> {
  const answer = await store.call('GET', `/products?${query}`)
  assert.equal(answer.status, 200, answer.text)
  return answer.json.data.map(({ name }: { name: string }) => name)
}

test('finds words and their beginnings in name, sku, category and description, in any case', async () => {
  assert.deepEqual(await names('q=keyb'), ['Keyboard'])
  assert.deepEqual(await names('q=KEYBOARD'), ['Keyboard'])
  assert.deepEqual(await names('q=computers'), ['Keyboard'])
  assert.deepEqual(await names('q=LMP-42'), ['Table lamp'])
  assert.deepEqual(await names('q=waterpr+hand'), ["Women's boots"])
  assert.deepEqual(await names("q=women's"), ["Women's boots"])
  assert.deepEqual(await names('q=lamp+keyboard'), [])
})

test('whether a word matches as a prefix depends on its place and length', () => {
  for (const [q, query] of [
    ['la', "('la':*)"],
    ['l', "('l')"],
    ['ba ce lam', "('ba' | 'bace') & ('ce' | 'bace' | 'celam') & ('lam':* | 'celam')"],
    ['lam ce -oak', "('lam':* | 'lamce') & ('ce':* | 'lamce') & !'oak'"],
    ['SKU-500', "('sku' | 'sku500') & ('500':* | 'sku500')"],
    ['oak/table lam', "('oak' | 'oaktable') & ('table':* | 'oaktable' | 'tablelam') & ('lam':* | 'tablelam')"],
    ['椅子 赤', "('椅子':* | '椅子赤') & ('赤' | '椅子赤')"],
    ['5 5 5 5 5 5', "('5')"],
    ['折り畳', "('折り畳':* | ('折り' & 'り畳'))"],
  ] as const) {
    assert.equal(toTextQuery(parseSearch(q)), query)
  }
  const words = toTextQuery(parseSearch('one two three four five six')).split(' & ')
  assert.deepEqual(
    words.map((word) => word.includes(':*')),
    [false, true, true, true, true, true],
  )
})

test('a search with many single letters has a limited number of words', () => {
  const query = toTextQuery(parseSearch('1 a '.repeat(50)))
  assert.ok(query.split("'").length < 2 * 20 * 20, query)
})

test('a word in the name ranks before a word in other texts', async () => {
  assert.deepEqual((await names('q=table')).slice(-1), ['Floor lamp'])
  assert.deepEqual(new Set(await names('q=table')), new Set(['Oak table', 'Table lamp', 'Floor lamp']))
  assert.deepEqual(await names('q=table&sort=price'), ['Table lamp', 'Floor lamp', 'Oak table'])
})

test('a mistyped word finds the most similar word, but only if no product has the typed one', async () => {
  assert.deepEqual(await names('q=keyborad'), ['Keyboard'])
  assert.deepEqual(await names('q=watterproof'), ["Women's boots"])
  assert.deepEqual(await names('q=keyborad&sort=price'), ['Keyboard'])
  assert.deepEqual(await names('q=xyzzyxyz'), [])
  assert.deepEqual(await names('q=keyboard&category=lamps'), [], 'there are keyboards: no lamp is one')
})

test('searches similar words for the first five words with at least four letters, and not for shorter words', async () => {
  const found = await findSimilarWords(store.pool, ['keyborad', 'tab', 'lamb', 'tabel', 'bots', 'watterproof', 'keybaord'])
  assert.deepEqual([...found.keys()].toSorted(), ['bots', 'keyborad', 'lamb', 'tabel', 'watterproof'])
})

test('a word of one of the newest products is found without the index, which would collect all matches', async () => {
  const client = await store.pool.connect()
  try {
    await client.query('begin')
    await client.query(
      `create or replace function any_product_matches(query tsquery) returns boolean language plpgsql as $$ begin raise 'the index is read'; end $$`,
    )
    assert.equal(await matchesAny(client, toTextQuery(parseSearch('table'))), true)
    await assert.rejects(matchesAny(client, toTextQuery(parseSearch('xyzzyxyz'))), /the index is read/)
  } finally {
    await client.query('rollback')
    client.release()
  }
})

test('finds words that are not ASCII, and finds nothing for a text without a word', async () => {
  await add('Café Größe 椅子', { category: 'Éclairs' })
  assert.deepEqual(await names(`q=${encodeURIComponent('café')}`), ['Café Größe 椅子'])
  assert.deepEqual(await names(`q=${encodeURIComponent('größ')}`), ['Café Größe 椅子'])
  assert.deepEqual(await names(`q=${encodeURIComponent('椅子')}`), ['Café Größe 椅子'])
  for (const q of ['!!!', '-lamp', '---', "'", '%', '*']) assert.deepEqual(await names(`q=${encodeURIComponent(q)}`), [], q)
})

test('combines filters', async () => {
  assert.deepEqual(await names('category=lamps&sort=price'), ['Table lamp', 'Floor lamp'])
  assert.deepEqual(await names('category=lamps&in_stock=true'), ['Table lamp'])
  assert.deepEqual(await names('category=lamps&in_stock=false'), ['Floor lamp'])
  assert.deepEqual(await names('min_price=7000&max_price=9000&sort=price'), ['Keyboard', 'Floor lamp'])
  assert.deepEqual(await names('q=lamp&max_price=3000'), ['Table lamp'])
  const all = (await store.call('GET', '/products?category=lamps&sort=name')).json.data
  const ids = all.map(({ id }: { id: string }) => id)
  assert.deepEqual(await names(`ids=${ids[1].toUpperCase()},${ids[0]},${ids[0]}&sort=name`), ['Floor lamp', 'Table lamp'])
})

test('counts only if requested', async () => {
  assert.equal((await store.call('GET', '/products?category=lamps')).json.count, undefined)
  const { count } = (await store.call('GET', '/products?category=lamps&limit=1&include=count')).json
  assert.deepEqual(count, { value: 2, exact: true })
})

test('counts categories and price ranges for the same filters', async () => {
  const all = (await store.call('GET', '/products/facets')).json
  assert.equal(all.exact, true)
  assert.deepEqual(all.categories[0], { category: 'lamps', slug: 'lamps', count: 2 })
  const { categories, price_ranges } = (await store.call('GET', '/products/facets?q=lamp&min_price=1')).json
  assert.deepEqual(categories, [{ category: 'lamps', slug: 'lamps', count: 2 }])
  assert.deepEqual(price_ranges, [
    { currency: 'EUR', min: 2_500, max: 5_000, count: 1 },
    { currency: 'EUR', min: 5_000, max: 10_000, count: 1 },
  ])
})

test('facets of a mistyped search count the products in its list', async () => {
  await store.addProduct({ name: 'Telescope stand', category: 'optics' })
  for (const q of ['telescpoe', 'telescope']) {
    const listed = (await store.call('GET', `/products?q=${q}`)).json.data
    const { categories } = (await store.call('GET', `/products/facets?q=${q}`)).json
    assert.deepEqual([listed.length, categories], [1, [{ category: 'optics', slug: 'optics', count: 1 }]], q)
  }
})

test('a mistyped word finds words of sold products, even if archived products have more similar words', async () => {
  const archived = ['marmaladx', 'marmaladz', 'marmalada', 'marmaladt', 'marmaladu', 'marmaladi'].map((name) =>
    store.addProduct({ name, category: 'gone' }),
  )
  await Promise.all([...archived, store.addProduct({ name: "marmaladeja d'oro", category: 'jam' })])
  await store.pool.query(`update products set archived_at = now() where category = 'gone'`)
  const { data } = (await store.call('GET', '/products?q=marmalad3')).json
  assert.deepEqual(
    data.map(({ name }: { name: string }) => name),
    ["marmaladeja d'oro"],
  )
  await store.pool.query(`delete from products where category in ('gone', 'jam', 'optics')`)
})

test('refuses contradictions, too many words, and parameters of other lists', async () => {
  for (const [query, parameter] of [
    ['min_price=2&max_price=1', 'min_price'],
    ['sort=relevance', 'sort'],
    [`q=${'a+b+'.repeat(40)}${Array.from({ length: 21 }, (_, i) => `w${i}`).join('+')}`, 'q'],
  ] as const) {
    assert.deepEqual(faults(assertProblem(await store.call('GET', `/products?${query}`), 400, 'invalid_query', query)), [parameter])
  }
  for (const query of ['limit=1', 'sort=name', 'cursor=x']) {
    assertProblem(await store.call('GET', `/products/facets?${query}`), 400, 'invalid_query', query)
  }
})

test('shows each match once, forwards and backwards, if there are more matches than are ranked', async () => {
  const total = CANDIDATES + 30
  await store.pool.query(
    `insert into products (id, sku, name, category, price_amount, price_currency, in_stock, created_at)
     select gen_random_uuid(), 'many-' || number, case when number % 3 = 0 then 'gizmo' else 'thing' end, 'many', number, 'EUR', true,
       now() - make_interval(secs => number / 4)
     from generate_series(1, $1) as number`,
    [total],
  )
  // The word of these products is in their description, not in their name.
  await store.pool.query(`update products set description = 'a gizmo' where category = 'many' and name = 'thing'`)
  const forwards: string[][] = []
  let path: string | undefined = '/products?q=gizmo&limit=25'
  let last = ''
  const link = (answer: { headers: Record<string, string | undefined> }, rel: string) =>
    new RegExp(`<http://localhost:3000([^<>]+)>; rel="${rel}"`).exec(answer.headers.link ?? '')?.[1]
  while (path !== undefined) {
    const answer = await store.call('GET', path)
    assert.equal(answer.status, 200, answer.text)
    forwards.push(answer.json.data.map(({ id }: { id: string }) => id))
    last = path
    path = link(answer, 'next')
  }
  assert.equal(forwards.length, Math.ceil(total / 25))
  assert.equal(new Set(forwards.flat()).size, total)
  const first = (await store.call('GET', '/products?q=gizmo&limit=30')).json.data
  assert.ok(
    first.every(({ name }: { name: string }) => name === 'gizmo'),
    'those with the word in their name come first',
  )

  const back: string[][] = []
  for (let at: string | undefined = last; at !== undefined; ) {
    const answer = await store.call('GET', at)
    back.unshift(answer.json.data.map(({ id }: { id: string }) => id))
    at = link(answer, 'prev')
  }
  assert.deepEqual(back.flat(), forwards.flat())
  await store.pool.query(`delete from products where category = 'many'`)
})

test('a walk by relevance shows every unchanged product while any number of matches is added', async () => {
  const insert = (prefix: string, count: number, name = 'widget') =>
    store.pool.query(
      `insert into products (id, sku, name, category, price_amount, price_currency, in_stock, created_at)
       select gen_random_uuid(), $1 || number, case when number % 3 = 0 then $3 else $3 || ' thing' end, 'walked', number, 'EUR', true,
         now() - make_interval(secs => number)
       from generate_series(1, $2) as number`,
      [prefix, count, name],
    )
  for (const total of [CANDIDATES - 40, CANDIDATES + 40]) {
    await insert('there', total)
    // These products have the age of the matches, or are older.
    await insert('unmatched', 3 * CANDIDATES, 'gadget')
    const seen: string[] = []
    let path: string | undefined = '/products?q=widget&limit=10&category=walked'
    for (let page = 0; path !== undefined; page++) {
      const answer = await store.call('GET', path)
      seen.push(...answer.json.data.map(({ sku }: { sku: string }) => sku))
      if (page === 1) await insert('later', 3 * CANDIDATES)
      if (page === 3) await store.pool.query(`update products set name = 'widget ' || name where sku like 'unmatched%'`)
      path = /<http:\/\/localhost:3000([^<>]+)>; rel="next"/.exec(answer.headers.link ?? '')?.[1]
    }
    const unchanged = seen.filter((sku) => sku.startsWith('there'))
    assert.deepEqual([unchanged.length, new Set(unchanged).size], [total, total])
    await store.pool.query(`delete from products where category = 'walked'`)
  }
})
