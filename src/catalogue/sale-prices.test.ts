import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { eventually } from '../../test/eventually.ts'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { runScheduledChanges } from '../../test/scheduled-changes.ts'
import { startStore } from '../../test/store.ts'
import { exportCatalogue } from './import/export-catalogue.ts'
import type { SalePrice } from './offered-prices.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
const ada = await store.register()
const HOUR = 3_600_000
let lastSku = 0

const eur = (amount: number) => ({ amount, currency: 'EUR' })
const inHours = (hours: number) => new Date(Date.now() + hours * HOUR).toISOString()
const sale = (amount: number, from: number | null, until: number | null, currency = 'EUR'): SalePrice => ({
  ...{ amount, currency },
  ...{ from: from === null ? null : inHours(from), until: until === null ? null : inHours(until) },
})
const call = (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object, ifMatch = '*') =>
  store.call(method, path, { token, headers: { 'if-match': ifMatch }, ...(body && { body }) })
const newProduct = (changes: object) => ({ sku: `SALE-${++lastSku}`, name: 'A numbat', category: 'Numbats', price: eur(1_000), ...changes })
async function create(changes: object) {
  const created = await call('POST', '/admin/products', newProduct(changes))
  assert.equal(created.status, 201, created.text)
  return created.json
}
async function patch(id: string, body: object) {
  const changed = await call('PATCH', `/admin/products/${id}`, body)
  assert.equal(changed.status, 200, changed.text)
  return changed.json
}
async function importLine(product: { sku: string; name: string }, changes: object): Promise<string> {
  const { sku, name } = product
  const raw = JSON.stringify({ sku, name, category: 'Numbats', price: eur(1_000), ...changes })
  const headers = { 'content-type': 'application/x-ndjson' }
  return (await store.call('POST', '/admin/products/import', { token, raw, headers })).text
}

