import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addBuyer, addBuyers } from '../../test/buyers.ts'
import { addProductsForLargeOrders, placeLargeOrder } from '../../test/large-orders.ts'
import { startStore } from '../../test/store.ts'
import { createPool } from '../db/pool.ts'
import { pagingOf } from '../http/pagination.ts'
import { listOrders } from './list-orders.ts'
import { NumberPosition, PAGE_BYTES } from './order-page.ts'

const store = await startStore({ after })
const products = await addProductsForLargeOrders(store)
const [[ada, bob], operator] = await Promise.all([addBuyers(store, 2), addBuyer(store, 'admin')])

// Numbers of lines per order. Another customer places an order after each of these.
const SIZES = [1_000, 1, 1_000, 999, 1_000, 2, 1, 3, 1_000, 400, 400, 400, 400, 1_000, 1_000, 1]
const placed: { adas: string[]; all: string[] } = { adas: [], all: [] }
for (const lines of SIZES) {
  for (const [buyer, size] of [
    [ada, lines],
    [bob, 300],
  ] as const) {
    const id = await placeLargeOrder(store, buyer?.token ?? '', products, size)
    placed.all.unshift(id)
    if (buyer === ada) placed.adas.unshift(id)
  }
}

const lists = [
  { path: '/orders', token: ada?.token ?? '', filters: '', expected: placed.adas },
  { path: '/orders', token: ada?.token ?? '', filters: '&status=pending', expected: placed.adas },
  { path: '/admin/orders', token: operator.token, filters: '', expected: placed.all },
  { path: '/admin/orders', token: operator.token, filters: `&user_id=${ada?.id}&status=pending`, expected: placed.adas },
  { path: '/admin/orders', token: operator.token, filters: `&product_id=${products[0]}`, expected: placed.all },
]

interface Shown {
  id: string
  items: unknown[]
}

async function readPages(list: (typeof lists)[number], limit: number): Promise<Shown[][]> {
  const pages: Shown[][] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const target: string = `${list.path}?limit=${limit}${list.filters}${cursor && `&cursor=${cursor}`}`
    const { status, json, text } = await store.call('GET', target, { token: list.token })
    assert.equal(status, 200, text)
    pages.push(json.data)
    cursor = json.next_cursor
    assert.equal(json.has_more, cursor !== null)
    assert.ok(pages.length < 50, 'the list does not end')
  }
  return pages
}
const bytesOf = (page: Shown[]) => page.reduce((bytes, order) => bytes + Buffer.byteLength(JSON.stringify(order)), 0)

for (const list of lists) {
  const name = `${list.path}?${list.filters.replaceAll(/[0-9a-f-]{36}/g, '…')}`
  test(`returns each order once, newest first, over pages of large orders of ${name}`, async () => {
    for (const limit of [1, 3, list.expected.length, 100]) {
      const pages = await readPages(list, limit)
      assert.deepEqual(
        pages.flat().map(({ id }) => id),
        list.expected,
      )
      assert.ok(pages.every((page) => page.length > 0 && page.length <= limit))
    }
  })

  test(`ends a page with the order that reaches its size, and not before, for orders of ${name}`, async () => {
    const pages = await readPages(list, 100)
    assert.ok(pages.length > 1)
    for (const [index, page] of pages.entries()) {
      assert.ok(bytesOf(page.slice(0, -1)) < PAGE_BYTES, `page ${index} continues with ${bytesOf(page.slice(0, -1))} bytes`)
      assert.ok(index === pages.length - 1 || bytesOf(page) >= PAGE_BYTES, `page ${index} ends with ${bytesOf(page)} bytes`)
    }
  })
}

test('leaves out only an order that stops matching because it is moved while the page is read', async () => {
  const [, , moved = ''] = placed.adas
  let statements = 0
  const moving = new Proxy(store.pool, {
    get: (pool, name) => {
      if (name !== 'query') return Reflect.get(pool, name, pool)
      return async (statement: never) => {
        // The first statement finds the orders, and the second one reads the large ones.
        if (++statements === 2) assert.equal((await store.call('POST', `/orders/${moved}/cancel`, { token: ada?.token ?? '' })).status, 200)
        return pool.query(statement)
      }
    },
  })
  const page = await listOrders(moving, ada?.id ?? '', { status: 'pending' }, pagingOf([], { limit: 4 }, NumberPosition), [])
  const ids = page.orders.map((order) => JSON.parse(order).id)
  assert.deepEqual(
    ids,
    placed.adas.slice(0, 4).filter((id) => id !== moved),
  )
  assert.notEqual(page.next_cursor, null)
})

test('shows an order whose products somebody has emptied', async () => {
  await store.pool.query(`update orders set product_ids = '{}' where id = $1`, [placed.adas[0]])
  const [page] = await readPages({ path: '/orders', token: ada?.token ?? '', filters: '', expected: [] }, 1)
  assert.deepEqual(
    page?.map(({ id }) => id),
    [placed.adas[0]],
  )
})

test('plans a page once per connection, not once per request', async (t) => {
  const pool = createPool({ url: store.url, size: 1, applicationName: 'test', onError: () => {} })
  t.after(() => pool.end())
  for (const { limit, ...filters } of [{}, { status: 'pending' as const }, { limit: 3 }])
    for (let i = 0; i < 20; i++) await listOrders(pool, ada?.id ?? '', filters, pagingOf([], { limit }, NumberPosition), [])
  const { rows } = await pool.query<{ generic: number }>(
    `select generic_plans::integer as generic from pg_prepared_statements where name like 'list_orders%'`,
  )
  assert.equal(rows.length, 3)
  for (const { generic } of rows) assert.ok(generic >= 10, `planned again in all but ${generic} of 20 requests`)
})
