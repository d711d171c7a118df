import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { collectLog } from '../../test/logs.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { runScheduledChanges } from '../../test/scheduled-changes.ts'
import { startStore } from '../../test/store.ts'
import { createScheduledChanges } from './apply-due-changes.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
const ada = await store.register()
const HOUR = 3_600_000
let lastSku = 0

const inHours = (hours: number) => new Date(Date.now() + hours * HOUR).toISOString()
const call = (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object) =>
  store.call(method, path, { token, headers: { 'if-match': '*' }, ...(body && { body }) })
async function create(changes: object) {
  const body = { sku: `PUB-${++lastSku}`, name: 'A quokka', category: 'Quokkas', price: { amount: 1_000, currency: 'EUR' }, ...changes }
  const created = await call('POST', '/admin/products', body)
  assert.equal(created.status, 201, created.text)
  return created.json
}
const patch = async (id: string, body: object) => {
  const changed = await call('PATCH', `/admin/products/${id}`, body)
  assert.equal(changed.status, 200, changed.text)
  return changed.json
}
const order = (id: string) => store.call('POST', '/orders', { token: ada.token, body: { items: [{ product_id: id, quantity: 1 }] } })
const withheld = async () => (await call('GET', '/admin/products?limit=100')).json.data.map((product: { id: string }) => product.id)

async function importLine({ sku, name, price }: { sku: string; name: string; price: object }, changes: object): Promise<string> {
  const raw = JSON.stringify({ sku, name, category: 'Quokkas', price, ...changes })
  const headers = { 'content-type': 'application/x-ndjson' }
  return (await store.call('POST', '/admin/products/import', { token, raw, headers })).text
}

/** Simulates the passing of time for a product by moving its times into the past. */
async function pass(id: string, hours: number): Promise<void> {
  const tx = await store.pool.connect()
  await tx.query('begin')
  await tx.query('set local session_replication_role = replica')
  await tx.query(
    `update products set published_at = published_at - $2 * interval '1 hour', unpublished_at = unpublished_at - $2 * interval '1 hour',
       changes_at = changes_at - $2 * interval '1 hour'
     where id = $1`,
    [id, hours],
  )
  await tx.query('commit')
  tx.release()
}
const runLoops = (count = 1) => runScheduledChanges(store.pool, count)
const eventsOf = async (id: string) =>
  (await store.pool.query<{ type: string }>(`select type from product_events where product_id = $1 order by version`, [id])).rows.map(
    ({ type }) => type,
  )

/** All places of the shop show the product, or none does. A process learns a change within a second. */
async function assertInShop(product: { id: string; slug: string; sku: string }, expected: boolean): Promise<void> {
  const agree = async () => (await shownIn(product)).every((each) => each === expected)
  await eventually(agree, { what: `${product.sku} is ${expected ? '' : 'not '}in the shop`, timeoutMs: 20_000 })
}
async function shownIn({ id, slug, sku }: { id: string; slug: string; sku: string }): Promise<boolean[]> {
  const lists = ['/products?limit=100', '/products?q=quokka&limit=100', '/products?category=Quokkas&limit=100']
  const shown = await Promise.all(
    lists.map(async (path) => (await store.call('GET', path)).json.data.some((each: { id: string }) => each.id === id)),
  )
  const pages = await Promise.all(
    [`/products/${id}`, `/products/by-slug/${slug}`].map(async (path) => (await store.call('GET', path)).status),
  )
  const feed = (await store.call('GET', '/feeds/products.ndjson')).text.includes(`"${sku}"`)
  const quote = await store.call('POST', '/orders/quote', { token: ada.token, body: { items: [{ product_id: id, quantity: 1 }] } })
  return [...shown, ...pages.map((status) => status === 200), feed, quote.status === 200]
}

test('a draft is nowhere in the shop, and can be edited, stocked and published', async () => {
  const draft = await create({ status: 'draft', stock: 3 })
  assert.deepEqual([draft.status, draft.published_at, draft.unpublished_at], ['draft', null, null])
  await assertInShop(draft, false)
  assertProblem(await order(draft.id), 422, 'unknown_product')
  assert.ok((await withheld()).includes(draft.id))
  await patch(draft.id, { name: 'A quokka in a hat' })
  const counted = await call('PATCH', `/admin/products/${draft.id}`, { description: 'Small.' })
  assert.equal(counted.json.description, 'Small.')
  assert.equal((await call('GET', `/admin/products/${draft.id}/stock`)).json.available, 3)
  await patch(draft.id, { status: 'active' })
  await assertInShop(draft, true)
  assert.ok(!(await withheld()).includes(draft.id))
  assert.equal((await order(draft.id)).status, 201)
  await patch(draft.id, { status: 'draft' })
  await assertInShop(draft, false)
  assert.deepEqual(await eventsOf(draft.id), [
    'product.created',
    'product.updated',
    'product.updated',
    'product.restored',
    'product.archived',
  ])
})