/** Simulates the passing of time for a product by moving its times into the past. */
async function pass(id: string, hours: number): Promise<void> {
  const tx = await store.pool.connect()
  const earlier = (name: string) =>
    `to_char((element ->> '${name}')::timestamptz at time zone 'UTC' - $2 * interval '1 hour', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
  await tx.query('begin')
  await tx.query('set local session_replication_role = replica')
  await tx.query(
    `update products set changes_at = changes_at - $2 * interval '1 hour', sale_prices = (
       select jsonb_agg(element || jsonb_build_object('from', ${earlier('from')}, 'until', ${earlier('until')}))
       from jsonb_array_elements(sale_prices) as element
     ) where id = $1`,
    [id, hours],
  )
  await tx.query(`update product_events set occurred_at = occurred_at - $2 * interval '1 hour' where product_id = $1`, [id, hours])
  await tx.query('commit')
  tx.release()
}
const runLoops = (count = 1) => runScheduledChanges(store.pool, count)
async function passed(id: string, hours: number): Promise<void> {
  await pass(id, hours)
  await runLoops(2)
}
const order = async (id: string, currency = 'EUR') => {
  const answer = await store.call('POST', '/orders', { token: ada.token, body: { items: [{ product_id: id, quantity: 1 }], currency } })
  assert.equal(answer.status, 201, answer.text)
  return answer.json.total.amount
}
const quote = (id: string) =>
  store.call('POST', '/orders/quote', { token: ada.token, body: { items: [{ product_id: id, quantity: 1 }], currency: 'EUR' } })
const ofEvents = async (id: string) =>
  (await store.pool.query(`select type, data from product_events where product_id = $1 order by version`, [id])).rows

type Shown = [price: number, before: number | null, lowest: number | null]
async function shownOf(id: string, currency = 'EUR'): Promise<Shown> {
  const { json } = await store.call('GET', `/products/${id}?currency=${currency}`)
  return [json.price.amount, json.compare_at_price?.amount ?? null, json.lowest_price_30_days?.amount ?? null]
}
/** A process learns a change within a second. */
async function assertShown(id: string, expected: Shown, currency = 'EUR'): Promise<void> {
  const agree = async () => JSON.stringify(await shownOf(id, currency)) === JSON.stringify(expected)
  await eventually(agree, { what: `${expected} in ${currency}`, timeoutMs: 20_000 }).catch(async () =>
    assert.deepEqual(await shownOf(id, currency), expected),
  )
}

test('a sale begins and ends on time in each currency, everywhere in the shop, with events and activities', async () => {
  const sales = [sale(800, 1, 3), sale(900, 1, 5, 'USD')]
  const product = await create({
    prices: [
      { amount: 1_100, currency: 'USD' },
      { amount: 1_200, currency: 'CHF' },
    ],
    sale_prices: sales,
  })
  assert.deepEqual(product.sale_prices, sales)
  await assertShown(product.id, [1_000, null, null])
  await passed(product.id, 2)
  await assertShown(product.id, [800, 1_000, 1_000])
  await assertShown(product.id, [900, 1_100, 1_100], 'USD')
  await assertShown(product.id, [1_200, null, null], 'CHF')
  const listed = async (query: string) =>
    (await store.call('GET', `/products?limit=100&${query}`)).json.data.find(({ id }: { id: string }) => id === product.id)?.price.amount
  assert.deepEqual(
    await Promise.all(
      ['max_price=850&currency=EUR', 'category=Numbats&max_price=850&currency=EUR', 'max_price=950&currency=USD'].map(listed),
    ),
    [800, 800, 900],
  )
  assert.match(
    (await store.call('GET', '/feeds/products.ndjson')).text,
    /"price":\{"amount":800,"currency":"EUR"\},"compare_at_price":\{"amount":1000,/,
  )
  const edited = (await call('GET', `/admin/products/${product.id}`)).json
  assert.deepEqual([edited.price, edited.compare_at_price, edited.prices], [product.price, null, product.prices])
  await passed(product.id, 2)
  await assertShown(product.id, [1_000, null, null])
  await assertShown(product.id, [900, 1_100, 1_100], 'USD')
  await passed(product.id, 2)
  await assertShown(product.id, [1_100, null, null], 'USD')
  const events = await ofEvents(product.id)
  assert.deepEqual(
    events.map(({ type, data }) => [type, data.price?.amount, data.previous_price?.amount, data.compare_at_price?.amount ?? null]),
    [
      ['product.created', undefined, undefined, null],
      ['price.changed', 800, 1_000, 1_000],
      ['price.changed', 900, 1_100, 1_100],
      ['product.updated', undefined, undefined, null],
      ['price.changed', 1_000, 800, null],
      ['product.updated', undefined, undefined, null],
      ['price.changed', 1_100, 900, null],
      ['product.updated', undefined, undefined, null],
    ],
  )
  assert.deepEqual([events[3]?.data.product.price, events[3]?.data.product.compare_at_price], [eur(800), eur(1_000)])
  const { rows } = await store.pool.query(
    `select before -> 'price' ->> 'amount' as before, after -> 'price' ->> 'amount' as after from activities
     where subject_id = $1 and action = 'scheduled change' order by id`,
    [product.id],
  )
  assert.deepEqual(rows, [
    { before: '1000', after: '800' },
    { before: '800', after: '1000' },
    { before: null, after: null },
  ])
})

test('an order or quote that arrives after a scheduled time and before its change has the price of its own moment', async () => {
  const product = await create({ prices: [{ amount: 1_100, currency: 'USD' }], sale_prices: [sale(800, 1, 3), sale(900, 1, 3, 'USD')] })
  assert.equal(await order(product.id), 1_000)
  await pass(product.id, 2)
  assert.equal((await quote(product.id)).json.total.amount, 800)
  assert.deepEqual([await order(product.id), await order(product.id, 'USD')], [800, 900])
  await pass(product.id, 2)
  assert.equal((await quote(product.id)).json.total.amount, 1_000)
  assert.deepEqual([await order(product.id), await order(product.id, 'USD')], [1_000, 1_100])
  assert.equal((await ofEvents(product.id)).length, 7)
})

test('the lowest price of 30 days is correct at the beginning of a sale, in a further reduction, at its end and in the next sale', async () => {
  const days = 24
  const { id } = await create({
    sale_prices: [sale(900, 40 * days, 41 * days), sale(800, 41 * days, 42 * days), sale(850, 42 * days, 43 * days)],
  })
  await passed(id, 40.5 * days)
  await assertShown(id, [900, 1_000, 1_000])
  await passed(id, days)
  await assertShown(id, [800, 1_000, 1_000])
  await passed(id, days)
  await assertShown(id, [850, 1_000, 800])
  await passed(id, days)
  await assertShown(id, [1_000, null, null])
  await patch(id, { sale_prices: [sale(950, 20 * days, 21 * days), sale(950, 60 * days, 61 * days)] })
  await passed(id, 20.5 * days)
  await assertShown(id, [950, 1_000, 800])
  await passed(id, days)
  await passed(id, 39 * days)
  await assertShown(id, [950, 1_000, 1_000])
})

test('a product that was reduced before a sale stays reduced from its first price during the sale and after it', async () => {
  const { id } = await create({ compare_at_price: eur(1_500), sale_prices: [sale(800, 1, 3)] })
  await passed(id, 2)
  await assertShown(id, [800, 1_500, 1_000])
  await passed(id, 2)
  await assertShown(id, [1_000, 1_500, 800])
})

test('during a sale an operator can edit the regular price with the entity tag from before the sale', async () => {
  const product = await create({ sale_prices: [sale(800, 1, 3)] })
  await pass(product.id, 2)
  const { etag } = (await call('GET', `/admin/products/${product.id}`)).headers
  await runLoops()
  const named = await call('PATCH', `/admin/products/${product.id}`, { name: 'Another numbat' }, String(etag))
  assert.equal(named.status, 200, named.text)
  assert.deepEqual(named.json.price, eur(1_000))
  await assertShown(product.id, [800, 1_000, 1_000])
  await patch(product.id, { price: eur(1_100) })
  await assertShown(product.id, [800, 1_100, 1_000])
  await patch(product.id, { sale_prices: [sale(700, null, 1)] })
  await assertShown(product.id, [700, 1_100, 1_000])
  assert.equal(await order(product.id), 700)
  await patch(product.id, { sale_prices: [] })
  await assertShown(product.id, [1_100, null, null])
})

test('a sale is removed if the new price is not above it', async () => {
  const product = await create({ sale_prices: [sale(800, null, 3), sale(500, 4, 5)] })
  await assertShown(product.id, [800, 1_000, null])
  const changed = await patch(product.id, { price: eur(800) })
  assert.deepEqual([changed.price, changed.sale_prices.map(({ amount }: SalePrice) => amount)], [eur(800), [500]])
  await assertShown(product.id, [800, null, null])
  assert.match(await importLine(product, { price: { amount: 700, currency: 'USD' } }), /"updated"/)
  assert.deepEqual((await call('GET', `/admin/products/${product.id}`)).json.sale_prices, [])
})

test('an ended sale does not refuse a lower price, and stays in the list', async () => {
  const sales = [sale(800, -2, -1), sale(900, -2, -1, 'USD')]
  const product = await create({ sale_prices: [sales[0]] })
  const prices = [{ amount: 500, currency: 'USD' }]
  await patch(product.id, { price: eur(700), prices, sale_prices: sales })
  await patch(product.id, { price: eur(700), prices: [], sale_prices: sales })
  assert.match(await importLine(product, { price: eur(600), prices: [], sale_prices: sales }), /"updated"/)
  const changed = await patch(product.id, { price: eur(500) })
  assert.deepEqual([changed.price, changed.sale_prices], [eur(500), sales])
  await assertShown(product.id, [500, null, null])
})

test('an operator or a file that writes after a scheduled time leaves the scheduled change its own activity and event', async () => {
  const product = await create({ sale_prices: [sale(800, 1, 3)] })
  await pass(product.id, 2)
  await patch(product.id, { name: 'A numbat in spring' })
  await assertShown(product.id, [800, 1_000, 1_000])
  await pass(product.id, 2)
  assert.match(await importLine(product, { price: eur(1_200) }), /"updated"/)
  await assertShown(product.id, [1_200, null, null])
  const { rows } = await store.pool.query(
    `select after -> 'price' ->> 'amount' as after from activities where subject_id = $1 and action = 'scheduled change' order by id`,
    [product.id],
  )
  assert.deepEqual(rows, [{ after: '800' }, { after: '1000' }])
})

test('a CSV file with prices in one currency keeps the prices and sales in other currencies', async () => {
  const { sku } = await create({ prices: ['USD', 'CHF'].map((currency) => ({ amount: 1_100, currency })) })
  const header = 'sku,name,category,price,currency,price:USD,sale_prices'
  const importCsv = async (sales: SalePrice[]) => {
    const raw = `${header}\n${sku},A numbat,Numbats,10.00,EUR,12.00,"${JSON.stringify(sales).replaceAll('"', '""')}"\n`
    return (await store.call('POST', '/admin/products/import', { token, raw, headers: { 'content-type': 'text/csv' } })).text
  }
  assert.match(await importCsv([sale(900, 1, 2, 'CHF')]), /"updated"/)
  assert.match(await importCsv([sale(900, 1, 2, 'JPY')]), /currencies of price and prices/)
  assert.match(await importCsv([sale(1_100, 1, 2, 'CHF')]), /below the price/)
})

