import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { recordRun } from '../src/audit/audit-runs.ts'
import { makeKey } from './api-keys.ts'
import { addBuyers, type Buyer } from './buyers.ts'
import { assertProblem, faults } from './problem.ts'
import { startStore } from './store.ts'

interface Parameter {
  in: string
  name: string
  schema: { maximum?: number }
}

/** A list with rows that a page of one or two does not show whole. */
interface Seeded {
  path: string
  token?: string
  /** What it sorts by; newest first unless `isAscending`. */
  sort?: string
  isAscending?: boolean
  /** A filter that leaves some of the rows, where there are filters. */
  filter?: string
  /** The same list of another owner or parent. */
  other?: { path: string; token?: string }
}

const document: { paths: Record<string, Record<string, { parameters?: Parameter[] }>> } = JSON.parse(
  readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'),
)
const parametersOf = new Map(
  Object.entries(document.paths).flatMap(([path, { get }]) =>
    get?.parameters?.some(({ name }) => name === 'cursor') === true ? [[path, get.parameters] as const] : [],
  ),
)
const store = await startStore({ after })
const [operator, ...others] = (await addBuyers(store, 4, 'admin')) as [Buyer, ...Buyer[]]
const { token } = operator
const [ada, bob] = [await store.register(), await store.register()]
for (const name of ['anna', 'alan']) await store.register({ email: `${name}@example.com` })
const [lamp, vase] = [await addProduct('A lamp'), await addProduct('A vase'), await addProduct('A chair')]

async function send(method: string, path: string, body: object, by = token, headers: Record<string, string> = {}) {
  const answer = await store.call(method, path, { token: by, body, headers })
  assert.ok(answer.status < 300, `${method} ${path} ${answer.text}`)
  return answer.json
}

async function addProduct(name: string): Promise<{ id: string }> {
  return send('POST', '/admin/products', {
    sku: randomUUID(),
    name,
    category: 'things',
    stock: 100,
    price: { amount: 500, currency: 'EUR' },
  })
}

for (const sku of ['DRAFT-1', 'DRAFT-2', 'DRAFT-3'])
  await send('POST', '/admin/products', { sku, name: sku, category: 'Drafts', price: { amount: 1, currency: 'EUR' }, status: 'draft' })
for (const name of ['Old 1', 'Old 2']) {
  const { id } = await addProduct(name)
  assert.equal((await store.call('DELETE', `/admin/products/${id}`, { token })).status, 204)
}
const orders: { id: string }[] = []
for (const { id } of [lamp, vase]) {
  for (let i = 1; i <= 3; i++) {
    await send('PATCH', `/admin/products/${id}`, { price: { amount: 500 + i, currency: 'EUR' } }, token, { 'if-match': '*' })
    await send('POST', `/admin/products/${id}/stock/adjustments`, { delta: i, reference: `D${i}` })
  }
}
for (const buyer of [ada, bob])
  for (let i = 0; i < 3; i++) orders.push(await send('POST', '/orders', { items: [{ product_id: lamp.id, quantity: 1 }] }, buyer.token))
await send('POST', `/admin/orders/${orders[0]?.id}/transitions`, { to: 'confirmed' })
for (const { id } of [orders[0], orders[1]] as { id: string }[])
  for (const text of ['one', 'two', 'three']) await send('POST', `/admin/orders/${id}/notes`, { text })
for (const { email, password } of [ada, ada, bob, bob]) await store.call('POST', '/auth/login', { body: { email, password } })
for (const name of ['One', 'Two', 'Three']) await makeKey(store, ['orders:read'], { name })
for (const kind of ['verify', 'verify', 'replay'] as const) await recordRun(store.pool, { kind, command: kind, startedBy: null } as never)
await store.pool.query(
  `insert into email_deliveries (event_id, order_id, user_id, event_type, status, queued_at)
  select id || '.' || n, id, user_id, 'storefront.order.created', case n when 1 then 'sent' else 'queued' end, now() - n / 2 * interval '1 minute'
  from orders cross join generate_series(1, 3) as n where id = $1`,
  [orders[0]?.id],
)
const webhooks = [randomUUID(), randomUUID(), randomUUID()].toSorted()
await store.pool.query(
  `insert into webhook_endpoints (id, url, sealed_secret) select id, 'https://' || id || '.example', id from unnest($1::uuid[]) as id`,
  [webhooks],
)
await store.pool.query(
  `with event as (
    insert into webhook_events (event_id, type, body)
    select gen_random_uuid() || '.' || n, 'order.placed', '{}' from generate_series(1, 5) as n
    returning event_id, substring(event_id from '[0-9]+$')::int as n
  )
  insert into webhook_deliveries (endpoint_id, event_id, status, queued_at)
  select endpoint_id, event_id, case n when 1 then 'failed' else 'delivered' end, now() - n / 2 * interval '1 minute'
  from event, unnest($1::uuid[]) as endpoint_id`,
  [webhooks],
)

