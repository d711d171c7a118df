import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { startStore } from '../../../test/store.ts'
import { CANDIDATES, NAMED } from './ranked-products.ts'

const store = await startStore({ after })
const COUNT = CANDIDATES + 60

interface Listed {
  id: string
  sku: string
  name: string
  group: string | null
}

async function read(path: string): Promise<{ data: Listed[]; next: string | undefined; prev: string | undefined }> {
  const answer = await store.call('GET', path)
  assert.equal(answer.status, 200, answer.text)
  const link = (rel: string) => new RegExp(`<http://localhost:3000([^<>]+)>; rel="${rel}"`).exec(answer.headers.link ?? '')?.[1]
  return { data: answer.json.data, next: link('next'), prev: link('prev') }
}

/** Products of the ages given in minutes, all of which have the word. */
async function insert(products: readonly { sku: string; name: string; age: number; group?: string | null }[]): Promise<void> {
  await store.pool.query(
    `insert into products (id, sku, name, description, category, variant_group, price_amount, price_currency, in_stock, created_at)
     select gen_random_uuid(), sku, name, 'beside a lamp', 'things', "group", 1, 'EUR', true, '2026-01-01Z'::timestamptz - make_interval(mins => age)
     from json_to_recordset($1) as product (sku text, name text, age integer, "group" text)`,
    [JSON.stringify(products)],
  )
}

test('a product whose whole name is the search comes first, however many newer products have the words', async (t) => {
  t.after(() => store.pool.query('delete from products'))
  const others = Array.from({ length: 3 * CANDIDATES }, (_, age) => ({ sku: `N${age}`, name: `Lamp shade ${age}`, age }))
  await insert([...others, { sku: 'L', name: 'Lamp', age: 10_000 }, { sku: 'W', name: 'Wi-Fi Lamp (5,5)', age: 10_001 }])
  await store.pool.query(`update products set translations = '{"de": {"name": "Leuchte"}}', description = '' where sku = 'L'`)
  await store.pool.query(`update products set description = 'leuchte, wifi, 5.5' where sku <> 'L'`)
  for (const [q, first] of [
    ['lamp', 'L'],
    ['LAMP', 'L'],
    ['leuchte', 'L'],
    ['lamp -shade', 'L'],
    ['wi-fi lamp (5.5)', 'W'],
    ['wifi lamp 5,5', 'W'],
  ] as const) {
    assert.equal((await read(`/products?${new URLSearchParams({ q })}`)).data[0]?.sku, first, q)
  }
  for (const [q, more] of [
    ['lamp', 'category=lamps'],
    ['lamp', 'min_price=2'],
    ['lamp -beside', 'collapse=group'],
  ] as const) {
    assert.ok(!(await read(`/products?${new URLSearchParams({ q })}&${more}&limit=1`)).data.some(({ sku }) => sku === 'W'), more)
  }
  assert.notEqual((await read('/products?q=lam')).data[0]?.sku, 'L', 'it is not the whole name')
})

test('excluded products take no place from products whose whole name is the search', async (t) => {
  t.after(() => store.pool.query('delete from products'))
  const excluded = Array.from({ length: NAMED + 1 }, (_, age) => ({ sku: `X${age}`, name: 'Lamp', group: 'blue', age }))
  const others = Array.from({ length: 2 * CANDIDATES }, (_, index) => ({ sku: `N${index}`, name: `Lamp shade ${index}`, age: 100 + index }))
  await insert([...excluded, ...others, { sku: 'L', name: 'Lamp', age: 10_000 }])
  await store.pool.query(`update products set description = 'blue' where sku like 'X%'`)
  assert.equal((await read('/products?q=lamp+-blue')).data[0]?.sku, 'L')
})

test('a walk by relevance shows each unchanged product and group once, those with the name first, while others change', async () => {
  const step = fc.record({
    product: fc.nat(COUNT - 1),
    age: fc.nat(COUNT),
    how: fc.constantFrom('name', 'unname', 'archive', 'add', 'add old', 'add new'),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 9, max: 60 }),
      fc.constantFrom('next', 'prev'),
      fc.boolean(),
      // The products that have the name, and the group of each of the others.
      fc.uniqueArray(fc.nat(COUNT - 1), { maxLength: 30 }),
      fc.integer({ min: 2, max: COUNT }),
      fc.array(fc.array(step, { maxLength: 4 }), { maxLength: 12 }),
      async (limit, direction, isCollapsed, named, groups, turns) => {
        await store.pool.query('delete from products')
        const groupOf = (index: number) => (isCollapsed && index % 3 === 0 ? `g${index % groups}` : null)
        await insert(
          Array.from({ length: COUNT }, (_, age) => ({
            sku: `P${age}`,
            name: named.includes(age) ? 'Lamp' : `Shade ${age}`,
            age,
            group: groupOf(age),
          })),
        )
        const touched = new Set<string>()
        const keyOf = ({ sku, group }: { sku: string; group: string | null }) => group ?? sku
        const seen: Listed[] = []
        let path: string | undefined = `/products?q=lamp&limit=${limit}${isCollapsed ? '&collapse=group' : ''}`
        if (direction === 'prev') {
          for (let page = await read(path); page.next !== undefined; page = await read(page.next)) path = page.next
        } else {
          const { data } = await read(`/products?q=lamp&limit=100${isCollapsed ? '&collapse=group' : ''}`)
          const newest = named.toSorted((a, b) => a - b).slice(0, NAMED)
          const first = new Set(newest.map((index) => keyOf({ sku: `P${index}`, group: groupOf(index) })))
          const lastNamed = data.findLastIndex(({ name }) => name === 'Lamp')
          assert.ok(data.slice(0, lastNamed + 1).every(({ name }) => name === 'Lamp'))
          assert.deepEqual(first.difference(new Set(data.slice(0, lastNamed + 1).map(keyOf))), new Set())
        }
        for (let turn = 0; path !== undefined; turn++) {
          const page: Awaited<ReturnType<typeof read>> = await read(path)
          seen.push(...page.data)
          path = direction === 'prev' ? page.prev : page.next
          assert.ok(seen.length < 10 * COUNT, 'the walk ends')
          for (const [index, { product, age, how }] of (turns[turn] ?? []).entries()) {
            if (how.startsWith('add')) {
              const offset = how === 'add old' ? COUNT : how === 'add new' ? -COUNT : 0
              await insert([{ sku: `A${turn}-${index}`, name: 'Lamp', age: age + offset }])
              continue
            }
            touched.add(groupOf(product) ?? `P${product}`)
            if (how === 'archive') await store.pool.query('update products set archived_at = now() where sku = $1', [`P${product}`])
            else await store.pool.query('update products set name = $2 where sku = $1', [`P${product}`, how === 'name' ? 'Lamp' : 'Shade'])
          }
        }
        const isCalm = (key: string) => !touched.has(key) && !key.startsWith('A')
        const calm = seen.map(keyOf).filter(isCalm)
        const wanted = new Set(Array.from({ length: COUNT }, (_, index) => groupOf(index) ?? `P${index}`).filter(isCalm))
        assert.deepEqual(calm.toSorted(), [...wanted].toSorted())
      },
    ),
    { numRuns: 25 },
  )
})
