import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { addBuyer } from '../../test/buyers.ts'
import { findWaiting } from '../../test/database.ts'
import { eventually } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { type Answer, type CallOptions, startSecondProcess, startStore } from '../../test/store.ts'
import { createPool } from '../db/pool.ts'

const store = await startStore({ after })
const [admin, ada] = [await addBuyer(store, 'admin'), await addBuyer(store)]
const operator = admin.token

const call = (method: string, path: string, options: CallOptions = {}) => store.call(method, path, { token: operator, ...options })
const pathOf = ({ id }: { id: string }, rest = '') => `/admin/products/${id}/stock${rest}`
const read = (product: { id: string }) => call('GET', pathOf(product))
const count = (product: { id: string }, body: object, ifMatch?: string) =>
  call('PUT', pathOf(product), { body, headers: ifMatch === undefined ? {} : { 'if-match': ifMatch } })
const adjust = (product: { id: string }, body: object) => call('POST', pathOf(product, '/adjustments'), { body })
const order = (product: { id: string }, quantity = 1) =>
  store.call('POST', '/orders', { token: ada.token, body: { items: [{ product_id: product.id, quantity }] } })
const kept = async (product: { id: string }) => (await call('GET', pathOf(product, '/adjustments'))).json.data as Record<string, unknown>[]
const isShown = async ({ id }: { id: string }) => (await store.call('GET', `/products/${id}`)).json.in_stock

const UNKNOWN = { id: '01900000-0000-7000-8000-000000000000' }

test("reads a product's stock with a version that is also its strong entity tag", async () => {
  const [lamp, untracked] = [await store.addProduct({ stock: 5 }), await store.addProduct({ stock: null })]
  const answer = await read(lamp)
  assert.deepEqual([answer.status, answer.json], [200, { product_id: lamp.id, available: 5, version: 1 }])
  assert.deepEqual([answer.headers.etag, answer.headers['cache-control']], ['"1"', 'no-store'])
  assert.deepEqual((await call('GET', pathOf({ id: lamp.id.toUpperCase() }))).json, answer.json)
  assert.equal((await read(untracked)).json.available, null)
  assertProblem(await read(UNKNOWN), 404, 'not_found')
})

test('refuses a reference with an invisible character', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  for (const reference of ['DN\u200b-1', 'DN-1\u202e', 'DN\t1', '\u3164']) {
    assertProblem(await adjust(lamp, { delta: 1, reference }), 422, 'invalid_body', reference)
    assertProblem(await count(lamp, { stock: 6, expected: 5, reference }), 422, 'invalid_body', reference)
  }
  for (const reference of ['x', 'DN 1 – é']) assert.equal((await adjust(lamp, { delta: 1, reference })).status, 201)
})

test('stores a counted stock, and whether the product is in stock', async () => {
  const lamp = await store.addProduct({ stock: 2 })
  let { etag = '' } = (await read(lamp)).headers
  for (const [index, stock] of [0, 7, null, 0].entries()) {
    const answer = await count(lamp, { stock }, etag)
    assert.deepEqual([answer.status, answer.json], [200, { product_id: lamp.id, available: stock, version: index + 2 }])
    etag = answer.headers.etag ?? ''
    assert.equal(etag, `"${index + 2}"`)
    assert.deepEqual((await read(lamp)).json, answer.json)
    assert.equal(await isShown(lamp), stock !== 0)
  }
  assertProblem(await count(UNKNOWN, { stock: 1 }, '*'), 404, 'not_found')
})

test('refuses a count that was made before three sales, even if returns restored the number', async () => {
  const lamp = await store.addProduct({ stock: 10 })
  const { headers } = await read(lamp)
  const sold = await order(lamp, 3)
  assert.equal(sold.status, 201, sold.text)
  assert.equal((await store.call('POST', `/orders/${sold.json.id}/cancel`, { token: ada.token })).status, 200)
  const refused = await count(lamp, { stock: 12 }, headers.etag)
  const problem = assertProblem(refused, 412, 'precondition_failed')
  assert.deepEqual([problem.available, problem.version, refused.headers.etag], [10, 3, '"3"'])
  assert.deepEqual(await kept(lamp), [])
  assert.equal((await count(lamp, { stock: 12 }, refused.headers.etag)).status, 200)
  assert.deepEqual(await store.readStock(lamp), [12])
})