test('files export and import sales while one is current, and a file without sales keeps them', async () => {
  const sales = [sale(800, -1, 3), sale(700, 5, null), sale(900, null, 1, 'USD')]
  const prices = [{ amount: 1_100, currency: 'USD', compare_at: 1_300 }]
  const product = await create({ compare_at_price: eur(1_500), prices, sale_prices: sales })
  await assertShown(product.id, [800, 1_500, null])
  for (const format of ['csv', 'ndjson'] as const) {
    const raw = (await Array.fromAsync(exportCatalogue(store.pool, format))).join('')
    assert.match(raw, format === 'csv' ? /,10\.00,EUR,/ : /"price":\{"amount":1000,"currency":"EUR"\}/)
    const headers = { 'content-type': format === 'csv' ? 'text/csv' : 'application/x-ndjson' }
    const again = await store.call('POST', '/admin/products/import', { token, raw, headers })
    assert.doesNotMatch(again.text, /"outcome":"updated"|"error"/)
    await call('PATCH', `/admin/products/${product.id}`, { sale_prices: [], prices: [], compare_at_price: null })
    assert.match((await store.call('POST', '/admin/products/import', { token, raw, headers })).text, /"updated"/)
    const { json } = await call('GET', `/admin/products/${product.id}`)
    assert.deepEqual([json.sale_prices, json.prices, json.price, json.compare_at_price], [sales, prices, eur(1_000), eur(1_500)])
    await assertShown(product.id, [800, 1_500, 800])
    await assertShown(product.id, [900, 1_300, 900], 'USD')
  }
  assert.match(await importLine(product, { compare_at_price: eur(1_500) }), /"unchanged"/)
  assert.match(await importLine(product, { compare_at_price: eur(1_500), sale_prices: [sale(600, 1, 2, 'JPY')] }), /"error"/)
  const csv = `sku,name,category,price,sale_prices\n${product.sku},A numbat,Numbats,10.00,\n`
  const cleared = await store.call('POST', '/admin/products/import', { token, raw: csv, headers: { 'content-type': 'text/csv' } })
  assert.match(cleared.text, /"updated"/)
  assert.deepEqual((await call('GET', `/admin/products/${product.id}`)).json.sale_prices, [])
})