/** Every list of the document: with a new one the first test is red until it has a row here. */
const LISTS: Record<string, Seeded> = {
  '/products': { path: '/products', sort: 'created_at', filter: 'min_price=501' },
  '/orders': { path: '/orders', sort: 'number', token: ada.token, filter: 'status=pending', other: { path: '/orders', token: bob.token } },
  '/auth/sessions': { path: '/auth/sessions', sort: 'created_at', token: ada.token, other: { path: '/auth/sessions', token: bob.token } },
  '/admin/activities': { path: '/admin/activities', sort: 'id', token, filter: 'action=createProduct' },
  '/admin/api-keys': { path: '/admin/api-keys', sort: 'created_at', token },
  '/admin/operators': { path: '/admin/operators', sort: 'id', isAscending: true, token: others[0]?.token as string },
  '/admin/customers': { path: '/admin/customers', sort: 'id', token, filter: 'email=a' },
  '/admin/orders': { path: '/admin/orders', sort: 'number', token, filter: 'status=pending' },
  '/admin/orders/{id}/notes': ofParent((id) => `/admin/orders/${id}/notes`, orders, 'created_at'),
  '/admin/products': { path: '/admin/products', sort: 'id', token, filter: 'state=archived' },
  '/admin/products/{id}/prices': { ...ofParent((id) => `/admin/products/${id}/prices`, [lamp, vase], 'since'), filter: 'currency=USD' },
  '/admin/products/{id}/stock/adjustments': ofParent((id) => `/admin/products/${id}/stock/adjustments`, [lamp, vase], 'created_at'),
  '/admin/mails': { path: '/admin/mails', sort: 'queued_at', token, filter: 'status=queued' },
  '/admin/webhooks': { path: '/admin/webhooks', sort: 'id', isAscending: true, token },
  '/admin/webhooks/{id}/deliveries': {
    ...ofParent(
      (id) => `/admin/webhooks/${id}/deliveries`,
      webhooks.map((id) => ({ id })),
      'queued_at',
    ),
    filter: 'status=delivered',
  },
  '/admin/audits': { path: '/admin/audits', sort: 'started_at', token, filter: 'kind=verify' },
}

function ofParent(pathOf: (id: string) => string, [one, two]: readonly { id: string }[], sort: string): Seeded {
  return { path: pathOf(one?.id ?? ''), token, sort, other: { path: pathOf(two?.id ?? ''), token } }
}

const get = ({ path, token: by }: { path: string; token?: string }, query: string, headers: Record<string, string> = {}) =>
  store.call('GET', `${path}?${query}`, { ...(by === undefined ? {} : { token: by }), headers })

/** All items, by following `Link` from a first page of `query`. */
async function walk(list: Seeded, query: string): Promise<unknown[]> {
  const items: unknown[] = []
  for (let next: string | undefined = query, pages = 0; next !== undefined; pages++) {
    assert.ok(pages < 100, 'the list does not end')
    const { status, json, headers, text } = await get(list, next)
    assert.equal(status, 200, text)
    assert.ok(pages === 0 || json.data.length > 0, 'a next page has items')
    items.push(...json.data)
    const links = (headers.link ?? '').matchAll(/<([^<>\s]+)>; rel="next"/g).map(([, address = '']) => new URL(address))
    const [link] = [...links]
    assert.deepEqual([json.has_more, json.next_cursor], [link !== undefined, link?.searchParams.get('cursor') ?? null])
    assert.equal(link?.origin ?? 'http://localhost:3000', 'http://localhost:3000')
    assert.equal(link?.pathname ?? list.path, list.path, 'the link leads to the same list')
    next = link?.search.slice(1)
  }
  return items
}