test('each sale and each return increments the version, also the sale of the last unit', async () => {
  const lamp = await store.addProduct({ stock: 3 })
  const versions: number[] = []
  const look = async (answer: Answer) => {
    assert.ok(answer.status < 300, answer.text)
    versions.push((await read(lamp)).json.version)
    return answer
  }
  await look(await order(lamp, 1))
  const last = await look(await order(lamp, 2))
  for (const [to, restock] of [['confirmed'], ['shipped'], ['returned', true]] as const) {
    const body = restock === undefined ? { to } : { to, restock }
    const moved = await call('POST', `/admin/orders/${last.json.id}/transitions`, { body })
    if (restock === true) await look(moved)
  }
  await look(await adjust(lamp, { delta: 1, reference: 'found' }))
  assert.deepEqual(versions, [2, 3, 4, 5])
})

test('the database increments the version for a statement that does not', async () => {
  const lamp = await store.addProduct({ stock: 3 })
  await store.pool.query('update inventory set available = available - 1 where product_id = $1', [lamp.id])
  assert.deepEqual((await read(lamp)).json, { product_id: lamp.id, available: 2, version: 2 })
  await store.pool.query('update inventory set available = available where product_id = $1', [lamp.id])
  assert.equal((await read(lamp)).json.version, 2, 'the number is the same')
})

test('`expected` is compared with the number only', async () => {
  const [lamp, untracked] = [await store.addProduct({ stock: 4 }), await store.addProduct({ stock: null })]
  const sold = await order(lamp, 1)
  await store.call('POST', `/orders/${sold.json.id}/cancel`, { token: ada.token })
  const problem = assertProblem(await count(lamp, { stock: 8, expected: 3 }), 412, 'precondition_failed')
  assert.deepEqual([problem.available, problem.version], [4, 3])
  assert.deepEqual((await count(lamp, { stock: 8, expected: 4 })).json, { product_id: lamp.id, available: 8, version: 4 })
  assertProblem(await count(lamp, { stock: 9, expected: 8 }, '"3"'), 412, 'precondition_failed', 'both must hold')
  assertProblem(await count(lamp, { stock: 9, expected: null }), 412, 'precondition_failed')
  assertProblem(await count(untracked, { stock: 9, expected: 0 }), 412, 'precondition_failed')
  assert.equal((await count(untracked, { stock: 9, expected: null })).json.available, 9)
})

test('of two processes that count the same state, one succeeds', async (t) => {
  const other = await startSecondProcess(t, store)
  const lamp = await store.addProduct({ stock: 4 })
  const answers = await Promise.all(
    [5, 6, 7, 8].map((stock, index) =>
      (index % 2 === 0 ? store : other).call('PUT', pathOf(lamp), { token: operator, body: { stock }, headers: { 'if-match': '"1"' } }),
    ),
  )
  assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 412, 412, 412])
  const winner = answers.find(({ status }) => status === 200)
  assert.deepEqual(await store.readStock(lamp), [winner?.json.available])
  assert.equal((await kept(lamp)).length, 1)
})

test('adds and removes units, and records actor, time, reason and the previous number', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  const begin = Date.now()
  const came = await adjust(lamp, { delta: 7, reference: 'DN-1', reason: 'a delivery' })
  assert.equal(came.status, 201, came.text)
  const { created_at, ...rest } = came.json
  const actor = { type: 'admin', id: admin.id }
  const common = { product_id: lamp.id, kind: 'adjustment', actor }
  assert.deepEqual(rest, { ...common, version: 2, before: 5, after: 12, delta: 7, reference: 'DN-1', reason: 'a delivery' })
  assert.ok(Date.parse(created_at) >= begin - 1_000 && Date.parse(created_at) <= Date.now() + 1_000, created_at)
  const broke = await adjust(lamp, { delta: -2, reference: 'broken' })
  assert.deepEqual([broke.json.before, broke.json.after, broke.json.delta, broke.json.reason], [12, 10, -2, null])
  const counted = await count(lamp, { stock: 9, expected: 10, reference: 'list 3', reason: 'counted' })
  assert.deepEqual(counted.json, { product_id: lamp.id, available: 9, version: 4 })
  const [newest, ...older] = await kept(lamp)
  assert.deepEqual(newest, {
    ...{ ...common, kind: 'count', version: 4, before: 10, after: 9, delta: -1, reference: 'list 3', reason: 'counted' },
    created_at: newest?.created_at,
  })
  assert.deepEqual(older, [broke.json, came.json])
})

test('records no change when the count equals the stock, and keeps the version', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  assert.deepEqual((await count(lamp, { stock: 5, expected: 5 })).json, { product_id: lamp.id, available: 5, version: 1 })
  assert.deepEqual(await kept(lamp), [])
})

