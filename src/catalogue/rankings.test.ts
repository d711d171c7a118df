import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startStore } from '../../test/store.ts'
import { LISTS_TAG, takeChangedTags } from './events.ts'
import { MAX_RANKED } from './product-rules.ts'
import { rankBestSellers } from './rank-best-sellers.ts'
import { deleteOldRankings } from './rankings.ts'

const store = await startStore({ after }, { pageCacheBytes: 0 })
const { token } = await registerOperator(store)
// The store computes no figures of earlier orders, and keeps those of the tests.
await store.pool.query(`update figure_progress set filled_from = now() - interval '62 days', changed_at = now()`)

async function addProduct(sku: string, paths: string[][], other: object = {}): Promise<string> {
  const body = { sku, name: `Product ${sku}`, categories: paths, price: { amount: 100, currency: 'EUR' }, ...other }
  const answer = await store.call('POST', '/admin/products', { token, body })
  assert.equal(answer.status, 201, answer.text)
  return answer.json.id
}

async function categoryId(name: string): Promise<string> {
  const { rows } = await store.pool.query<{ id: string }>('select id from categories where name = $1', [name])
  return rows[0]?.id ?? ''
}

async function sell(units: Readonly<Record<string, number>>, { daysAgo = 1, currency = 'EUR' } = {}): Promise<void> {
  await store.pool.query(
    `insert into product_figures (slice, product_id, currency, quantity, revenue)
     select date_bin('10 minutes', now() - make_interval(days => $3), 'epoch'), product.id, $2, sold.value::bigint, 1
     from jsonb_each_text($1) as sold join products as product on product.sku = sold.key`,
    [units, currency, daysAgo],
  )
}

/** Ranks although the newest ranking is young. */
const rank = () => rankBestSellers(store.pool, { everyMinutes: 0 })

const read = async (query: string) => {
  const answer = await store.call('GET', `/products?${query}`)
  assert.equal(answer.status, 200, answer.text)
  return answer
}
const skus = async (query: string): Promise<string[]> => (await read(query)).json.data.map(({ sku }: { sku: string }) => sku)

/** All pages on, and back again from the last. */
async function walk(query: string): Promise<{ on: string[]; back: string[] }> {
  const readAll = async (path: string, rel: 'next' | 'prev') => {
    const listed: string[][] = []
    let last = path
    for (let next: string | undefined = path; next !== undefined; ) {
      last = next
      const { json, headers } = await store.call('GET', next)
      listed.push(json.data.map(({ sku }: { sku: string }) => sku))
      next = new RegExp(`<http://localhost:3000([^<>]+)>; rel="${rel}"`).exec(headers.link ?? '')?.[1]
      assert.ok(listed.length < 500, 'the list ends')
    }
    return { listed, last }
  }
  const { listed: on, last } = await readAll(`/products?${query}`, 'next')
  const { listed: back } = await readAll(last, 'prev')
  return { on: on.flat(), back: back.toReversed().flat() }
}

interface Placed {
  id: string
  etag: string
}
async function place(ids: readonly string[], { id, etag }: Partial<Placed>) {
  const headers: Record<string, string> = etag === undefined ? {} : { 'if-match': etag }
  return store.call('PUT', `/admin/categories/${id}/products`, { token, headers, body: { product_ids: ids } })
}
async function placedIn(name: string): Promise<Placed & { skus: string[] }> {
  const id = await categoryId(name)
  const answer = await store.call('GET', `/admin/categories/${id}/products`, { token })
  assert.equal(answer.status, 200, answer.text)
  return { id, etag: String(answer.headers.etag), skus: answer.json.data.map(({ sku }: { sku: string }) => sku) }
}