test('a product enters and leaves the shop at its times, with one event and one activity, also if two processes run', async () => {
  const product = await create({ published_at: inHours(1), unpublished_at: inHours(3) })
  await assertInShop(product, false)
  const before = (await store.call('GET', '/products?limit=1')).headers.etag
  await pass(product.id, 2)
  await runLoops(2)
  await assertInShop(product, true)
  assert.notEqual((await store.call('GET', '/products?limit=1')).headers.etag, before)
  await pass(product.id, 2)
  await runLoops(2)
  await assertInShop(product, false)
  assert.deepEqual(await eventsOf(product.id), ['product.created', 'product.restored', 'product.archived'])
  const { rows } = await store.pool.query(
    `select action, actor_type, before, after from activities where subject_id = $1 and action <> 'createProduct' order by id`,
    [product.id],
  )
  const by = { action: 'scheduled change', actor_type: 'system' }
  assert.deepEqual(rows, [
    { ...by, before: { is_listed: false }, after: { is_listed: true } },
    { ...by, before: { is_listed: true }, after: { is_listed: false } },
  ])
})

test('an order that arrives after the scheduled time and before the change is decided by the scheduled time', async () => {
  const leaving = await create({ unpublished_at: inHours(1) })
  assert.equal((await order(leaving.id)).status, 201)
  await pass(leaving.id, 2)
  assertProblem(await order(leaving.id), 422, 'unknown_product')
  const coming = await create({ published_at: inHours(1) })
  assertProblem(await order(coming.id), 422, 'unknown_product')
  await pass(coming.id, 2)
  assert.equal((await order(coming.id)).status, 201)
  assert.deepEqual(await eventsOf(coming.id), ['product.created', 'product.restored'])
})

test('if many products become due while no process runs, all are changed later', async () => {
  const sku = (index: number) => `MANY-${index}`
  const line = (index: number) =>
    JSON.stringify({ sku: sku(index), name: sku(index), category: 'Many', price: { amount: 1, currency: 'EUR' }, published_at: inHours(1) })
  const body = Array.from({ length: 450 }, (_, index) => line(index)).join('\n')
  await store.call('POST', '/admin/products/import', { token, raw: body, headers: { 'content-type': 'application/x-ndjson' } })
  await store.pool.query(`do $$ begin
    set local session_replication_role = replica;
    update products set published_at = now() - interval '1 day', changes_at = now() - interval '1 day' where sku like 'MANY-%';
  end $$`)
  await runLoops(2)
  const { rows } = await store.pool.query(`select count(*)::int as listed from products where sku like 'MANY-%' and archived_at is null`)
  assert.deepEqual(rows, [{ listed: 450 }])
})

test('archiving ends the schedule, and an import without the columns keeps it', async () => {
  const archived = await create({ published_at: inHours(1) })
  assert.equal((await call('DELETE', `/admin/products/${archived.id}`)).status, 204)
  await pass(archived.id, 2)
  await runLoops()
  await assertInShop(archived, false)
  assert.notEqual((await call('GET', `/admin/products/${archived.id}`)).json.archived_at, null)
  const draft = await create({ status: 'draft' })
  const line = { sku: draft.sku, name: 'Another quokka', price: draft.price }
  const imported = (changes: object) => importLine(line, changes)
  assert.match(await imported({}), /"updated"/)
  assert.match(await imported({}), /"unchanged"/)
  await assertInShop(draft, false)
  assert.match(await imported({ status: 'active' }), /"updated"/)
  await assertInShop(draft, true)
  assert.match(await imported({ published_at: inHours(2) }), /"updated"/)
  assert.match(await imported({}), /"unchanged"/)
  await assertInShop(draft, false)
  assert.match(await imported({ published_at: null }), /"updated"/)
  await assertInShop(draft, true)
})