test('an adjustment that takes the last unit or adds the first one changes `in_stock` in the catalogue', async () => {
  const lamp = await store.addProduct({ stock: 2 })
  assert.equal(await isShown(lamp), true)
  await adjust(lamp, { delta: -2, reference: 'stolen' })
  assert.equal(await isShown(lamp), false)
  assertProblem(await order(lamp), 409, 'insufficient_stock')
  await adjust(lamp, { delta: 1, reference: 'found' })
  assert.equal(await isShown(lamp), true)
  assert.equal((await order(lamp)).status, 201)
})

test('books a reference once: a repeat returns the first adjustment, even if the stock has become too low for it', async () => {
  const [lamp, vase] = [await store.addProduct({ stock: 5 }), await store.addProduct({ stock: 5 })]
  const first = await adjust(lamp, { delta: -5, reference: 'R', reason: 'one' })
  const again = await adjust(lamp, { delta: -5, reference: 'R', reason: 'another' })
  assert.deepEqual([first.status, again.status, again.json], [201, 200, first.json])
  const other = assertProblem(await adjust(lamp, { delta: -4, reference: 'R' }), 409, 'adjustment_reference_taken')
  assert.deepEqual(other.adjustment, first.json)
  assert.equal((await adjust(vase, { delta: -4, reference: 'R' })).status, 201, 'a reference is that of one product')
  assert.deepEqual(await store.readStock(lamp, vase), [0, 1])
  assert.equal((await kept(lamp)).length, 1)
})

test('books a reference once when two processes receive it many times at once', async (t) => {
  const other = await startSecondProcess(t, store)
  const lamp = await store.addProduct({ stock: 5 })
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, index) =>
      (index % 2 === 0 ? store : other).call('POST', pathOf(lamp, '/adjustments'), {
        token: operator,
        body: { delta: index % 3 === 0 ? 2 : 3, reference: 'R' },
      }),
    ),
  )
  const made = answers.find(({ status }) => status === 201)
  assert.equal(answers.filter(({ status }) => status === 201).length, 1)
  for (const [index, { status, json }] of answers.entries()) {
    const isSame = (index % 3 === 0 ? 2 : 3) === made?.json.delta
    if (!isSame) assert.deepEqual([status, json.code], [409, 'adjustment_reference_taken'])
    else assert.deepEqual(json, made?.json)
  }
  assert.deepEqual(await store.readStock(lamp), [5 + made?.json.delta])
})

test("the database itself refuses to book a product's reference a second time", async () => {
  const lamp = await store.addProduct({ stock: 5 })
  await adjust(lamp, { delta: 1, reference: 'R' })
  const copy = `insert into stock_adjustments (product_id, version, kind, available_before, available_after, reference, actor_type)
    select product_id, version + 1, 'import', 1, 2, reference, 'system' from stock_adjustments where product_id = $1`
  await assert.rejects(store.pool.query(copy, [lamp.id]), { code: '23505' })
})

test('refuses to remove more than is available, and refuses adjustments of untracked stock', async () => {
  const [lamp, untracked] = [await store.addProduct({ stock: 2 }), await store.addProduct({ stock: null })]
  const short = assertProblem(await adjust(lamp, { delta: -3, reference: 'R' }), 409, 'insufficient_stock')
  assert.deepEqual([short.available, short.shortages], [2, [{ product_id: lamp.id, requested: 3, available: 2 }]])
  assert.equal((await adjust(lamp, { delta: -2, reference: 'R' })).status, 201, 'a refusal keeps no reference')
  assertProblem(await adjust(untracked, { delta: 1, reference: 'R' }), 409, 'stock_not_tracked')
  assertProblem(await adjust(UNKNOWN, { delta: 1, reference: 'R' }), 404, 'not_found')
  assert.deepEqual(await store.readStock(lamp, untracked), [0, null])
})