test('best sellers come first, in the shop and in each category with its descendants, and the others follow, newest first', async () => {
  for (const [sku, ...path] of [
    ['B1', 'Sold', 'Deep'],
    ['B2', 'Sold', 'Deep'],
    ['B3', 'Sold'],
    ['B4', 'Sold'],
    ['B5', 'Other'],
  ] as const) {
    await addProduct(sku, [[...path]], { stock: sku === 'B2' ? 0 : 5 })
  }
  await sell({ B1: 5, B3: 7, B5: 20 })
  await sell({ B1: 4 }, { currency: 'USD' })
  await sell({ B4: 1_000 }, { daysAgo: 31 })
  assert.deepEqual(await skus('sort=best_selling'), ['B5', 'B4', 'B3', 'B2', 'B1'], 'before they are ranked')
  await rank()
  assert.deepEqual(await skus('sort=best_selling'), ['B5', 'B1', 'B3', 'B4', 'B2'])
  assert.deepEqual(await skus('sort=best_selling&category=sold'), ['B1', 'B3', 'B4', 'B2'])
  assert.deepEqual(await skus('sort=best_selling&category=Deep'), ['B1', 'B2'])
  assert.deepEqual(await skus('sort=best_selling&q=product&in_stock=true'), ['B5', 'B1', 'B3', 'B4'])
  assert.deepEqual(await skus('sort=best_selling&q=b3'), ['B3'])
  assert.deepEqual(await skus('sort=best_selling&category=none'), [])
  for (const limit of [1, 2, 3]) {
    const all = ['B5', 'B1', 'B3', 'B4', 'B2']
    assert.deepEqual(await walk(`sort=best_selling&limit=${limit}`), { on: all, back: all })
  }

  const states = async () => (await store.pool.query('select id from product_rankings')).rowCount
  const before = await states()
  await rank()
  assert.equal(await states(), before, 'a ranking that is the same is not written')
  await store.call('DELETE', `/admin/products/${(await read('q=b5')).json.data[0].id}`, { token })
  await rank()
  assert.deepEqual(await skus('sort=best_selling&category=other'), [])
  const { rows } = await store.pool.query(`select product_ids from product_rankings where category_id = $1 and replaced_at is null`, [
    await categoryId('Other'),
  ])
  assert.deepEqual(rows, [{ product_ids: [] }])
})

test('the variants of a group are ranked by the sum of their units, and share one place', async () => {
  const group = 'ranked-shirt'
  for (const size of ['S', 'M', 'L']) await addProduct(`G${size}`, [['Grouped']], { group, options: { size } })
  await addProduct('G1', [['Grouped']])
  await addProduct('G0', [['Grouped']])
  await sell({ GS: 4, GM: 5, G1: 8 })
  await rank()
  assert.deepEqual(await skus('sort=best_selling&category=grouped&collapse=group'), ['GM', 'G1', 'G0'])
  const all = ['GS', 'GM', 'GL', 'G1', 'G0']
  assert.deepEqual(await walk('sort=best_selling&category=grouped&limit=2'), { on: all, back: all })
  await store.pool.query(`update products set in_stock = sku in ('GS', 'GL', 'G0') where category = 'Grouped'`)
  assert.deepEqual(
    await skus('sort=best_selling&category=grouped&collapse=group&in_stock=true'),
    ['GL', 'G0'],
    'another variant has the place',
  )
})

test('operators order the first products of a category, and this order applies only there', async () => {
  const ids: string[] = []
  for (const sku of ['P1', 'P2', 'P3', 'P4']) ids.push(await addProduct(sku, [['Hand', sku === 'P4' ? 'Below' : 'Beside']]))
  const [p1 = '', p2 = '', p3 = '', p4 = ''] = ids
  const elsewhere = await addProduct('E1', [['Elsewhere']])
  assert.deepEqual(await skus('category=hand&sort=position'), ['P4', 'P3', 'P2', 'P1'])
  const first = await placedIn('Hand')
  assert.deepEqual(first.skus, [])
  assertProblem(await place([p1], { id: first.id }), 428, 'if_match_required')
  assertProblem(await place([p1], { ...first, etag: '"other"' }), 412, 'precondition_failed')
  assertProblem(await place([p1], { ...first, id: randomUUID() }), 404, 'not_found')
  const refused = await place([p1, elsewhere, randomUUID(), p1.toUpperCase()], first)
  assertProblem(refused, 422, 'invalid_body')
  assert.deepEqual(
    refused.json.errors.map(({ pointer }: { pointer: string }) => pointer),
    ['#/product_ids/1', '#/product_ids/2', '#/product_ids/3'],
  )
  const many = Array.from({ length: MAX_RANKED + 1 }, () => randomUUID())
  assertProblem(await place(many, first), 422, 'invalid_body')

  const both = await Promise.all([place([p1, p4], first), place([p2], first)])
  assert.deepEqual(both.map(({ status }) => status).sort(), [200, 412])
  const answer = await place([p1, p4], await placedIn('Hand'))
  assert.equal(answer.status, 200, answer.text)
  assert.deepEqual((await placedIn('Hand')).skus, ['P1', 'P4'])
  assert.equal((await placedIn('Hand')).etag, String(answer.headers.etag))
  for (const limit of [1, 2, 3, 20]) {
    const all = ['P1', 'P4', 'P3', 'P2']
    assert.deepEqual(await walk(`category=hand&sort=position&limit=${limit}`), { on: all, back: all })
  }
  assert.deepEqual(await skus('category=hand&sort=position&q=p3'), ['P3'])
  assert.deepEqual(await skus('category=beside&sort=position'), ['P3', 'P2', 'P1'], 'its own order')
  assertProblem(await store.call('GET', '/products?sort=position'), 400, 'invalid_query')

  // What leaves takes no place, and has its own when it returns.
  await store.call('DELETE', `/admin/products/${p1}`, { token })
  assert.deepEqual(await skus('category=hand&sort=position'), ['P4', 'P3', 'P2'])
  assert.deepEqual((await placedIn('Hand')).skus, ['P4'])
  await store.call('POST', `/admin/products/${p1}/restore`, { token })
  assert.deepEqual(await skus('category=hand&sort=position'), ['P1', 'P4', 'P3', 'P2'])
  const { headers } = await store.call('GET', `/products/${p4}`)
  const body = { categories: [['Elsewhere']], name: 'Renamed' }
  assert.equal(
    (await store.call('PATCH', `/admin/products/${p4}`, { token, headers: { 'if-match': String(headers.etag) }, body })).status,
    200,
  )
  assert.deepEqual(await skus('category=hand&sort=position'), ['P1', 'P3', 'P2'])
  const { rows } = await store.pool.query(`select before, after from activities where action = 'placeProducts' order by id desc limit 1`)
  assert.deepEqual(rows[0]?.after, { products: ['P1', 'P4'] })
  assert.equal((await place([], await placedIn('Hand'))).status, 200)
  assert.deepEqual(await skus(`category=hand&sort=position&ids=${p3},${p1}`), ['P3', 'P1'])
})