test('every list of the document has rows here', () => {
  assert.deepEqual(Object.keys(LISTS).toSorted(), [...parametersOf.keys()].toSorted())
})

for (const [name, list] of Object.entries(LISTS)) {
  const parameters = parametersOf.get(name) ?? []
  const maximum = parameters.find((parameter) => parameter.name === 'limit')?.schema.maximum ?? 0

  test(`GET ${name} takes a limit within its bounds, and no unknown parameter`, async () => {
    for (const limit of [0, -1, 1.5, maximum + 1, 'x', ''])
      assert.deepEqual(faults(assertProblem(await get(list, `limit=${limit}`), 400, 'invalid_query', `${limit}`)), ['limit'])
    assert.deepEqual(faults(assertProblem(await get(list, 'unknown=1'), 400, 'invalid_query')), ['unknown'])
  })

  test(`GET ${name} shows each item once over its pages, also with a filter`, async () => {
    const filters = ['', ...(list.filter === undefined ? [] : [`&${list.filter}`])]
    for (const filter of filters) {
      const whole = await get(list, `limit=${maximum}${filter}`)
      assert.equal(whole.status, 200, whole.text)
      const { data, has_more, next_cursor } = whole.json
      assert.ok(filter !== '' || data.length >= 3, `${data.length} rows`)
      assert.deepEqual([has_more, next_cursor], [false, null])
      const [column = '', value] = (list.filter ?? '').split('=')
      if (filter !== '' && ['status', 'kind', 'action'].includes(column))
        assert.deepEqual([...new Set(data.map((item: Record<string, unknown>) => item[column]))], [value])
      const keys = data.map((item: Record<string, unknown>) => item[list.sort ?? ''])
      const sorted = keys.toSorted((a: string | number, b: string | number) => (a < b ? -1 : a > b ? 1 : 0))
      if (list.sort !== undefined && filter === '') assert.deepEqual(keys, list.isAscending === true ? sorted : sorted.toReversed())
      for (const limit of [1, 2]) {
        assert.equal((await get(list, `limit=${limit}${filter}`)).json.data.length, Math.min(limit, data.length))
        assert.deepEqual(await walk(list, `limit=${limit}${filter}`), data, `limit ${limit}${filter}`)
      }
    }
  })

  test(`GET ${name} refuses a cursor that is garbled, or of another list, owner or filter`, async () => {
    const refuse = async (to: { path: string; token?: string }, query: string) =>
      assert.deepEqual(faults(assertProblem(await get(to, query), 400, 'invalid_cursor', `${to.path} ${query}`)), ['cursor'])
    const cursor: string = (await get(list, 'limit=1')).json.next_cursor
    assert.equal((await get(list, `cursor=${cursor}`)).status, 200)
    const changed = `${cursor.slice(0, -1)}${cursor.endsWith('A') ? 'B' : 'A'}`
    for (const garbled of ['x', 'AAAA', changed, cursor.slice(1), `${cursor}A`, `${cursor}=`]) await refuse(list, `cursor=${garbled}`)
    assertProblem(await get(list, 'cursor='), 400, 'invalid_query')
    assertProblem(await get(list, `cursor=${'A'.repeat(2_001)}`), 400, 'invalid_query')
    for (const [other, foreign] of Object.entries(LISTS)) if (other !== name) await refuse(foreign, `cursor=${cursor}`)
    if (list.other !== undefined) await refuse(list.other, `cursor=${cursor}`)
    if (list.filter !== undefined) await refuse(list, `${list.filter}&cursor=${cursor}`)
  })

  test(`GET ${name} answers 304 to those who have the page`, async () => {
    const { headers } = await get(list, 'limit=2')
    assert.ok(headers.etag !== undefined)
    if (list.token !== undefined) assert.equal(headers['cache-control'], 'no-store')
    const again = await get(list, 'limit=2', { 'if-none-match': headers.etag })
    assert.deepEqual([again.status, again.text, again.headers.etag], [304, '', headers.etag])
    assert.equal((await get(list, 'limit=1', { 'if-none-match': headers.etag })).status, 200)
  })
}
