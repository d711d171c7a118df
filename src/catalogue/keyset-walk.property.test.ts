import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { startStore } from '../../test/store.ts'
import { inTransaction } from '../db/transaction.ts'

const store = await startStore({ after })
const COUNT = 60

interface Listed {
  id: string
  price: { amount: number }
}

async function read(path: string): Promise<{ data: Listed[]; next: string | undefined; prev: string | undefined }> {
  const answer = await store.call('GET', path)
  assert.equal(answer.status, 200, answer.text)
  const link = (rel: string) => new RegExp(`<http://localhost:3000([^<>]+)>; rel="${rel}"`).exec(answer.headers.link ?? '')?.[1]
  return { data: answer.json.data, next: link('next'), prev: link('prev') }
}

/** Replaces the ranking of the shop by some of the products. */
async function rank(products: readonly string[], step: number): Promise<void> {
  const ranked = products.filter((_, index) => (index * step) % 3 === 1).toSorted((a, b) => (a.slice(-step) < b.slice(-step) ? -1 : 1))
  await inTransaction(store.pool, async (tx) => {
    // The store ranks by itself, too.
    await tx.query(`select pg_advisory_xact_lock(hashtextextended('storefront best sellers', 0))`)
    await tx.query('update product_rankings set replaced_at = now() where replaced_at is null')
    await tx.query(`insert into product_rankings (sort, product_ids) values ('best_selling', $1)`, [ranked])
  })
}

test('a walk over all pages shows each unchanged product once while other products change', async () => {
  const products: string[] = []
  for (let i = 0; i < COUNT; i++) products.push((await store.addProduct({ amount: (i * 7) % 20, name: `N${i % 9}` })).id)
  const step = fc.record({
    product: fc.nat(COUNT - 1),
    amount: fc.nat(25),
    how: fc.constantFrom('price', 'name', 'archive', 'add', 'rank'),
  })
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('price', '-price', 'name', '-name', 'created_at', '-created_at', 'best_selling'),
      fc.integer({ min: 1, max: 15 }),
      fc.constantFrom('next', 'prev'),
      // The changes between two pages.
      fc.array(fc.array(step, { maxLength: 6 }), { maxLength: 12 }),
      async (sort, limit, direction, turns) => {
        await store.pool.query('update products set archived_at = null where id = any($1)', [products])
        await rank(products, 1)
        const touched = new Set<string>()
        const seen: Listed[] = []
        let path: string | undefined = `/products?limit=${limit}&sort=${sort}`
        if (direction === 'prev') {
          for (let page = await read(path); page.next !== undefined; page = await read(page.next)) path = page.next
        }
        const lastPage = path
        for (let turn = 0; path !== undefined; turn++) {
          const page: Awaited<ReturnType<typeof read>> = await read(path)
          seen.push(...(direction === 'prev' ? page.data.toReversed() : page.data))
          path = direction === 'prev' ? page.prev : page.next
          assert.ok(seen.length < 10 * COUNT, `the walk ends, from ${lastPage}`)
          for (const { product, amount, how } of turns[turn] ?? []) {
            const id = products[product] ?? ''
            if (how === 'add') {
              await store.pool.query('delete from products where id = $1', [(await store.addProduct({ amount })).id])
              continue
            }
            if (how === 'rank') {
              await rank(products, 1 + (amount % 9))
              continue
            }
            touched.add(id)
            if (how === 'price') await store.pool.query('update products set price_amount = $2 where id = $1', [id, amount])
            else if (how === 'name') await store.pool.query('update products set name = $2 where id = $1', [id, `N${amount}`])
            else await store.pool.query('update products set archived_at = now() where id = $1', [id])
          }
        }
        const calm = seen.map(({ id }) => id).filter((id) => !touched.has(id))
        assert.deepEqual(calm.toSorted(), products.filter((id) => !touched.has(id)).sort())
      },
    ),
    { numRuns: 40 },
  )
})

test('a walk during price changes shows each product with an unchanged price once', async () => {
  const calm = await Promise.all(Array.from({ length: 40 }, (_, i) => store.addProduct({ category: 'walk', amount: i })))
  const restless = await Promise.all(Array.from({ length: 40 }, (_, i) => store.addProduct({ category: 'walk', amount: i })))
  const ids = restless.map(({ id }) => id)
  let isWalking = true
  const changing = (async () => {
    while (isWalking) await store.pool.query('update products set price_amount = floor(random() * 60) where id = any($1)', [ids])
  })()
  try {
    for (let walk = 0; walk < 5; walk++) {
      const seen: string[] = []
      for (let path: string | undefined = '/products?category=walk&sort=price&limit=3'; path !== undefined; ) {
        const page: Awaited<ReturnType<typeof read>> = await read(path)
        seen.push(...page.data.map(({ id }) => id))
        path = page.next
      }
      const others = seen.filter((id) => !ids.includes(id))
      assert.deepEqual(
        others,
        calm.map(({ id }) => id),
      )
    }
  } finally {
    isWalking = false
    await changing
  }
})