test('a product that was hidden while others were ordered has its former place when it returns', async () => {
  const ids: Record<string, string> = {}
  for (const sku of ['H1', 'H2', 'H3', 'H4']) ids[sku] = await addProduct(sku, [['Hidden']])
  const order = async (...wanted: string[]) =>
    place(
      wanted.map((sku) => ids[sku] ?? ''),
      await placedIn('Hidden'),
    )
  const hide = async (sku: string) => assert.equal((await store.call('DELETE', `/admin/products/${ids[sku]}`, { token })).status, 204)
  const restore = async (sku: string) =>
    assert.equal((await store.call('POST', `/admin/products/${ids[sku]}/restore`, { token })).status, 200)
  assert.equal((await order('H1', 'H2', 'H3')).status, 200)
  await hide('H1')
  await hide('H3')
  const answer = await order('H4', 'H2')
  assert.equal(answer.status, 200, answer.text)
  assert.deepEqual(
    answer.json.data.map(({ sku }: { sku: string }) => sku),
    ['H4', 'H2'],
  )
  assert.equal((await placedIn('Hidden')).etag, String(answer.headers.etag))
  await restore('H1')
  await restore('H3')
  assert.deepEqual((await placedIn('Hidden')).skus, ['H1', 'H4', 'H3', 'H2'])
  assert.deepEqual(await skus('category=hidden&sort=position'), ['H1', 'H4', 'H3', 'H2'])

  // The operator began with all four.
  await hide('H4')
  assert.equal((await order('H2', 'H4', 'H1')).status, 200)
  await restore('H4')
  assert.deepEqual((await placedIn('Hidden')).skus, ['H2', 'H4', 'H1'])

  // A whole order leaves no room, and an empty one forgets the hidden products.
  await hide('H4')
  await store.pool.query(
    `with added as (
       insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
       select gen_random_uuid(), 'HM' || n, 'Hidden ' || n, 'Hidden', 100, 'EUR', true from generate_series(1, ${MAX_RANKED}) as n
       returning id
     )
     select count(*) from added`,
  )
  const { rows } = await store.pool.query<{ id: string }>(`select id from products where sku like 'HM%'`)
  assert.equal(
    (
      await place(
        rows.map(({ id }) => id),
        await placedIn('Hidden'),
      )
    ).status,
    200,
  )
  assert.equal((await placedIn('Hidden')).skus.length, MAX_RANKED)
  assert.equal((await order('H1')).status, 200)
  await hide('H1')
  assert.equal((await order()).status, 200)
  await restore('H1')
  assert.deepEqual((await placedIn('Hidden')).skus, [])
  await store.pool.query(`delete from products where sku like 'HM%'`)
})

test('only one variant of a group can be placed', async () => {
  const group = 'placed-shirt'
  const small = await addProduct('VS', [['Varied']], { group, options: { size: 'S' } })
  const large = await addProduct('VL', [['Varied']], { group, options: { size: 'L' } })
  const other = await addProduct('V1', [['Varied']])
  const refused = await place([small, other, large], await placedIn('Varied'))
  assertProblem(refused, 422, 'invalid_body')
  assert.deepEqual(
    refused.json.errors.map(({ pointer }: { pointer: string }) => pointer),
    ['#/product_ids/2'],
  )
  assert.equal((await place([other, large], await placedIn('Varied'))).status, 200)
})

