import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { registerOperator } from '../../test/register-operator.ts'
import { startStore } from '../../test/store.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
const DAY = 86_400
let lastSku = 0

const eur = (amount: number) => ({ amount, currency: 'EUR' })
async function create(changes: object = {}): Promise<string> {
  const body = { name: 'A lamp', category: 'lamps', price: eur(1_000), sku: `LOW-${++lastSku}`, ...changes }
  const { status, json, text } = await store.call('POST', '/admin/products', { token, body })
  assert.equal(status, 201, text)
  return json.id
}
async function patch(id: string, body: object) {
  const { status, text, json } = await store.call('PATCH', `/admin/products/${id}`, { token, body, headers: { 'if-match': '*' } })
  assert.equal(status, 200, text)
  return json
}
const reprice = (id: string, price: number, before: number | null = null) =>
  patch(id, { price: eur(price), compare_at_price: before === null ? null : eur(before) })
/** Moves everything that is recorded about the product into the past. */
const wait = (id: string, seconds: number) =>
  store.pool.query(`update product_events set occurred_at = occurred_at - $2 * interval '1 second' where product_id = $1`, [id, seconds])
const lowestOf = async (id: string) => (await store.call('GET', `/products/${id}`)).json.lowest_price_30_days

test('a product has no lowest price until it is reduced, or reduced further if it was reduced from the start', async () => {
  assert.equal(await lowestOf(await create()), null)
  const id = await create({ compare_at_price: eur(2_000) })
  assert.equal(await lowestOf(id), null)
  assert.deepEqual((await reprice(id, 900, 2_000)).lowest_price_30_days, eur(1_000))
})

test('the price before the reduction counts, even if it began long before the 30 days', async () => {
  const id = await create()
  await wait(id, 400 * DAY)
  assert.deepEqual((await reprice(id, 800, 1_000)).lowest_price_30_days, eur(1_000))
  assert.deepEqual(
    (await store.call('GET', '/products')).json.data.find((product: { id: string }) => product.id === id).lowest_price_30_days,
    eur(1_000),
  )
})

test('a lower price within the 30 days counts until 30 days have passed since it ended', async () => {
  for (const [ago, lowest] of [
    // The lower price ended this long before the reduction.
    [30 * DAY - 60, 600],
    [30 * DAY, 1_000],
    [31 * DAY, 1_000],
  ] as const) {
    const id = await create({ price: eur(600) })
    await wait(id, 10 * DAY)
    await reprice(id, 1_000)
    await wait(id, ago)
    assert.deepEqual((await reprice(id, 900, 1_200)).lowest_price_30_days, eur(lowest), String(ago))
  }
})

test('several changes within a day all count, even a price that lasted only a moment', async () => {
  const id = await create()
  for (const price of [990, 450, 1_300, 1_200]) await reprice(id, price)
  assert.deepEqual((await reprice(id, 1_100, 1_500)).lowest_price_30_days, eur(450))
})

test('raising a price before a reduction does not hide a lower earlier price', async () => {
  const id = await create()
  await wait(id, 60 * DAY)
  await reprice(id, 1_500)
  await wait(id, 5 * DAY)
  assert.deepEqual((await reprice(id, 1_000, 1_500)).lowest_price_30_days, eur(1_000))
})

test('a reduction that continues keeps its value, whether its price stays or falls', async () => {
  const id = await create()
  await reprice(id, 900, 1_000)
  await wait(id, 20 * DAY)
  assert.deepEqual((await patch(id, { name: 'Another lamp' })).lowest_price_30_days, eur(1_000))
  assert.deepEqual((await reprice(id, 800, 1_000)).lowest_price_30_days, eur(1_000))
  await wait(id, 20 * DAY)
  assert.deepEqual((await reprice(id, 800, 1_100)).lowest_price_30_days, eur(1_000))
  assert.deepEqual((await reprice(id, 0, 1_100)).lowest_price_30_days, eur(1_000))
})

test('raising the price within a reduction begins a new reduction', async () => {
  const id = await create()
  await reprice(id, 700, 1_000)
  await wait(id, 5 * DAY)
  assert.deepEqual((await reprice(id, 900, 1_000)).lowest_price_30_days, eur(700))
  assert.deepEqual((await reprice(id, 800, 1_000)).lowest_price_30_days, eur(700))
})

