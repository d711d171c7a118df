import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { pino } from 'pino'
import { startStore } from '../../test/store.ts'
import { createBestSellers } from '../app/best-sellers.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { rollUpOrders } from '../figures/roll-up-orders.ts'
import { Admission } from '../http/admission.ts'
import { readListing } from './product-query.ts'
import { rankBestSellers } from './rank-best-sellers.ts'
import { walkRanking } from './rankings.ts'

const store = await startStore({ after }, { pageCacheBytes: 0 })
// The store computes no figures of earlier orders, and keeps those of the tests.
await store.pool.query(`update figure_progress set filled_from = now() - interval '62 days', changed_at = now()`)
const AT_ONCE = { everyMinutes: 0 }

async function sell(productId: string, units: number): Promise<void> {
  await store.pool.query(
    sql`insert into product_figures (slice, product_id, currency, quantity, revenue)
    values (date_bin('10 minutes', now() - interval '1 day', 'epoch'), ${productId}, 'EUR', ${units}, 1)`,
  )
}

async function ranked(): Promise<string[]> {
  const { json } = await store.call('GET', '/products?sort=best_selling')
  return json.data.map(({ id }: { id: string }) => id)
}

test('all processes together rank best sellers at most every 15 minutes, because each ranking empties page caches', async () => {
  const changes = async () =>
    (await store.pool.query<{ sum: number }>('select sum(changes)::integer as sum from catalogue_versions')).rows[0]?.sum
  const { id: first } = await store.addProduct({ category: 'Young' })
  const { id: second } = await store.addProduct({ category: 'Young' })
  await sell(second, 1)
  await rankBestSellers(store.pool, AT_ONCE)
  await sell(first, 2)
  const before = await changes()
  await Promise.all([rankBestSellers(store.pool), rankBestSellers(store.pool)])
  assert.equal(await changes(), before, 'a ranking is younger than 15 minutes')
  assert.deepEqual(await ranked(), [second, first])
  await store.pool.query(`update product_rankings set created_at = created_at - interval '15 minutes'`)
  await rankBestSellers(store.pool)
  assert.deepEqual(await ranked(), [first, second])
})

test('units of cancelled orders do not count', async () => {
  const [real, pushed] = [await store.addProduct({ category: 'Pushed' }), await store.addProduct({ category: 'Pushed' })]
  const buyer = await store.register()
  const order = async (product: { id: string }, quantity: number) => {
    const body = { items: [{ product_id: product.id, quantity }] }
    const { status, json } = await store.call('POST', '/orders', { token: buyer.token, body })
    assert.equal(status, 201)
    return json.id
  }
  await order(real, 20)
  await order(pushed, 3)
  const cancelled = await order(pushed, 50)
  await rollUpOrders(store.pool)
  await rankBestSellers(store.pool, AT_ONCE)
  assert.deepEqual((await ranked()).slice(0, 2), [pushed.id, real.id])
  assert.equal((await store.call('POST', `/orders/${cancelled}/cancel`, { token: buyer.token })).status, 200)
  await rollUpOrders(store.pool)
  await rankBestSellers(store.pool, AT_ONCE)
  assert.deepEqual((await ranked()).slice(0, 2), [real.id, pushed.id])
})

test('the oldest rankings are replaced first, so none is forgotten while others change in each run', async () => {
  const many = sql`select id from categories where slug like 'many-%'`
  await store.pool.query(
    `insert into categories (id, name, slug) select gen_random_uuid(), 'Many ' || n, 'many-' || n from generate_series(1, 600) as n`,
  )
  await store.pool.query(
    sql`insert into product_rankings (sort, category_id, product_ids)
    select 'best_selling', id, array[gen_random_uuid()] from (${many}) as category order by random()`,
  )
  const waiting = async () => {
    const { rows } = await store.pool.query<{ id: number }>(
      sql`select id from product_rankings where replaced_at is null and product_ids <> '{}' and category_id in (${many}) order by id`,
    )
    return rows.map(({ id }) => id)
  }
  const before = await waiting()
  assert.equal(before.length, 600)
  await rankBestSellers(store.pool, AT_ONCE)
  const left = await waiting()
  assert.ok(left.length > 0, 'a run has a bound')
  assert.deepEqual(left, before.slice(-left.length))
  await rankBestSellers(store.pool, AT_ONCE)
  assert.deepEqual(await waiting(), [])
  await store.pool.query(sql`delete from categories where id in (${many})`)
})