test('a list of groups shows each group once, even if another of its variants has a place on the next page', async () => {
  const group = 'shown-shirt'
  const variants: string[] = []
  for (const size of ['S', 'M', 'L']) variants.push(await addProduct(`C${size}`, [['Shown']], { group, options: { size } }))
  const other = await addProduct('C1', [['Shown']])
  const [first = '', , last = ''] = variants.toSorted()
  const next = async (path: string, rel: string) =>
    new RegExp(`<http://localhost:3000([^<>]+)>; rel="${rel}"`).exec((await store.call('GET', path)).headers.link ?? '')?.[1] ?? ''
  const show = async (path: string) =>
    (await store.call('GET', path)).json.data.map(({ group, sku }: Record<string, string>) => group ?? sku)
  const list = '/products?category=shown&sort=position&collapse=group&limit=1'

  assert.equal((await place([first, other], await placedIn('Shown'))).status, 200)
  const forward = await next(list, 'next')
  await store.call('DELETE', `/admin/products/${first}`, { token })
  assert.deepEqual(await show(forward), ['C1'])
  await store.call('POST', `/admin/products/${first}/restore`, { token })

  assert.equal((await place([other, last], await placedIn('Shown'))).status, 200)
  const back = await next(await next(list, 'next'), 'prev')
  await store.call('DELETE', `/admin/products/${last}`, { token })
  assert.deepEqual(await show(back), ['C1'])
})

test('a new order purges only the pages that use it, and the page shows it at once', async () => {
  const first = await addProduct('T1', [['Tagged']])
  await addProduct('T2', [['Tagged']])
  const takeTags = async () => {
    const client = await store.pool.connect()
    try {
      return await takeChangedTags(client)
    } finally {
      client.release()
    }
  }
  while ((await takeTags()).length > 0);
  const path = 'category=tagged&sort=position'
  const before = await read(path)
  const placed = await placedIn('Tagged')
  assert.equal((await place([first], placed)).status, 200)
  assert.deepEqual(await skus(path), ['T1', 'T2'])
  const tags = await takeTags()
  assert.deepEqual(tags, [`position-${placed.id}`])
  const tagsOf = ({ headers }: Awaited<ReturnType<typeof read>>) => String(headers['surrogate-key'] ?? headers['cache-tag']).split(/[ ,]/)
  assert.ok(tagsOf(before).includes(tags[0] ?? ''), String(before.headers['surrogate-key']))
  assert.ok(!tagsOf(await read('category=tagged')).includes(tags[0] ?? ''))
  assert.ok(!tagsOf(await read('category=hand&sort=position')).includes(tags[0] ?? ''))

  await sell({ T2: 3 })
  await rank()
  assert.deepEqual(
    (await takeTags()).toSorted().filter((tag) => !tag.includes('-')),
    ['best_selling'],
  )
  await rank()
  assert.deepEqual(await takeTags(), [])

  const note = (count: number) =>
    store.pool.query(
      `insert into catalogue_changes (product_ids, list_tags) select '{}', array_agg('best_selling-' || n) from generate_series(1, $1) as n`,
      [count],
    )
  await note(501)
  assert.equal((await takeTags()).length, 501, 'all rankings of a run are purged by their tags')
  await note(1_001)
  assert.deepEqual(await takeTags(), [LISTS_TAG])
})

test('pages that follow an earlier state of a ranking show each product once', async () => {
  const ids: string[] = []
  for (let n = 0; n < 9; n++) ids.push(await addProduct(`W${n}`, [['Walked']]))
  const order = async (...chosen: number[]) => {
    const answer = await place(
      chosen.map((n) => ids[n] ?? ''),
      await placedIn('Walked'),
    )
    assert.equal(answer.status, 200, answer.text)
  }
  await order(0, 1, 2, 3)
  const page = async (path: string) => {
    const { json, headers } = await store.call('GET', path)
    const next = /<http:\/\/localhost:3000([^<>]+)>; rel="next"/.exec(headers.link ?? '')?.[1]
    return { skus: json.data.map(({ sku }: { sku: string }) => sku) as string[], next }
  }
  const first = await page('/products?category=walked&sort=position&limit=3')
  await order(8, 3, 0)
  const second = await page(first.next ?? '')
  await order(7, 1)
  const third = await page(second.next ?? '')
  assert.deepEqual([...first.skus, ...second.skus, ...third.skus], ['W0', 'W1', 'W2', 'W3', 'W8', 'W7', 'W6', 'W5', 'W4'])
  await deleteOldRankings(store.pool)
  assert.equal((await page(first.next ?? '')).skus[0], 'W3', 'a young state stays')
  await store.pool.query(`update product_rankings set replaced_at = now() - interval '61 minutes' where replaced_at is not null`)
  assert.ok((await deleteOldRankings(store.pool)) >= 2)
  assert.equal(await deleteOldRankings(store.pool), 0)
  assert.equal((await page(first.next ?? '')).skus.length, 3, 'the present order is shown when the earlier one is not kept any more')
})