test('the value ends with the reduction, and the reduced price counts for the next reduction within 30 days', async () => {
  const id = await create()
  await reprice(id, 700, 1_000)
  assert.equal((await reprice(id, 1_000)).lowest_price_30_days, null)
  await wait(id, 10 * DAY)
  assert.deepEqual((await reprice(id, 900, 1_000)).lowest_price_30_days, eur(700))
  // A price alone that is not below the one before ends the reduction too.
  assert.equal((await patch(id, { price: eur(1_000) })).lowest_price_30_days, null)
  await wait(id, 31 * DAY)
  assert.deepEqual((await reprice(id, 900, 1_000)).lowest_price_30_days, eur(1_000))
})

test('a reduction without a lower price shows the unchanged price', async () => {
  assert.deepEqual((await patch(await create(), { compare_at_price: eur(2_000) })).lowest_price_30_days, eur(1_000))
})

test('prices in other currencies do not count', async () => {
  const id = await create({ price: { amount: 1, currency: 'USD' } })
  assert.equal((await reprice(id, 900, 1_000)).lowest_price_30_days, null)
  await reprice(id, 950)
  assert.deepEqual((await reprice(id, 900, 1_000)).lowest_price_30_days, eur(900))
  const other = await patch(id, { price: { amount: 5, currency: 'JPY' }, compare_at_price: { amount: 9, currency: 'JPY' } })
  assert.equal(other.lowest_price_30_days, null)
})

test('an import sets it for many lines at once, and importing the file again keeps it', async () => {
  const ids = await Promise.all(Array.from({ length: 3 }, () => create()))
  for (const id of ids) await wait(id, 40 * DAY)
  const [first, second, third] = ids as [string, string, string]
  await reprice(second, 500)
  await reprice(second, 1_000)
  await reprice(third, 900, 1_000)
  const lines = [2, 1, 0].map((back) => ({
    sku: `LOW-${lastSku - back}`,
    name: 'A lamp',
    category: 'lamps',
    price: eur(800),
    compare_at_price: eur(1_000),
  }))
  const raw = lines.map((line) => JSON.stringify(line)).join('\n')
  for (const _round of [1, 2]) {
    const { status } = await store.call('POST', '/admin/products/import', {
      token,
      raw,
      headers: { 'content-type': 'application/x-ndjson' },
    })
    assert.equal(status, 200)
    assert.deepEqual(await Promise.all([first, second, third].map(lowestOf)), [eur(1_000), eur(500), eur(1_000)])
  }
})

test('it is set for a program that changes prices by SQL, like the previous release', async () => {
  const id = await create()
  const read = async () =>
    (await store.pool.query('select lowest_prior_amounts from products where id = $1', [id])).rows[0].lowest_prior_amounts
  await store.pool.query('update products set price_amount = 700, compare_at_amount = 1_000 where id = $1', [id])
  assert.deepEqual(await read(), { EUR: 1_000 })
  await store.pool.query('update products set price_amount = 1_100 where id = $1', [id])
  assert.equal(await read(), null)
})

test('no request can set it, and its change is not an activity of its own', async () => {
  const id = await create()
  const body = { lowest_price_30_days: eur(1) }
  const { status } = await store.call('PATCH', `/admin/products/${id}`, { token, body, headers: { 'if-match': '*' } })
  assert.equal(status, 422)
  await reprice(id, 900, 1_000)
  const { rows } = await store.pool.query(`select before, after from activities where subject_id = $1 order by id desc limit 1`, [id])
  assert.deepEqual(Object.keys(rows[0].after).sort(), ['compare_at_price', 'price'])
})

test('two operators who reduce a product at once leave it with the price before both reductions', async () => {
  const id = await create()
  await Promise.all([reprice(id, 900, 1_000), reprice(id, 800, 1_000)])
  assert.ok([1_000, 800].includes((await lowestOf(id)).amount))
  const { price, lowest_price_30_days: lowest } = (await store.call('GET', `/products/${id}`)).json
  // A higher price after the lower one is another reduction.
  assert.equal(lowest.amount, price.amount === 800 ? 1_000 : 800)
})

const usd = (amount: number) => ({ amount, currency: 'USD' })
const lowestIn = async (id: string, currency: string) =>
  (await store.call('GET', `/products/${id}?currency=${currency}`)).json.lowest_price_30_days
