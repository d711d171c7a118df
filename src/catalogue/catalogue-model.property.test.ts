import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import {
  entryOf,
  FIRST_ID,
  firstOfEach,
  inOrder,
  isKnown,
  type ModelProduct,
  type ModelQuery,
  matches,
  modelQuery,
  type ProductSpec,
  productSpec,
  toModelProduct,
  toQueryString,
} from '../../test/catalogue-model.ts'
import { startStore } from '../../test/store.ts'
import { CANDIDATES, NAMED } from './search/ranked-products.ts'

// Cached pages are off: the test changes the database directly, which the store would notice a moment later.
const store = await startStore({ after }, { pageCacheBytes: 0 })

const EXAMPLES = 60
const TIME_LIMIT_MS = 5_000

/**
 * `check`, which however slow the machine is begins no example after the limit, neither of a search for the smallest
 * that fails.
 */
function bounded<T extends unknown[]>(check: (...example: T) => Promise<void>): (...example: T) => Promise<void> {
  const end = performance.now() + TIME_LIMIT_MS
  return async (...example) => {
    if (performance.now() < end) await check(...example)
  }
}

/** Each product several times, so that some searches have more matches than are ranked. */
const catalogue = fc.array(fc.tuple(productSpec, fc.integer({ min: 1, max: 20 })), { maxLength: 30, size: '+1' })

interface Listed {
  id: string
  group: string | null
}

interface ReadPage {
  data: Listed[]
  count: unknown
  next: string | undefined
  prev: string | undefined
}

async function insert(products: readonly ModelProduct[]): Promise<void> {
  const rows = products.map(({ id, sku, name, description, option, category, amount, group, isInStock, isArchived, day }) => ({
    ...{ id, sku, name: name.text, description: description.text, category, price_amount: amount, variant_group: group },
    ...{
      options: option === null ? {} : { kind: option.text },
      in_stock: isInStock,
      archived_at: isArchived ? day : null,
      created_at: day,
    },
  }))
  await store.pool.query(
    `insert into products
       (id, sku, name, description, category, price_amount, price_currency, variant_group, options, in_stock, archived_at, created_at)
     select id, sku, name, description, category, price_amount, 'EUR', variant_group, options, in_stock, archived_at, created_at
     from jsonb_to_recordset($1) as input (id uuid, sku text, name text, description text, category text, price_amount bigint,
       variant_group text, options jsonb, in_stock boolean, archived_at timestamptz, created_at timestamptz)`,
    [JSON.stringify(rows)],
  )
}

async function refill(specs: readonly (readonly [ProductSpec, number])[]): Promise<ModelProduct[]> {
  await store.pool.query('delete from products')
  const products = specs
    .flatMap(([spec, copies]) => Array.from({ length: copies }, () => spec))
    .map((spec, place) => (place === 0 ? toModelProduct({ ...spec, group: null }, FIRST_ID) : toModelProduct(spec)))
  await insert(products)
  return products
}

async function read(path: string): Promise<ReadPage> {
  const answer = await store.call('GET', path)
  assert.equal(answer.status, 200, `${path} ${answer.text}`)
  const link = (rel: string) => new RegExp(`<http://localhost:3000([^<>]+)>; rel="${rel}"`).exec(answer.headers.link ?? '')?.[1]
  const { data, has_more, next_cursor, count } = answer.json
  const next = link('next')
  assert.deepEqual([has_more, next !== undefined], [next_cursor !== null, next_cursor !== null], path)
  return { data, count, next, prev: link('prev') }
}

/** All pages from `path` on, by their links. `afterPage` may change products before the next one is read. */
async function walk(path: string, rel: 'next' | 'prev', afterPage: (page: number) => Promise<void> = async () => {}): Promise<ReadPage[]> {
  const pages: ReadPage[] = []
  for (let at: string | undefined = path; at !== undefined; at = pages.at(-1)?.[rel]) {
    assert.ok(pages.length < 1_000, 'the walk ends')
    pages.push(await read(at))
    await afterPage(pages.length)
  }
  return pages
}

async function readLastPath(path: string): Promise<string> {
  const pages = await walk(path, 'next')
  return pages.at(-2)?.next ?? path
}

function listPath(query: ModelQuery): string {
  return `/products?${toQueryString(query, { limit: String(query.limit), include: 'count' })}`
}

function assertListed(listed: readonly Listed[], products: readonly ModelProduct[], query: ModelQuery): void {
  const found = products.filter((product) => matches(product, query))
  if (query.search === null || query.sort !== null) {
    const expected = firstOfEach(inOrder(found, query.sort ?? '-created_at'), query)
    assert.deepEqual(
      listed.map(({ id }) => id),
      expected.map(({ id }) => id),
    )
    return
  }
  // The order by relevance: the newest, and the newest whose whole name is the search, by rank; then the others by age.
  const byAge = inOrder(found, '-created_at')
  const name = query.search.required.map(({ meant }) => meant).join('')
  const named = byAge.filter((product) => product.name.words.join('') === name)
  const ranked = new Set([...byAge.slice(0, CANDIDATES), ...named.slice(0, NAMED)].map((product) => entryOf(product, query)))
  const rest = firstOfEach(byAge, query).filter((product) => !ranked.has(entryOf(product, query)))
  const entries = listed.map((product) => entryOf(product, query))
  assert.deepEqual(entries.slice(0, ranked.size).toSorted(), [...ranked].sort())
  assert.deepEqual(
    listed.slice(ranked.size).map(({ id }) => id),
    rest.map(({ id }) => id),
  )
}

