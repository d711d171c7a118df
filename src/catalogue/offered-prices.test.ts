import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { assertProblem } from '../../test/problem.ts'
import { registerOperator } from '../../test/register-operator.ts'
import { type CallOptions, startStore } from '../../test/store.ts'

const store = await startStore({ after })
const { token } = await registerOperator(store)
let lastSku = 0

const call = (method: string, path: string, options: CallOptions = {}) => store.call(method, path, { token, ...options })
const eur = (amount: number) => ({ amount, currency: 'EUR' })
const usd = (amount: number, compare_at: number | null = null) => ({ amount, currency: 'USD', compare_at })
const create = async (changes: object = {}) => {
  const body = { name: 'A lamp', category: 'lamps', price: eur(1_000), sku: `SKU-${++lastSku}`, ...changes }
  const { status, json, text } = await call('POST', '/admin/products', { body })
  assert.equal(status, 201, text)
  return json
}
const patch = (id: string, body: object) => call('PATCH', `/admin/products/${id}`, { body, headers: { 'if-match': '*' } })
const list = async (query: string) => (await store.call('GET', `/products?${query}`)).json

test('a page shows the price in the requested currency, or is refused with the list of available currencies', async () => {
  const { id, slug, prices } = await create({ compare_at_price: eur(1_500), prices: [usd(1_200, 1_800), { amount: 900, currency: 'CHF' }] })
  assert.deepEqual(prices, [{ amount: 900, currency: 'CHF', compare_at: null }, usd(1_200, 1_800)])
  const tags = new Set<string | undefined>()
  for (const [query, price, before] of [
    ['', eur(1_000), eur(1_500)],
    ['?currency=EUR', eur(1_000), eur(1_500)],
    ['?currency=USD', { amount: 1_200, currency: 'USD' }, { amount: 1_800, currency: 'USD' }],
    ['?currency=CHF', { amount: 900, currency: 'CHF' }, null],
  ] as const) {
    for (const path of [`/products/${id}`, `/products/by-slug/${slug}`]) {
      const { json, headers } = await store.call('GET', `${path}${query}`)
      assert.deepEqual([json.price, json.compare_at_price, json.prices], [price, before, undefined], query)
      tags.add(headers.etag)
    }
  }
  assert.equal(tags.size, 4)
  const { headers } = await store.call('GET', `/products/${id}?currency=USD`)
  const change = () =>
    call('PATCH', `/admin/products/${id}`, { body: { brand: `B ${Math.random()}` }, headers: { 'if-match': headers.etag ?? '' } })
  assert.equal((await change()).status, 200)
  assertProblem(await change(), 412, 'precondition_failed')
  for (const path of [`/products/${id}`, `/products/by-slug/${slug}`]) {
    const refused = await store.call('GET', `${path}?currency=JPY`)
    assert.deepEqual(assertProblem(refused, 422, 'currency_not_available').currencies, ['CHF', 'EUR', 'USD'])
  }
  await patch(id, { slug: 'other lamp' })
  const moved = await store.call('GET', `/products/by-slug/${slug}?currency=USD&lang=en`)
  assert.match(moved.headers.location ?? '', /other-lamp\?lang=en&currency=USD$/)
  for (const currency of ['XXY', 'usd', 'EUR,USD'])
    for (const path of [`/products/${id}`, '/products', '/products/facets'])
      assertProblem(await store.call('GET', `${path}?currency=${currency}`), 400, 'invalid_query', `${path} ${currency}`)
})

test('a list by currency contains the products that are sold in it, with their prices in it', async () => {
  await store.pool.query('update products set archived_at = now()')
  const own = [30, 10, 20, 20]
  const expected: { id: string; amount: number }[] = []
  for (const [index, amount] of own.entries()) {
    // Own prices in USD, and prices beside others.
    const { id } = await create({
      name: `Own ${index}`,
      group: 'G',
      price: { amount, currency: 'USD' },
      prices: index === 0 ? [{ amount: 1, currency: 'EUR' }] : [],
    })
    expected.push({ id, amount })
  }
  for (const amount of [25, 5, 20, 40]) {
    const { id } = await create({ name: `Also ${amount}`, group: 'G', price: eur(7), prices: [usd(amount, amount + 1)] })
    expected.push({ id, amount })
  }
  await create({ name: 'Euro only' })
  const order = expected.toSorted((a, b) => a.amount - b.amount || (a.id < b.id ? -1 : 1))
  for (const [sort, wanted] of [
    ['price', order],
    ['-price', order.toReversed()],
  ] as const) {
    for (const limit of [1, 3, 100]) {
      const walked: { id: string; price: { amount: number; currency: string } }[] = []
      let cursor = ''
      let back: string | undefined
      do {
        const { json, headers } = await store.call('GET', `/products?currency=USD&sort=${sort}&limit=${limit}${cursor}`)
        walked.push(...json.data)
        back = /<([^>]+)>; rel="prev"/.exec(headers.link ?? '')?.[1]
        cursor = json.has_more ? `&cursor=${json.next_cursor}` : ''
      } while (cursor !== '')
      assert.deepEqual(
        walked.map(({ id, price }) => ({ id, amount: price.amount })),
        wanted,
      )
      assert.ok(walked.every(({ price }) => price.currency === 'USD'))
      if (limit === 3) {
        const { pathname, search } = new URL(back ?? '')
        const before = await store.call('GET', `${pathname}${search}`)
        assert.deepEqual(
          before.json.data.map(({ id }: { id: string }) => id),
          wanted.slice(3, 6).map(({ id }) => id),
        )
      }
    }
  }
  const ids = ({ data }: { data: { id: string }[] }) => new Set(data.map(({ id }) => id))
  const between = new Set(expected.filter(({ amount }) => amount >= 20 && amount <= 30).map(({ id }) => id))
  for (const sort of ['price', 'name', '-created_at'])
    assert.deepEqual(ids(await list(`currency=USD&min_price=20&max_price=30&sort=${sort}`)), between)
  assert.deepEqual(ids(await list('currency=USD&q=also&min_price=20')).size, 3)
  assert.equal((await list('currency=USD&include=count')).count.value, 8)
  assert.equal((await list('currency=EUR&include=count')).count.value, 6)
  assert.deepEqual((await list('currency=JPY&sort=price')).data, [])
  const [group] = (await list('currency=USD&collapse=group&sort=price')).data
  assert.deepEqual([group.price.amount, group.variants.prices], [5, [{ currency: 'USD', min: 5, max: 40 }]])
  const facets = (await store.call('GET', '/products/facets?currency=USD')).json
  assert.deepEqual([facets.categories[0].count, facets.price_ranges], [8, [{ currency: 'USD', min: 0, max: 500, count: 8 }]])
})

