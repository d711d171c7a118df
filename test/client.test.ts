import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import {
  createStorefront,
  formatMoney,
  isProblem,
  memoryTokens,
  ProblemError,
  SessionChanged,
  storedTokens,
  UnexpectedResponse,
} from '../client/src/index.ts'
import { startStore } from './store.ts'

const PASSWORD = 'correct horse battery'
const store = await startStore({ after })
const baseUrl = `http://127.0.0.1:${store.port}`

type Send = (request: Request) => Promise<Response>

/** A client whose requests are recorded. `fault` may answer, lose or delay what is sent. */
function connect(fault: (request: Request, send: Send, count: number) => Promise<Response> = (request, send) => send(request)) {
  const sent: Request[] = []
  const tokens = memoryTokens()
  const shop = createStorefront({
    baseUrl,
    tokens,
    maxDelayMs: 2_000,
    fetch: (request) => {
      sent.push(request)
      const path = (one: Request) => `${one.method} ${new URL(one.url).pathname}`
      return fault(request, fetch, sent.filter((one) => path(one) === path(request)).length)
    },
  })
  const count = (call: string) => sent.filter(({ method, url }) => `${method} ${new URL(url).pathname}` === call).length
  return { shop, tokens, sent, count }
}

const newcomer = () => ({ email: `${randomUUID()}@example.com`, password: PASSWORD })
const problem = (status: number, code: string, headers: Record<string, string> = {}) =>
  new Response(
    JSON.stringify({ type: `${baseUrl}/problems/${code}`, title: code, status, detail: code, code, request_id: 'a', trace_id: 'b' }),
    {
      status,
      headers: { 'content-type': 'application/problem+json', ...headers },
    },
  )
const countOrders = async () => Number((await store.pool.query('select count(*) from orders')).rows[0].count)

test('registers, reads the account, logs out and in again', async () => {
  const { shop, tokens } = connect()
  const account = newcomer()
  assert.equal((await shop.register(account))?.email, account.email)
  assert.equal((await shop.account()).email, account.email)
  await shop.logout()
  assert.equal(await tokens.load(), null)
  await assert.rejects(shop.account(), (error) => isProblem(error, 'unauthenticated'))
  assert.equal((await shop.login(account)).email, account.email)
  assert.equal(await shop.isLoggedIn(), true)
})

test('reads every product and every order once, page by page', async () => {
  const category = randomUUID()
  const added = await Promise.all(Array.from({ length: 7 }, () => store.addProduct({ category })))
  const { shop, count, sent } = connect()
  const seen = []
  for await (const { id } of shop.products({ category, limit: 3 })) seen.push(id)
  assert.deepEqual(seen.sort(), added.map(({ id }) => id).sort())
  assert.equal(count('GET /products'), 3)

  await shop.register(newcomer())
  for (const { id } of added) await shop.placeOrder({ items: [{ product_id: id, quantity: 1 }] })
  const orders = []
  for await (const order of shop.orders({ limit: 2 })) orders.push(order.items[0]?.product_id)
  assert.deepEqual(orders, added.map(({ id }) => id).reverse())
  // A cache may answer it, and a browser needs no preflight.
  await shop.productPage()
  assert.equal(sent.at(-1)?.headers.get('authorization'), null)
})

test('an order whose answers are lost, or that meets 503, is placed once', async () => {
  const lamp = await store.addProduct({ stock: 5 })
  const { shop, sent } = connect(async (request, send, count) => {
    if (!request.url.endsWith('/orders')) return send(request)
    if (count === 1) {
      await send(request)
      throw new TypeError('the connection was lost')
    }
    return count === 2 ? problem(503, 'unavailable', { 'retry-after': '1' }) : send(request)
  })
  await shop.register(newcomer())
  const before = await countOrders()
  const order = await shop.placeOrder({ items: [{ product_id: lamp.id, quantity: 2 }] })
  assert.equal(await countOrders(), before + 1)
  assert.deepEqual(await store.readStock(lamp), [3])
  const keys = sent.filter(({ url }) => url.endsWith('/orders')).map(({ headers }) => headers.get('idempotency-key'))
  assert.equal(keys.length, 3)
  assert.equal(new Set(keys).size, 1)
  assert.equal((await shop.order(order.id)).status, 'pending')
})

