import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { startStore } from '../../test/store.ts'
import { removeOldProductEvents } from './product-events.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
const eur = (amount: number) => ({ amount, currency: 'EUR' })
const usd = (amount: number) => ({ amount, currency: 'USD' })

async function create(sku: string, changes: object = {}): Promise<string> {
  const body = { name: 'A lamp', category: 'lamps', price: eur(1_000), sku, ...changes }
  return (await store.call('POST', '/admin/products', { token, body })).json.id
}
async function patch(id: string, body: object): Promise<void> {
  const { status, text } = await store.call('PATCH', `/admin/products/${id}`, { token, body, headers: { 'if-match': '*' } })
  assert.equal(status, 200, text)
}
const read = (id: string, query = '') => store.call('GET', `/admin/products/${id}/prices${query}`, { token })

const lamp = await create('LAMP')
await create('OTHER')
await patch(lamp, { price: eur(1_200) })
await patch(lamp, { name: 'Another lamp' })
await patch(lamp, { price: eur(900), compare_at_price: eur(1_200) })
await patch(lamp, { prices: [usd(1_100)] })
await patch(lamp, { price: eur(950), compare_at_price: null })

test('shows each price with the time at which it began, newest first', async () => {
  const { status, json, headers } = await read(lamp)
  assert.equal(status, 200)
  assert.equal(headers['cache-control'], 'no-store')
  assert.deepEqual(
    json.data.map(({ price, compare_at_price }: Record<string, unknown>) => [price, compare_at_price]),
    [
      [eur(950), null],
      [eur(900), eur(1_200)],
      [eur(1_200), null],
      [eur(1_000), null],
    ],
  )
  const times = json.data.map(({ since }: { since: string }) => since)
  assert.deepEqual(times, times.toSorted().reverse())
  assert.deepEqual([json.has_more, json.next_cursor], [false, null])
})

test('pages list every price, even if several prices have the same time', async () => {
  await store.pool.query(`update product_events set occurred_at = date_trunc('hour', occurred_at) where product_id = $1`, [lamp])
  const whole = (await read(lamp)).json.data
  const found = []
  let cursor: string | null = null
  for (;;) {
    const { json, headers } = await read(lamp, `?limit=1${cursor === null ? '' : `&cursor=${cursor}`}`)
    found.push(...json.data)
    assert.equal(headers.link === undefined, json.next_cursor === null)
    if (json.next_cursor === null) break
    cursor = json.next_cursor
  }
  assert.deepEqual(found, whole)
  assert.deepEqual(
    found.map(({ price }) => price.amount),
    [950, 900, 1_200, 1_000],
  )
})

test('an archived product keeps its prices, and a product that SQL has written has none yet', async () => {
  await store.call('DELETE', `/admin/products/${lamp}`, { token, headers: { 'if-match': '*' } })
  assert.equal((await read(lamp)).json.data.length, 4)
  const { id } = await store.addProduct()
  await store.pool.query('delete from product_events where product_id = $1', [id])
  assert.deepEqual((await read(id)).json.data, [])
})

test('lists prices in each currency, also after it became that of the own price, until the product is no longer sold in it', async () => {
  const id = await create('CURRENCIES', { prices: [{ ...usd(1_500), compare_at: 2_000 }] })
  await patch(id, { prices: [usd(1_400), { amount: 90, currency: 'CHF' }] })
  await patch(id, { price: usd(1_300), prices: [eur(1_000)] })
  await patch(id, { prices: [] })
  const shown = async (query: string) => {
    const { json } = await read(id, query)
    const entries = json.data.map(({ price, compare_at_price }: Record<string, { amount: number } | null>) => [
      price?.amount ?? null,
      compare_at_price?.amount ?? null,
    ])
    return [json.currency, json.currencies, entries]
  }
  const currencies = ['CHF', 'EUR', 'USD']
  const dollars = [
    [1_300, null],
    [1_400, null],
    [1_500, 2_000],
  ]
  assert.deepEqual(await shown(''), ['USD', currencies, dollars])
  assert.deepEqual(await shown('?currency=USD'), ['USD', currencies, dollars])
  assert.deepEqual(await shown('?currency=EUR'), [
    'EUR',
    currencies,
    [
      [null, null],
      [1_000, null],
    ],
  ])
  assert.deepEqual(await shown('?currency=CHF'), [
    'CHF',
    currencies,
    [
      [null, null],
      [90, null],
    ],
  ])
  assert.deepEqual(await shown('?currency=JPY'), ['JPY', currencies, []])
  for (const currency of ['usd', 'XXY']) assertProblem(await read(id, `?currency=${currency}`), 400, 'invalid_query')
  const { json, headers } = await read(id, '?currency=EUR&limit=1')
  assert.match(headers.link ?? '', /currency=EUR/)
  assert.equal((await read(id, `?currency=EUR&cursor=${json.next_cursor}`)).json.data.length, 1)
  assertProblem(await read(id, `?currency=CHF&cursor=${json.next_cursor}`), 400, 'invalid_cursor')
})

test('the newest price in each currency stays when old events are removed', async (t) => {
  // Messages in a broker: none is here that subscribers have yet to read.
  t.after(() => store.pool.query('delete from catalogue_epochs'))
  await store.pool.query(`insert into catalogue_epochs (epoch, stream) values (1, 'CATALOGUE')`)
  const [changed, unchanged] = [await create('OLD', { prices: [usd(1_500)] }), await create('OLDER')]
  for (const body of [{ price: eur(900) }, { price: eur(800) }, { prices: [usd(1_400)] }, { name: 'Last' }]) await patch(changed, body)
  await patch(unchanged, { name: 'Last' })
  await store.pool.query(`update product_events set occurred_at = occurred_at - interval '50 days' where product_id = any($1)`, [
    [changed, unchanged],
  ])
  await removeOldProductEvents(store.pool, 40, new Date())
  const amounts = async (id: string, currency: string) =>
    (await read(id, `?currency=${currency}`)).json.data.map(({ price }: { price: { amount: number } }) => price.amount)
  assert.deepEqual(await amounts(changed, 'EUR'), [800])
  assert.deepEqual(await amounts(changed, 'USD'), [1_400])
  assert.deepEqual(await amounts(unchanged, 'EUR'), [1_000])
})