const listedIn = async (id: string, query: string) =>
  (await store.call('GET', `/products?ids=${id}&${query}`)).json.data[0].lowest_price_30_days

test("former prices in a currency count when it becomes the currency of the product's own price", async () => {
  const id = await create({ price: usd(2_000), prices: [eur(1_000)] })
  for (const price of [800, 500]) await patch(id, { prices: [eur(price)] })
  const changed = await patch(id, { price: eur(1_000), compare_at_price: eur(1_500), prices: [] })
  assert.deepEqual(changed.lowest_price_30_days, eur(500))
  // Earlier own prices count, too, when their currency becomes one of the others.
  await patch(id, { price: usd(1), prices: [{ ...eur(2_000), compare_at: 3_000 }] })
  assert.deepEqual(await lowestIn(id, 'EUR'), eur(500))
})

test('a price counts for 30 days after its currency was removed', async () => {
  for (const [ago, lowest] of [
    [29, eur(300)],
    [31, null],
  ] as const) {
    const id = await create()
    await patch(id, { price: usd(2_000), prices: [eur(300)] })
    await patch(id, { prices: [] })
    await wait(id, ago * DAY)
    assert.deepEqual((await reprice(id, 900, 1_500)).lowest_price_30_days, lowest)
  }
})

test("a reduction continues when its currency becomes that of the product's own price", async () => {
  const id = await create({ price: usd(2_000), prices: [eur(1_000)] })
  await patch(id, { prices: [{ ...eur(900), compare_at: 1_000 }] })
  await wait(id, 40 * DAY)
  const changed = await patch(id, { price: eur(800), compare_at_price: eur(1_000), prices: [usd(2_000)] })
  assert.deepEqual(changed.lowest_price_30_days, eur(1_000))
})

test('each reduction in another currency has its own lowest price, in pages, lists and imports', async () => {
  const id = await create({ prices: [usd(1_200), { amount: 90, currency: 'CHF' }] })
  await patch(id, { prices: [usd(700), { amount: 90, currency: 'CHF' }] })
  await patch(id, { prices: [usd(1_100), { amount: 80, currency: 'CHF' }] })
  await patch(id, {
    prices: [
      { ...usd(1_000), compare_at: 1_100 },
      { amount: 80, currency: 'CHF' },
    ],
  })
  assert.deepEqual(await lowestIn(id, 'USD'), usd(700))
  for (const query of ['currency=USD', 'currency=USD&sort=price', 'currency=USD&q=lamp'])
    assert.deepEqual(await listedIn(id, query), usd(700))
  assert.deepEqual([await lowestIn(id, 'CHF'), await lowestIn(id, 'EUR'), await lowestOf(id)], [null, null, null])
  // The reduction of the product's own price begins and ends independently.
  await reprice(id, 900, 1_000)
  assert.deepEqual([await lowestOf(id), await lowestIn(id, 'USD')], [eur(1_000), usd(700)])
  await reprice(id, 1_000)
  assert.deepEqual([await lowestOf(id), await lowestIn(id, 'USD')], [null, usd(700)])
  const line = {
    sku: `LOW-${lastSku}`,
    name: 'A lamp',
    category: 'lamps',
    price: eur(1_000),
    prices: [{ ...usd(1_050), compare_at: 1_100 }],
  }
  const raw = JSON.stringify(line)
  const { status } = await store.call('POST', '/admin/products/import', { token, raw, headers: { 'content-type': 'application/x-ndjson' } })
  assert.equal(status, 200)
  assert.deepEqual(await lowestIn(id, 'USD'), usd(700))
  await patch(id, { prices: [usd(1_050)] })
  const { rows } = await store.pool.query('select lowest_prior_amounts from products where id = $1', [id])
  assert.equal(rows[0].lowest_prior_amounts, null)
})

test('what an operator reads of a product can be sent back, and does not contain it', async () => {
  const id = await create({ prices: [usd(1_200)] })
  await patch(id, { prices: [{ ...usd(1_000), compare_at: 1_100 }] })
  const { json } = await store.call('GET', `/admin/products/${id}`, { token })
  assert.doesNotMatch(JSON.stringify([json, (await store.call('GET', `/products/${id}`)).json]), /prior/i)
  const { rows } = await store.pool.query(`select before::text || after::text as text from activities where subject_id = $1`, [id])
  for (const { text } of rows) assert.doesNotMatch(text ?? '', /prior/i)
})