test('the same key of the caller gives the same order after a reload', async () => {
  const lamp = await store.addProduct()
  const { shop } = connect()
  await shop.register(newcomer())
  const basket = { items: [{ product_id: lamp.id, quantity: 1 }] }
  const idempotencyKey = randomUUID()
  const first = await shop.placeOrder(basket, { idempotencyKey })
  assert.equal((await shop.placeOrder(basket, { idempotencyKey })).id, first.id)
  assert.notEqual((await shop.placeOrder(basket)).id, first.id)
})

test('a request that could do its work twice is not repeated, and one with 429 is', async () => {
  const lost = connect(async (request, send) => {
    if (request.url.endsWith('/cancel')) throw new TypeError('the connection was lost')
    return send(request)
  })
  await lost.shop.register(newcomer())
  await assert.rejects(lost.shop.cancelOrder(randomUUID()), TypeError)
  assert.equal(lost.sent.filter(({ url }) => url.endsWith('/cancel')).length, 1)

  const limited = connect(async (request, send, count) =>
    count === 1 ? problem(429, 'rate_limited', { 'retry-after': '0' }) : send(request),
  )
  await limited.shop.register(newcomer())
  assert.equal(limited.count('POST /auth/register'), 2)
})

test('a Retry-After beyond the longest wait is not waited for, and a shorter one is', async () => {
  const patient = connect(async () => problem(503, 'unavailable', { 'retry-after': '60' }))
  await assert.rejects(patient.shop.productPage(), (error) => isProblem(error, 'unavailable'))
  assert.equal(patient.sent.length, 1)

  const times: number[] = []
  const waiting = connect(async (request, send, count) => {
    times.push(performance.now())
    return count === 1 ? problem(503, 'unavailable', { 'retry-after': '1' }) : send(request)
  })
  await waiting.shop.productPage()
  assert.ok((times[1] ?? 0) - (times[0] ?? 0) >= 990, `waited ${(times[1] ?? 0) - (times[0] ?? 0)} ms`)
})

test('gives up after the number of attempts', async () => {
  const { shop, sent } = connect(async () => problem(503, 'unavailable', { 'retry-after': '0' }))
  await assert.rejects(shop.productPage(), (error) => error instanceof ProblemError && error.status === 503 && error.requestId === 'a')
  assert.equal(sent.length, 4)
})

test('calls that meet an expired token at once share one refresh', async () => {
  const { shop, tokens, count } = connect()
  await shop.register(newcomer())
  const old = await tokens.load()
  await tokens.save({ access_token: 'expired.token.indeed', refresh_token: old?.refresh_token ?? '' })
  const accounts = await Promise.all(Array.from({ length: 8 }, () => shop.account()))
  assert.equal(new Set(accounts.map(({ id }) => id)).size, 1)
  assert.equal(count('POST /auth/refresh'), 1)
  assert.notEqual((await tokens.load())?.refresh_token, old?.refresh_token)
})

test('a refresh that the store refuses ends the session; one that finds no store does not', async () => {
  const ended = connect()
  await ended.shop.register(newcomer())
  await ended.tokens.save({ access_token: 'expired.token.indeed', refresh_token: 'not one of the store' })
  await assert.rejects(ended.shop.account(), (error) => isProblem(error, 'invalid_token'))
  assert.equal(await ended.tokens.load(), null)
  assert.equal(ended.count('POST /auth/refresh'), 1)

  const away = connect(async (request, send) =>
    request.url.endsWith('/auth/refresh') ? new Response('bad gateway', { status: 502 }) : send(request),
  )
  await away.shop.register(newcomer())
  const kept = { access_token: 'expired.token.indeed', refresh_token: (await away.tokens.load())?.refresh_token ?? '' }
  await away.tokens.save(kept)
  await assert.rejects(away.shop.account(), (error) => error instanceof UnexpectedResponse && error.response.status === 502)
  assert.deepEqual(await away.tokens.load(), kept)
})