test('lists changes newest first in pages, also while further changes are made and after the product was archived', async () => {
  const [lamp, vase] = [await store.addProduct({ stock: 5 }), await store.addProduct({ stock: 5 })]
  for (let i = 1; i <= 5; i++) {
    await adjust(lamp, { delta: i, reference: `L${i}` })
    await adjust(vase, { delta: i, reference: `V${i}` })
  }
  const page = (cursor?: string) => call('GET', pathOf(lamp, `/adjustments?limit=2${cursor === undefined ? '' : `&cursor=${cursor}`}`))
  const first = await page()
  await adjust(lamp, { delta: 1, reference: 'L6' })
  const second = await page(first.json.next_cursor)
  await call('DELETE', `/admin/products/${lamp.id}`)
  const third = await page(second.json.next_cursor)
  const references = [first, second, third].map(({ json }) => json.data.map(({ reference }: { reference: string }) => reference))
  assert.deepEqual(references, [['L5', 'L4'], ['L3', 'L2'], ['L1']])
  assertProblem(await read(lamp), 404, 'not_found')
  assertProblem(await adjust(lamp, { delta: 1, reference: 'L7' }), 404, 'not_found')
  assertProblem(await call('GET', pathOf(UNKNOWN, '/adjustments')), 404, 'not_found')
})

test('records the initial stock of a new product, and records nothing if stock is not tracked', async () => {
  const body = { name: 'A lamp', category: 'lamps', price: { amount: 1, currency: 'EUR' } }
  const create = async (changes: object) => (await call('POST', '/admin/products', { body: { ...body, ...changes } })).json
  const [lamp, untracked] = [await create({ sku: 'NEW-1', stock: 3 }), await create({ sku: 'NEW-2' })]
  const [only, ...others] = await kept(lamp)
  assert.deepEqual(
    [only?.kind, only?.version, only?.before, only?.after, only?.delta, only?.actor, others],
    ['created', 1, null, 3, null, { type: 'admin', id: admin.id }, []],
  )
  assert.deepEqual((await read(lamp)).headers.etag, '"1"')
  assert.deepEqual(await kept(untracked), [])
})

test('a count that waits for a concurrent sale is then refused', async (t) => {
  const lamp = await store.addProduct({ stock: 5 })
  const selling = await store.pool.connect()
  t.after(() => selling.release(true))
  await selling.query('begin')
  await selling.query('update inventory set available = available - 1 where product_id = $1', [lamp.id])
  const counted = count(lamp, { stock: 9 }, '"1"')
  await eventually(async () => (await findWaiting(store.pool, selling)).length === 1)
  await selling.query('commit')
  assertProblem(await counted, 412, 'precondition_failed')
  assert.deepEqual(await store.readStock(lamp), [4])
})

test('returns the stock of a page of products in one call', async () => {
  const [lamp, vase, gone] = [await store.addProduct({ stock: 3 }), await store.addProduct({ stock: null }), await store.addProduct()]
  await store.pool.query('update products set archived_at = now() where id = $1', [gone.id])
  const ids = [vase.id, lamp.id.toUpperCase(), gone.id, UNKNOWN.id, vase.id].join(',')
  const answer = await call('GET', `/admin/stock?ids=${ids}`)
  assert.equal(answer.status, 200, answer.text)
  assert.equal(answer.headers['cache-control'], 'no-store')
  const expected = [
    { product_id: lamp.id, available: 3, version: 1 },
    { product_id: vase.id, available: null, version: 1 },
  ].sort((a, b) => (a.product_id < b.product_id ? -1 : 1))
  assert.deepEqual(answer.json, { data: expected })
})

test('after a restore no version of the lost time names a later state, because each database incarnation has its own versions', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  assert.equal((await count(lamp, { stock: 6 }, '"1"')).headers.etag, '"2"')
  await adjust(lamp, { delta: 1, reference: 'before' })
  await store.pool.query(`update database_incarnations set identity = '1.00000001.1'`)
  const reconnected = createPool({ url: store.url, size: 1, applicationName: 'test', onError: () => {} })
  await reconnected.query('select 1')
  await reconnected.end()
  const { json, headers } = await read(lamp)
  assert.ok(Number(json.version) > 1_000, JSON.stringify(json))
  assert.equal(headers.etag, `"${json.version}"`)
  assertProblem(await count(lamp, { stock: 9 }, '"3"'), 412, 'precondition_failed')
  assert.equal((await count(lamp, { stock: 9 }, String(headers.etag))).status, 200)
  await adjust(lamp, { delta: 1, reference: 'after' })
  const versions = (await kept(lamp)).map(({ version }) => Number(version))
  assert.deepEqual(
    versions,
    versions.toSorted((a, b) => b - a),
  )
  assert.equal(versions[0], (await read(lamp)).json.version)
  const { json: page } = await call('GET', `${pathOf(lamp, '/adjustments')}?limit=2`)
  const { json: rest } = await call('GET', `${pathOf(lamp, '/adjustments')}?cursor=${page.next_cursor}`)
  assert.equal((page.data as unknown[]).length + (rest.data as unknown[]).length, versions.length)
})