test('a failed ranking is logged as such, and is retried soon', async (t) => {
  const messages: unknown[] = []
  const { promise: isLogged, resolve } = Promise.withResolvers<void>()
  const failing = createBestSellers({
    pool: store.pool,
    firstMs: 0,
    logger: pino(
      { level: 'warn' },
      {
        write(line) {
          messages.push(JSON.parse(line).msg)
          resolve()
        },
      },
    ),
  })
  await store.pool.query(`update product_rankings set created_at = created_at - interval '1 hour'`)
  await store.pool.query('alter table product_figures rename to hidden_figures')
  t.after(() => failing.stop())
  try {
    await failing.start()
    await isLogged
  } finally {
    await store.pool.query('alter table hidden_figures rename to product_figures')
  }
  assert.deepEqual(messages, ['best sellers could not be ranked; that is retried in 1 min'])
})

test('a page of a ranking does not read the groups of earlier places, and costs as much as a search', async (t) => {
  const [groups, variants] = [20, 20]
  await store.pool.query(
    `insert into products (id, sku, name, category, price_amount, price_currency, in_stock, variant_group)
     select md5('far ' || n)::uuid, 'F' || n, 'Far ' || n, 'Far', 100, 'EUR', true, 'far-' || n % ${groups} from generate_series(1, ${groups * variants}) as n`,
  )
  await store.pool.query(
    `insert into product_rankings (sort, category_id, product_ids)
     select 'position', id, array(select md5('far ' || n)::uuid from generate_series(1, ${groups}) as n) from categories where name = 'Far'`,
  )
  await store.pool.query('analyze products')
  await inTransaction(store.pool, async (tx) => {
    // A small table is read as a whole otherwise.
    for (const plan of ['seqscan', 'hashjoin', 'mergejoin']) await tx.query(`set local enable_${plan} = off`)
    const { rows } = await tx.query<{ ids: string[] }>(
      `select array(select md5('far ' || n)::uuid from generate_series(1, ${groups}) as n) as ids`,
    )
    const ranking = { id: 1, productIds: rows[0]?.ids ?? [], groups: [], tag: null }
    const filters = { ...readListing({ sort: 'best_selling' }), categoryIds: null, soldIds: null }
    const from = { value: groups - 1, id: 'ffffffff-ffff-ffff-ffff-ffffffffffff' }
    const view = { languages: [], currency: null }
    const count = async () => {
      const { rows } = await tx.query<{ count: number }>(
        `select (seq_tup_read + idx_tup_fetch)::integer as count from pg_stat_xact_user_tables where relname = 'products'`,
      )
      return rows[0]?.count ?? 0
    }
    const before = await count()
    const last = await walkRanking(tx, { ranking, filters, textQuery: null, isBackward: false, from, count: 100, view })
    assert.equal(last.length, variants)
    const reads = (await count()) - before
    assert.ok(reads < (groups * variants) / 2, `${reads} rows`)
  })

  const admit = t.mock.method(Admission.prototype, 'admit')
  for (const [query, cost] of [
    ['category=far', 'page'],
    ['category=far&sort=position', 'search'],
    ['sort=best_selling&brand=none', 'search'],
  ] as const) {
    admit.mock.resetCalls()
    assert.equal((await store.call('GET', `/products?${query}`)).status, 200)
    assert.deepEqual([...new Set(admit.mock.calls.map(({ arguments: [asked] }) => asked))], [cost], query)
  }
})