test('a cursor belongs to a currency', async () => {
  const first = await list('currency=USD&sort=price&limit=1')
  assertProblem(await store.call('GET', `/products?currency=EUR&sort=price&limit=1&cursor=${first.next_cursor}`), 400, 'invalid_cursor')
  assertProblem(await store.call('GET', `/products?sort=price&limit=1&cursor=${first.next_cursor}`), 400, 'invalid_cursor')
})

test('the price table follows the products, whichever program writes them', async () => {
  const { id } = await create({ prices: [usd(5), { amount: 6, currency: 'CHF' }] })
  const stored = async () => {
    const { rows } = await store.pool.query('select currency, amount from product_prices where product_id = $1 order by currency', [id])
    return rows.map(({ currency, amount }) => `${currency} ${amount}`)
  }
  assert.deepEqual(await stored(), ['CHF 6', 'USD 5'])
  // The previous release, which has no such prices, writes like this.
  await store.pool.query('update products set price_amount = 1, in_stock = false where id = $1', [id])
  assert.deepEqual(await stored(), ['CHF 6', 'USD 5'])
  await store.pool.query(`update products set price_currency = 'USD' where id = $1`, [id])
  assert.deepEqual(await stored(), ['CHF 6'])
  const edited = (await call('GET', `/admin/products/${id}`)).json
  assert.deepEqual([edited.price, edited.prices], [{ amount: 1, currency: 'USD' }, [{ amount: 6, currency: 'CHF', compare_at: null }]])
  assert.equal((await patch(id, { price: eur(3) })).status, 200)
  assert.deepEqual(await stored(), ['CHF 6'])
  await patch(id, { prices: [usd(7)] })
  assert.deepEqual(await stored(), ['USD 7'])
  await call('DELETE', `/admin/products/${id}`)
  assert.deepEqual(await stored(), [])
})

test('refuses prices that contradict each other or are malformed', async () => {
  const { id } = await create({ prices: [usd(5)] })
  for (const prices of [[eur(1)], [usd(1), usd(2)], [usd(5, 5)], [usd(5, 4)], [{ amount: 1, currency: 'XXY' }]]) {
    assertProblem(await patch(id, { prices }), 422, 'invalid_body', JSON.stringify(prices).slice(0, 60))
  }
  assertProblem(await patch(id, { price: { amount: 1, currency: 'USD' } }), 422, 'invalid_body')
  assert.equal((await patch(id, { price: { amount: 1, currency: 'USD' }, prices: [eur(1)] })).status, 200)
})

test("each price that is changed, added or removed has an event, which comes before the product's event", async () => {
  const { id } = await create({ prices: [usd(5), { amount: 6, currency: 'CHF' }] })
  await patch(id, { price: eur(2_000), prices: [usd(4, 9), { amount: 6, currency: 'CHF' }, { amount: 9, currency: 'JPY' }] })
  const recorded = async () => {
    const { rows } = await store.pool.query('select type, data from product_events where product_id = $1 order by version', [id])
    return rows.map(({ type, data }) => [type, data.previous_price, data.price, data.compare_at_price])
  }
  assert.deepEqual(await recorded(), [
    ['product.created', undefined, undefined, undefined],
    ['price.changed', eur(1_000), eur(2_000), null],
    ['price.changed', null, { amount: 9, currency: 'JPY' }, null],
    ['price.changed', { amount: 5, currency: 'USD' }, { amount: 4, currency: 'USD' }, { amount: 9, currency: 'USD' }],
    ['product.updated', undefined, undefined, undefined],
  ])
  const { rows } = await store.pool.query('select data from product_events where product_id = $1 order by version desc limit 1', [id])
  assert.deepEqual(rows[0].data.product.prices, [
    { amount: 6, currency: 'CHF', compare_at: null },
    { amount: 9, currency: 'JPY', compare_at: null },
    usd(4, 9),
  ])
  // The own price takes over a currency of the others, at the same price and with another one before it.
  await patch(id, {
    price: { amount: 4, currency: 'USD' },
    compare_at_price: { amount: 8, currency: 'USD' },
    prices: [eur(2_000), { amount: 7, currency: 'CHF' }],
  })
  assert.deepEqual((await recorded()).slice(5), [
    ['price.changed', { amount: 6, currency: 'CHF' }, { amount: 7, currency: 'CHF' }, null],
    ['price.changed', { amount: 9, currency: 'JPY' }, null, null],
    ['price.changed', { amount: 4, currency: 'USD' }, { amount: 4, currency: 'USD' }, { amount: 8, currency: 'USD' }],
    ['product.updated', undefined, undefined, undefined],
  ])
})