test('a call that waits is not repeated for another customer', async () => {
  const lamp = await store.addProduct()
  let hasFailed = false
  const { shop, count } = connect(async (request, send) => {
    if (!request.url.endsWith('/orders') || hasFailed) return send(request)
    hasFailed = true
    await send(request)
    await shop.logout()
    await shop.register(newcomer())
    return problem(503, 'unavailable', { 'retry-after': '0' })
  })
  await shop.register(newcomer())
  const before = await countOrders()
  await assert.rejects(shop.placeOrder({ items: [{ product_id: lamp.id, quantity: 1 }] }), SessionChanged)
  assert.equal(await countOrders(), before + 1)
  assert.equal(count('POST /orders'), 1)
})

test('a refresh whose answer comes late undoes no logout and no other login', async () => {
  for (const next of [null, newcomer()]) {
    const { shop, tokens } = connect(async (request, send) => {
      const response = await send(request)
      if (!request.url.endsWith('/auth/refresh')) return response
      await tokens.save(null)
      if (next !== null) await shop.register(next)
      return response
    })
    await shop.register(newcomer())
    await tokens.save({ access_token: 'expired.token.indeed', refresh_token: (await tokens.load())?.refresh_token ?? '' })
    await shop.account().catch(() => {})
    assert.equal(await shop.isLoggedIn(), next !== null)
    if (next !== null) assert.equal((await shop.account()).email, next.email)
  }
})

test('a logout whose answer comes late, or never, undoes no other login', async () => {
  for (const isLost of [false, true]) {
    const next = newcomer()
    const { shop } = connect(async (request, send) => {
      const response = await send(request)
      if (!request.url.endsWith('/auth/logout')) return response
      await shop.register(next)
      if (isLost) throw new TypeError('the connection was lost')
      return response
    })
    await shop.register(newcomer())
    if (isLost) await assert.rejects(shop.logout(), TypeError)
    else await shop.logout()
    assert.equal((await shop.account()).email, next.email)
    assert.equal(await shop.isLoggedIn(), true)
  }
})

test('a logout whose session is refreshed meanwhile ends it here, too', async () => {
  const { shop, tokens, count } = connect()
  await shop.register(newcomer())
  const { refresh_token = '' } = (await tokens.load()) ?? {}
  await tokens.save({ access_token: 'expired.token.indeed', refresh_token })
  await shop.logout()
  assert.deepEqual([await shop.isLoggedIn(), count('POST /auth/refresh'), count('POST /auth/logout')], [false, 1, 2])
})

test('a refresh that meets an overload is retried, and its refusal is reported', async () => {
  for (const times of [2, 9]) {
    const { shop, tokens } = connect(async (request, send, count) =>
      request.url.endsWith('/auth/refresh') && count <= times ? problem(503, 'unavailable', { 'retry-after': '0' }) : send(request),
    )
    const account = newcomer()
    await shop.register(account)
    const kept = { access_token: 'expired.token.indeed', refresh_token: (await tokens.load())?.refresh_token ?? '' }
    await tokens.save(kept)
    if (times < 4) assert.equal((await shop.account()).email, account.email)
    else {
      await assert.rejects(shop.account(), (error) => isProblem(error, 'unavailable'))
      assert.deepEqual(await tokens.load(), kept)
    }
  }
})

test("an answer that is not the store's is told apart from a refusal", async () => {
  const { shop } = connect(async () => new Response('<html>', { status: 404, headers: { 'content-type': 'text/html' } }))
  await assert.rejects(shop.productPage(), (error) => error instanceof UnexpectedResponse && error.response.status === 404)
  const types = { 'application/problem+json': 503, 'text/html': 200 }
  for (const [type, status] of Object.entries(types)) {
    const odd = connect(async () => new Response('{"type":"ht', { status, headers: { 'content-type': type, 'retry-after': '0' } }))
    await assert.rejects(odd.shop.productPage(), UnexpectedResponse, type)
  }
})