test('concurrent changes leave one price and one record of each', async () => {
  const product = await create({ sale_prices: [sale(800, 1, 3)] })
  await pass(product.id, 2)
  const [sold] = await Promise.all([
    order(product.id),
    patch(product.id, { description: 'Eats termites.' }),
    importLine(product, { price: eur(1_050), description: 'Eats termites.' }),
    runLoops(3),
  ])
  assert.equal(sold, 800)
  await assertShown(product.id, [800, 1_050, 1_000])
  const changes = (await ofEvents(product.id)).filter(({ type }) => type === 'price.changed')
  assert.equal(changes.filter(({ data }) => data.previous_price.amount === 1_000).length, 1)
  await passed(product.id, 2)
  await assertShown(product.id, [1_050, null, null])
})

test('setting the clock back undoes no sale, and the next write follows the clock', async () => {
  const product = await create({ sale_prices: [sale(800, 1, 3)] })
  await passed(product.id, 2)
  await pass(product.id, -2)
  await runLoops()
  await assertShown(product.id, [800, 1_000, 1_000])
  await patch(product.id, { name: 'A numbat at rest' })
  await assertShown(product.id, [1_000, null, null])
  await passed(product.id, 2)
  await assertShown(product.id, [800, 1_000, 800])
})

test('a restored product has its regular price and its sale', async () => {
  const product = await create({ sale_prices: [sale(800, null, 3)] })
  assert.equal((await call('DELETE', `/admin/products/${product.id}`)).status, 204)
  await pass(product.id, 2)
  assert.match(await importLine(product, {}), /"updated"/)
  await assertShown(product.id, [800, 1_000, null])
  assert.equal((await call('DELETE', `/admin/products/${product.id}`)).status, 204)
  await pass(product.id, 2)
  assert.match(await importLine(product, {}), /"updated"/)
  await assertShown(product.id, [1_000, null, null])
})