test('pages in both directions, counts and facets equal those of an in-memory model of the catalogue', async () => {
  await fc.assert(
    fc.asyncProperty(
      catalogue,
      fc.array(modelQuery, { minLength: 1, maxLength: 4 }),
      bounded(async (specs, queries) => {
        const products = await refill(specs)
        for (const query of queries) {
          const pages = await walk(listPath(query), 'next')
          if (!isKnown(products, query)) continue
          const listed = pages.flatMap(({ data }) => data)
          assertListed(listed, products, query)
          for (const { data, count } of pages) {
            assert.deepEqual(count, { value: listed.length, exact: true })
            assert.ok(data.length === query.limit || data === pages.at(-1)?.data, 'pages are full but the last')
          }
          const back = await walk(pages.at(-2)?.next ?? listPath(query), 'prev')
          assert.deepEqual(
            back.flatMap(({ data }) => data.toReversed()).map(({ id }) => id),
            listed.map(({ id }) => id).toReversed(),
          )
          const facets = await store.call('GET', `/products/facets?${toQueryString({ ...query, sort: null, isCollapsed: false })}`)
          const counted = facets.json.categories.map(({ category, count }: { category: string; count: number }) => [category, count])
          const found = Map.groupBy(
            products.filter((product) => matches(product, query)),
            ({ category }) => category,
          )
          assert.deepEqual(new Map(counted), new Map([...found].map(([category, { length }]) => [category, length])))
        }
      }),
    ),
    { numRuns: EXAMPLES },
  )
})

/**
 * A search by relevance ranks the newest 1,000 of what is between its first candidates:
 * docs/decisions/catalogue-search.md.
 */
const MANY_ADDED = 6
const change = fc.record({
  at: fc.nat(1_000),
  how: fc.constantFrom('archive', 'restore', 'price', 'name', 'stock', 'add', 'add many', 'add many'),
  spec: productSpec,
})
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never

/** Makes a change, and returns the products that it affects. */
async function apply({ at, how, spec }: Change, products: readonly ModelProduct[]): Promise<ModelProduct[]> {
  if (how === 'add' || how === 'add many') {
    const added = Array.from({ length: how === 'add' ? 1 : CANDIDATES + 20 }, () => toModelProduct({ ...spec, isArchived: false }))
    await insert(added)
    return added
  }
  const product = products[at % Math.max(products.length, 1)]
  if (product === undefined) return []
  const to = {
    archive: ['archived_at = now()', null],
    restore: ['archived_at = null', null],
    price: ['price_amount = $2', spec.amount],
    name: ['name = $2', spec.name.text],
    stock: ['in_stock = $2', spec.isInStock],
  }[how] as [string, string | number | boolean | null]
  await store.pool.query(`update products set ${to[0]} where id = $1`, to[1] === null ? [product.id] : [product.id, to[1]])
  return [product]
}

test('a walk over all pages shows each unchanged entry once and in its place while other products change', async () => {
  await fc.assert(
    fc.asyncProperty(
      catalogue,
      modelQuery,
      fc.constantFrom('next' as const, 'prev' as const),
      fc.array(fc.array(change, { maxLength: 4 }), { maxLength: 8 }),
      bounded(async (specs, query, rel, turns) => {
        const products = await refill(specs)
        if (!isKnown(products, query)) return
        const touched = new Set<string>()
        let manyAdded = 0
        const path = rel === 'next' ? listPath(query) : await readLastPath(listPath(query))
        const pages = await walk(path, rel, async (page) => {
          for (const one of turns[page - 1] ?? []) {
            if (one.how === 'add many' && ++manyAdded > MANY_ADDED) continue
            for (const product of await apply(one, products)) touched.add(entryOf(product, query))
          }
        })
        const isCalm = (product: { id: string; group: string | null }) => !touched.has(entryOf(product, query))
        const listed = pages.flatMap(({ data }) => (rel === 'next' ? data : data.toReversed())).filter(isCalm)
        const calm = products.filter(isCalm).filter((product) => matches(product, query))
        if (query.search !== null && query.sort === null) {
          const entries = listed.map((product) => entryOf(product, query))
          assert.deepEqual(entries.toSorted(), [...new Set(calm.map((product) => entryOf(product, query)))].sort())
          return
        }
        const expected = firstOfEach(inOrder(calm, query.sort ?? '-created_at'), query).map(({ id }) => id)
        assert.deepEqual(
          listed.map(({ id }) => id),
          rel === 'next' ? expected : expected.toReversed(),
        )
      }),
    ),
    { numRuns: EXAMPLES },
  )
})