test('an abort ends a call while it waits for a retry', async () => {
  const abort = new AbortController()
  const { shop, sent } = connect(async () => {
    setImmediate(() => abort.abort(new Error('the page was left')))
    return problem(503, 'unavailable', { 'retry-after': '2' })
  })
  await assert.rejects(shop.productPage({}, { signal: abort.signal }), /the page was left/)
  assert.equal(sent.length, 1)
})

test('a refusal has its code, its members and its request', async () => {
  const lamp = await store.addProduct({ stock: 1 })
  const { shop } = connect()
  await shop.register(newcomer())
  await assert.rejects(shop.placeOrder({ items: [{ product_id: lamp.id, quantity: 9 }] }), (error) => {
    assert.ok(isProblem(error, 'insufficient_stock') && error.status === 409)
    assert.match(error.requestId, /^[\w.-]+$/)
    assert.deepEqual(error.problem.shortages, [{ product_id: lamp.id, requested: 9, available: 1 }])
    return true
  })
})

test('language, currency, repeated conditions and the version of an order are sent', async () => {
  const { shop, sent } = connect()
  const lamp = await store.addProduct({ stock: 5 })
  const queryOf = () => new URL(sent.at(-1)?.url ?? '').search
  await shop.product(lamp.id, { lang: 'de', currency: 'EUR' })
  assert.equal(queryOf(), '?lang=de&currency=EUR')
  await shop.productPage({ attr: ['material=copper', 'material=steel'] })
  assert.deepEqual(new URLSearchParams(queryOf()).getAll('attr'), ['material=copper', 'material=steel'])
  await shop.register(newcomer())
  const items = [{ product_id: lamp.id, quantity: 1 }]
  assert.equal((await shop.quote(items, { currency: 'EUR' })).total.currency, 'EUR')
  const order = await shop.placeOrder({ items })
  await assert.rejects(shop.cancelOrder(order.id, { version: order.version + 1 }), (error) => isProblem(error, 'precondition_failed'))
  assert.equal((await shop.cancelOrder(order.id, { version: order.version })).status, 'cancelled')
})

test('the message of a refusal names the field', async () => {
  const { shop } = connect()
  await assert.rejects(shop.register({ email: 'nobody', password: PASSWORD }), /^ProblemError: invalid_body: .* #\/email /)
})

test('stored tokens survive a reload, and only the tokens are stored', async () => {
  const kept = new Map<string, string>()
  const storage = {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  }
  const open = () => createStorefront({ baseUrl: `${baseUrl}/x/../`, tokens: storedTokens(storage) })
  const account = newcomer()
  await open().register(account)
  assert.deepEqual(Object.keys(JSON.parse([...kept.values()][0] ?? '')), ['access_token', 'refresh_token'])
  assert.equal((await open().account()).email, account.email)
  await open().logout()
  assert.equal(kept.size, 0)
})

test('writes amounts exactly, with the decimals of ISO 4217 and as the locale does', () => {
  const text = (amount: number, currency: string, locale: string) => formatMoney({ amount, currency }, locale).replaceAll(/\s/g, ' ')
  assert.equal(text(123_450, 'EUR', 'en'), '€1,234.50')
  assert.equal(text(123_450, 'EUR', 'de'), '1.234,50 €')
  assert.equal(text(1_200, 'JPY', 'en'), '¥1,200')
  assert.equal(text(1_200, 'KWD', 'en'), 'KWD 1.200')
  assert.equal(text(1_200, 'HUF', 'en'), 'HUF 12.00')
  assert.equal(text(Number.MAX_SAFE_INTEGER, 'EUR', 'en'), '€90,071,992,547,409.91')
  assert.equal(
    formatMoney({ amount: 5, currency: 'EUR' }),
    new Intl.NumberFormat(undefined, { style: 'currency', currency: 'EUR' }).format(0.05),
  )
})