test('a program that does not know sales keeps the regular price, and a price that it writes becomes the regular price', async () => {
  const product = await create({
    prices: [{ amount: 1_100, currency: 'USD' }],
    sale_prices: [sale(800, null, 3), sale(900, null, 3, 'USD')],
  })
  const write = (columns: string) => store.pool.query(`update products set changes_at = null, ${columns} where id = $1`, [product.id])
  await write(`name = 'A numbat at dawn', price_amount = 800, compare_at_amount = 1000, prices = prices`)
  const edited = async () => (await call('GET', `/admin/products/${product.id}`)).json
  assert.deepEqual([(await edited()).price.amount, (await edited()).prices[0].amount], [1_000, 1_100])
  await write(`compare_at_amount = 1300, prices = jsonb_set(prices, '{USD,compare_at}', '1400')`)
  const both = (await edited()) as { price: object; compare_at_price: object; prices: object[] }
  assert.deepEqual([both.price, both.compare_at_price], [eur(1_000), eur(1_300)])
  assert.deepEqual(both.prices, [{ amount: 1_100, currency: 'USD', compare_at: 1_400 }])
  await write(`compare_at_amount = 1300, prices = prices #- '{USD,compare_at}'`)
  await write(`price_amount = 950, compare_at_amount = null`)
  assert.deepEqual([(await edited()).price.amount, (await edited()).prices[0].amount], [950, 1_100])
  await write(`sale_prices = '[]'`)
  const { rows } = await store.pool.query('select price_amount, compare_at_amount, prices, regular_prices from products where id = $1', [
    product.id,
  ])
  assert.deepEqual(rows, [{ price_amount: 950, compare_at_amount: null, prices: { USD: { amount: 1_100 } }, regular_prices: null }])
})

test('a write that names no price and begins a sale sets the lowest price of 30 days', async () => {
  const begun = await create({ sale_prices: [sale(800, 1, 3)] })
  await pass(begun.id, 2)
  await store.pool.query('update products set changes_at = null where id = $1', [begun.id])
  await assertShown(begun.id, [800, 1_000, 1_000])
  const written = await create({})
  await store.pool.query('update products set sale_prices = $2 where id = $1', [written.id, JSON.stringify([sale(700, null, 3)])])
  await assertShown(written.id, [700, 1_000, 1_000])
})

test('refuses sales that contradict each other, the prices or the time', async () => {
  const REFUSED: readonly [sales: unknown, detail: RegExp][] = [
    [[sale(1_000, 1, 2)], /below the price/],
    [[sale(1_100, 1, 2, 'USD')], /below the price/],
    [[sale(500, 1, 2, 'JPY')], /currencies of price and prices/],
    [[sale(500, null, null)], /from, until or both/],
    [[sale(500, 2, 1)], /until of a sale price must be after/],
    [[sale(500, 1, 3), sale(600, 2, 4)], /must not overlap/],
    [[sale(500, null, 3), sale(600, 2, null)], /must not overlap/],
    [[sale(500, 1, null), sale(600, 2, null)], /must not overlap/],
    [[sale(500, null, 1), sale(600, null, 2)], /must not overlap/],
    [[{ ...eur(500), from: 'soon' }], /./],
    [[1, 2].map((from) => ({ amount: 500, currency: { toString: 1 }, from: inHours(from) })), /./],
    [[1, 2].map((none) => ({ ...eur(500), from: { toString: none } })), /./],
    [[{ ...eur(500), until: inHours(1), name: 'Black Friday' }], /./],
    [[{ ...eur(-1), until: inHours(1) }], /./],
    [Array.from({ length: 51 }, (_, index) => sale(500, index, index + 1)), /./],
  ]
  const prices = [{ amount: 1_100, currency: 'USD' }]
  for (const [sale_prices, detail] of REFUSED) {
    const answer = await call('POST', '/admin/products', newProduct({ prices, sale_prices }))
    assertProblem(answer, 422, 'invalid_body')
    assert.match(answer.text, detail)
    assert.match(await importLine(newProduct({}), { prices, sale_prices }), /"error"/)
  }
  const objects = [1, 2].map((none) => ({ amount: 500, currency: { toString: none } }))
  assert.match(await importLine(newProduct({}), { prices: objects }), /"error"/)
  const times = [sale(500, 1, 2), sale(600, 2, 3), sale(700, 1, 2, 'USD')]
  const product = await create({ prices, sale_prices: times.toReversed() })
  assert.deepEqual(product.sale_prices, times)
  assertProblem(await call('PATCH', `/admin/products/${product.id}`, { sale_prices: [sale(1_000, 1, 2)] }), 422, 'invalid_body')
  assertProblem(await call('PATCH', `/admin/products/${product.id}`, { sale_prices: [sale(100, 1, 2, 'JPY')] }), 422, 'invalid_body')
})