test('a draft keeps its category when the category is renamed', async () => {
  const draft = await create({ status: 'draft', category: 'Marsupials' })
  await store.pool.query(`update categories set name = 'Marsupials of old', renamed_at = now() where name = 'Marsupials'`)
  await patch(draft.id, { status: 'active' })
  const { json } = await store.call('GET', `/products/${draft.id}`)
  assert.deepEqual(
    json.categories.map(({ name }: { name: string }) => name),
    ['Marsupials of old'],
  )
})

test('a category that has only drafts is not deleted, and a category that has only archived products is', async () => {
  const draft = await create({ status: 'draft', category: 'Wombats' })
  const { rows } = await store.pool.query(`select id from categories where name = 'Wombats'`)
  assertProblem(await call('DELETE', `/admin/categories/${rows[0].id}`), 409, 'category_not_empty')
  const { json } = await call('GET', `/admin/products/${draft.id}`)
  assert.equal(json.categories.length, 1)
  await call('DELETE', `/admin/products/${draft.id}`)
  assert.equal((await call('DELETE', `/admin/categories/${rows[0].id}`)).status, 204)
})

test('a draft whose category was renamed moves to another category that now has the former name', async () => {
  const draft = await create({ status: 'draft', category: 'Numbats' })
  await store.pool.query(`update categories set name = 'Numbats of old' where name = 'Numbats'`)
  assert.equal((await call('POST', '/admin/categories', { name: 'Numbats' })).status, 201)
  const { json } = await call('PATCH', `/admin/products/${draft.id}`, { category: 'Numbats' })
  assert.deepEqual([json.category, json.categories.map(({ name }: { name: string }) => name)], ['Numbats', ['Numbats']])
})

test('importing an archived product sells it again if its end has passed, and an end before the stored beginning is refused', async () => {
  const ended = await create({ unpublished_at: inHours(1) })
  await pass(ended.id, 2)
  await runLoops()
  assert.equal((await call('DELETE', `/admin/products/${ended.id}`)).status, 204)
  assert.match(await importLine(ended, {}), /"updated"/)
  await assertInShop(ended, true)
  const planned = await create({ published_at: inHours(2) })
  assert.match(await importLine(planned, { unpublished_at: inHours(1) }), /unpublished_at must be after published_at/)
  for (const noTime of ['2126-11-29 09:00', '2126-11-29T09:00', '1'])
    assert.match(await importLine(planned, { published_at: noTime }), /published_at must be null or a time/, noTime)
  assert.match(await importLine(planned, { unpublished_at: inHours(3) }), /"updated"/)
})

test('a change that fails is skipped and logged, and all others are made', async () => {
  const products = [
    await create({ published_at: inHours(1) }),
    await create({ published_at: inHours(1) }),
    await create({ published_at: inHours(1) }),
  ]
  for (const { id } of products) await pass(id, 2)
  const failing = products[1].id
  await store.pool.query(`create function refuse_change() returns trigger language plpgsql as $$ begin raise 'no'; end $$`)
  await store.pool.query(`create trigger refuse_change before update on products for each row when (old.sku = '${products[1].sku}')
    execute function refuse_change()`)
  const { logger, entries: logged } = collectLog<{ productId?: string }>('error')
  const loop = createScheduledChanges({ pool: store.pool, logger })
  await loop.start()
  await assertInShop(products[0], true)
  await assertInShop(products[2], true)
  await loop.stop()
  await store.pool.query('drop function refuse_change cascade')
  assert.deepEqual(
    logged.map(({ productId }) => productId),
    [failing],
  )
  await runLoops()
  await assertInShop(products[1], true)
})

test('refuses an end that is not after the beginning, and a time that the database cannot store', async () => {
  const named = { sku: 'NO', name: 'No', category: 'No', price: { amount: 1, currency: 'EUR' } }
  for (const [times, detail] of [
    [{ published_at: inHours(2), unpublished_at: inHours(1) }, /after published_at/],
    [{ published_at: '0000-01-01T00:00:00Z' }, /./],
    [{ published_at: '2026-12-31T23:59:60Z' }, /./],
  ] as const) {
    const answer = await call('POST', '/admin/products', { ...named, ...times })
    assertProblem(answer, 422, 'invalid_body')
    assert.match(answer.text, detail)
  }
  const product = await create({ published_at: inHours(2) })
  assertProblem(await call('PATCH', `/admin/products/${product.id}`, { unpublished_at: inHours(1) }), 422, 'invalid_body')
})
