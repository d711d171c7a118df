import assert from 'node:assert/strict'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { networkInterfaces } from 'node:os'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { eventually, promptly } from '../../../test/eventually.ts'
import { freePort } from '../../../test/free-port.ts'
import { startSecondProcess, startStore } from '../../../test/store.ts'
import { startVarnish, varnishMissing } from '../../../test/varnish.ts'
import type { Pool } from '../../db/pool.ts'
import { ADVERTISING_PARAMETERS } from '../../http/advertising-parameters.ts'
import { PROBLEMS } from '../../http/problem.ts'
import { productTag } from '../events.ts'

// One store behind one Varnish, which the store purges. Answers stay fresh for an hour, so only a purge renews them.
const options = { skip: varnishMissing }
const [backendPort, purgePort] = varnishMissing === false ? [await freePort(), await freePort()] : [0, 0]
const running = varnishMissing === false ? await start() : null

/** Waits until both purges of every change have arrived. */
async function bothPurgesOf(pool: Pool): Promise<void> {
  await eventually(
    async () => {
      const { rows } = await pool.query('select (select count(*) from catalogue_changes) + (select count(*) from cache_purges) as waiting')
      return rows[0].waiting === 0
    },
    { what: 'both purges of the last change have arrived' },
  )
}

async function start() {
  const store = await startStore(
    { after },
    {
      roles: ['api', 'stream'],
      port: backendPort,
      sharedCacheSeconds: 3_600,
      cdnPurgeUrls: [`varnish://127.0.0.1:${purgePort}`],
    },
  )
  const asked: string[] = []
  store.server.server.on('request', ({ url = '' }) => void asked.push(url))
  const varnish = await startVarnish({ after }, backendPort, purgePort)
  const lamp = await store.addProduct({ name: 'A lamp', amount: 1_000 })
  await bothPurgesOf(store.pool)
  return { store, varnish, lamp, asked }
}

function setup() {
  if (running === null) throw new Error('Varnish is missing')
  return running
}

test('sends one request to the store if a hundred readers want the same page', options, async () => {
  const { varnish, asked } = setup()
  const answers = await Promise.all(
    Array.from({ length: 100 }, async () => {
      const answer = await fetch(`${varnish.url}/products?limit=7`)
      return { status: answer.status, text: await answer.text() }
    }),
  )
  assert.ok(answers.every(({ status, text }) => status === 200 && text === answers[0]?.text))
  assert.equal(asked.filter((path) => path === '/products?limit=7').length, 1)
})

test('sends the same cached bytes to a request with a token or a cookie', options, async () => {
  const { varnish, lamp, asked } = setup()
  const url = `${varnish.url}/products/${lamp.id}`
  const first = await fetch(url)
  const text = await first.text()
  const countAsked = () => asked.filter((path) => url.endsWith(path)).length
  const before = countAsked()
  for (const headers of [{ authorization: 'Bearer nonsense' }, { cookie: 'session=1' }]) {
    const answer = await fetch(url, { headers })
    assert.equal(await answer.text(), text)
    assert.equal(answer.headers.get('etag'), first.headers.get('etag'))
    assert.equal(answer.headers.get('x-cache'), 'hit')
  }
  assert.equal(countAsked(), before)
  assert.equal(first.headers.get('surrogate-key'), null, 'tags are for caches only')
})

test('caches only the catalogue', options, async () => {
  const { store, varnish } = setup()
  const { token } = await store.register()
  const me = await fetch(`${varnish.url}/me`, { headers: { authorization: `Bearer ${token}` } })
  assert.equal(me.status, 200)
  assert.equal((await fetch(`${varnish.url}/me`)).status, 401)
  assert.equal((await fetch(`${varnish.url}/admin/products`, { method: 'POST' })).status, 401)
})

test('keeps the category tree until a category changes', options, async () => {
  const { store, varnish, asked } = setup()
  const read = async () => {
    const answer = await fetch(`${varnish.url}/categories`)
    const { data } = (await answer.json()) as { data: { name: string }[] }
    return { isHit: answer.headers.get('x-cache') === 'hit', names: data.map(({ name }) => name) }
  }
  const first = await read()
  assert.deepEqual(await read(), { ...first, isHit: true })
  assert.equal(asked.filter((path) => path === '/categories').length, 1)
  await store.pool.query(`insert into categories (id, slug, name, position) values (gen_random_uuid(), 'new-here', 'New here', 99)`)
  await promptly(store.pool, async () => (await read()).names.includes('New here'), { withinMs: 5_000, what: 'the new category' })
})

test('passes feeds on unchanged, and stores none', options, async () => {
  const { varnish, asked, lamp } = setup()
  for (let time = 1; time <= 2; time++) {
    const answer = await fetch(`${varnish.url}/feeds/products.ndjson`)
    assert.ok((await answer.text()).includes(lamp.id))
    assert.equal(asked.filter((path) => path === '/feeds/products.ndjson').length, time)
  }
  assert.equal((await fetch(`${varnish.url}/feeds/products.xml`)).status, 404, 'a store without SHOP_PRODUCT_URL')
  assert.equal((await fetch(`${varnish.url}/feeds/products.ndjson`, { method: 'HEAD' })).status, 200)
})

test('stores a page once for each language of the catalogue, whatever headers clients send', options, async () => {
  const { store, varnish, asked } = setup()
  const translated = await store.addProduct({ name: 'A chair' })
  const translations = { de: { name: 'Ein Stuhl' }, fr: { name: 'Une chaise' } }
  await store.pool.query('update products set translations = $2 where id = $1', [translated.id, translations])
  const path = `/products/${translated.id}`
  const countAsked = () => asked.filter((url) => url === path).length
  const read = async (accept: string) => {
    const answer = await fetch(`${varnish.url}${path}`, { headers: { 'accept-language': accept } })
    return ((await answer.json()) as { name: string }).name
  }
  await eventually(async () => (await read('de')) === 'Ein Stuhl' && (await read('fr')) === 'Une chaise')
  await eventually(async () => (await read('en')) === 'A chair' && (await read('*')) === 'A chair')
  await bothPurgesOf(store.pool)
  for (const accept of ['de', 'fr', 'en', '*']) await read(accept)
  const before = countAsked()
  const regions = Array.from({ length: 1_000 }, (_, index) => `de-${String(index).padStart(3, '0')},en;q=0.5`)
  for (const [accept, name] of [
    ...regions.map((region) => [region, 'Ein Stuhl']),
    ['DE-at', 'Ein Stuhl'],
    ['nl, fr-CA;q=0.9, de;q=0.8', 'Une chaise'],
    ['de;q=0, fr ; q=0.1', 'Une chaise'],
    ['de;q=0.0,nl', 'A chair'],
    ['de;q=0.01', 'Ein Stuhl'],
    ['deu, den-DE, x-de', 'A chair'],
    ['', 'A chair'],
    ['*;q=0.5', 'A chair'],
    [`${'nl,'.repeat(160)}de`, 'Ein Stuhl'],
    [`${'nl,'.repeat(2_000)}de`, 'A chair'],
    [`${', '.repeat(240)}de`, 'Ein Stuhl'],
    ['en;q=0.1,de', 'Ein Stuhl'],
    ['en;q=0.85,fr;q=0.9,de;q=0.89', 'Une chaise'],
    ['en;q=0.3, de;q=0.301, fr;q=0.3', 'Ein Stuhl'],
    ['fr;q=0.5,de;q=0.5,en;q=0.50', 'Une chaise'],
    ['en;q=0.001,de;q=0,fr;q=2', 'A chair'],
    ['de-AT;q=0.2 , fr-CH ; Q=1.000', 'Une chaise'],
    ['de;q=1.5,en;q=0.1', 'A chair'],
    ['de;level=1,fr;q=0.1', 'Une chaise'],
    ['-;q=,,;;=', 'A chair'],
    ['d'.repeat(5_000), 'A chair'],
  ] as const) {
    assert.equal(await read(accept ?? ''), name, accept?.slice(0, 40))
  }
  assert.equal(countAsked(), before)
})

test('chooses the same language as the store', options, async () => {
  const { store, varnish } = setup()
  const chair = await store.addProduct({ name: 'A stool' })
  await store.pool.query('update products set translations = $2 where id = $1', [
    chair.id,
    { de: { name: 'Hocker' }, fr: { name: 'Tabouret' } },
  ])
  const read = async (origin: string, accept: string) => {
    const answer = await fetch(`${origin}/products/${chair.id}`, { headers: { 'accept-language': accept } })
    return ((await answer.json()) as { name?: string }).name
  }
  const direct = `http://127.0.0.1:${store.config.port}`
  await eventually(async () => (await read(direct, 'fr')) === 'Tabouret' && (await read(varnish.url, 'de')) === 'Hocker')
  await bothPurgesOf(store.pool)
  const tag = fc.constantFrom('en', 'de', 'fr', 'de-AT', 'FR-ca', 'nl', 'zh-Hant', '*')
  const quality = fc.constantFrom('', ';q=1', ';q=0.9', '; q=0.85', ';q=0.8', ';q=0.801', ';q=0.1', ';q=0.05', ';q=1.0')
  const header = fc
    .uniqueArray(fc.tuple(tag, quality), { minLength: 1, maxLength: 6, selector: ([name]) => name.slice(0, 2).toLowerCase() })
    .map((ranges) => ranges.map((range) => range.join('')).join(', '))
  await fc.assert(
    fc.asyncProperty(header, async (accept) => assert.equal(await read(varnish.url, accept), await read(direct, accept), accept)),
    { numRuns: 300 },
  )
})

test('stores a page once, whatever parameters advertisers add to its address', options, async () => {
  const { varnish, lamp, asked } = setup()
  const path = `/products?ids=${lamp.id}&limit=11`
  const first = await (await fetch(varnish.url + path)).text()
  const before = asked.length
  for (const name of ADVERTISING_PARAMETERS.replace('utm_[^=&]*', 'utm_source|utm_x').split('|')) {
    for (const added of [`${path}&${name}=1`, `/products?${name}=2&ids=${lamp.id}&${name}&limit=11`]) {
      const answer = await fetch(varnish.url + added)
      assert.deepEqual([answer.headers.get('x-cache'), await answer.text()], ['hit', first], added)
    }
  }
  assert.equal((await fetch(`${varnish.url}${path}&xgclid=1`)).status, 400)
  assert.deepEqual(
    asked.slice(before).filter((url) => url.includes('utm_')),
    [],
  )
})

test('accepts bans only by tags', options, async () => {
  const { varnish } = setup()
  for (const key of ['', '.*', 'a|b', 'a)(b']) {
    assert.equal((await fetch(`${varnish.url}/`, { method: 'PURGE', headers: { 'surrogate-key': key } })).status, 400, key)
  }
  assert.equal((await fetch(`${varnish.url}/`, { method: 'PURGE' })).status, 400)
})

test('only the configured hosts may purge, also through a proxy', options, async () => {
  const { varnish, lamp } = setup()
  const url = `${varnish.url}/products/${lamp.id}`
  const purge = (localAddress: string, headers: Record<string, string> = {}) =>
    new Promise<number | undefined>((resolve, reject) => {
      request(varnish.url, { method: 'PURGE', localAddress, headers: { 'surrogate-key': productTag(lamp.id), ...headers } }, (answer) => {
        answer.resume()
        resolve(answer.statusCode)
      })
        .on('error', reject)
        .end()
    })
  const privateAddresses = Object.values(networkInterfaces()).flatMap((list) =>
    (list ?? []).filter(({ family, internal }) => family === 'IPv4' && !internal).map(({ address }) => address),
  )
  await fetch(url)
  for (const stranger of ['127.0.0.2', ...privateAddresses]) assert.equal(await purge(stranger), 403, stranger)
  assert.equal(await purge('127.0.0.1', { 'x-forwarded-for': '203.0.113.7' }), 403, 'through a proxy of this host')
  assert.equal((await fetch(url)).headers.get('x-cache'), 'hit', 'the cache was not emptied')
  assert.equal(await purge('127.0.0.1'), 200)
  assert.equal((await fetch(url)).headers.get('x-cache'), 'miss')
})

test("never sends a reader another reader's request id", options, async () => {
  const { varnish } = setup()
  const url = `${varnish.url}/products?limit=9`
  const ids = []
  for (const headers of [{ 'x-request-id': 'from-a-visitor' }, {}, {}])
    ids.push((await fetch(url, { headers })).headers.get('x-request-id'))
  assert.equal(new Set(ids).size, 3, ids.join())
  assert.ok(!ids.includes('from-a-visitor'))
})

test('sends a request to the other process if one process hangs', options, async (t) => {
  const { store } = setup()
  // Answers the probe of Varnish and no other request.
  const hanging = createServer((asked, answer) => void (asked.url === '/livez' && answer.end()))
  await new Promise<void>((resolve) => void hanging.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    hanging.closeAllConnections()
    hanging.close()
  })
  const { url } = await startVarnish(t, [(hanging.address() as AddressInfo).port, store.config.port])
  const answers = await Promise.all(
    ['limit=3', 'limit=4'].map((query) => fetch(`${url}/products?${query}`, { signal: AbortSignal.timeout(25_000) })),
  )
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200],
  )
})

test('shows a changed price through Varnish after the first or the second purge', options, async () => {
  const { store, varnish, lamp } = setup()
  for (const path of [`/products/${lamp.id}`, `/products?ids=${lamp.id}`]) {
    const read = async () => {
      const json = (await (await fetch(`${varnish.url}${path}`)).json()) as {
        price?: { amount: number }
        data: { price: { amount: number } }[]
      }
      return (json.price ?? json.data[0]?.price)?.amount
    }
    const old = await read()
    assert.equal(await read(), old)
    const amount = (old ?? 0) + 1
    await store.pool.query('update products set price_amount = $2 where id = $1', [lamp.id, amount])
    await promptly(store.pool, async () => (await read()) === amount, { withinMs: 5_000, what: `the new price at ${path}` })
  }
})

test('serves the stale page while the store is down', options, async (t) => {
  const store = await startStore(t, { port: await freePort(), sharedCacheSeconds: 1 })
  const lamp = await store.addProduct()
  const { url } = await startVarnish(t, store.config.port)
  const read = async () => {
    const answer = await fetch(`${url}/products/${lamp.id}`)
    return { status: answer.status, text: await answer.text(), ageSeconds: Number(answer.headers.get('age')) }
  }
  const fresh = await read()
  assert.equal(fresh.status, 200)
  await store.app.stop()
  await eventually(
    async () => {
      const { ageSeconds, ...answer } = await read()
      assert.deepEqual(answer, { status: 200, text: fresh.text })
      return ageSeconds > 1
    },
    { what: 'a stale answer' },
  )
  // Varnish's requests fail until its probe marks the store as down. Then it serves its own copy.
  for (let time = 0; time < 10; time++) assert.equal((await read()).text, fresh.text)
})

test('one of two processes is enough, and without both the answer is a problem document', options, async (t) => {
  const [first, second] = [await freePort(), await freePort()]
  const store = await startStore(t, { port: first, corsOrigins: ['https://shop.example'], sharedCacheSeconds: 1 })
  const other = await startSecondProcess(t, store, { port: second, corsOrigins: ['https://shop.example'], sharedCacheSeconds: 1 })
  const seen: string[] = []
  store.app.server?.server.on('request', ({ url }) => void seen.push(`first ${url}`))
  other.app.server?.server.on('request', ({ url }) => void seen.push(`second ${url}`))
  const lamp = await store.addProduct()
  const { token } = await store.register()
  const { url } = await startVarnish(t, [first, second])
  const headers = { authorization: `Bearer ${token}`, origin: 'https://shop.example' }
  const me = () => fetch(`${url}/me`, { headers })
  for (let time = 0; time < 10; time++) assert.equal((await me()).status, 200)
  assert.ok(seen.includes('first /me') && seen.includes('second /me'), 'in turn')
  assert.equal((await fetch(`${url}/products/${lamp.id}`)).status, 200)

  await other.app.stop()
  for (let time = 0; time < 10; time++) assert.equal((await me()).status, 200, 'a call that reads goes to the other one')

  await store.app.stop()
  const away = await me()
  assert.equal(away.status, 503)
  assert.equal(away.headers.get('content-type'), 'application/problem+json')
  assert.equal(away.headers.get('access-control-allow-origin'), '*')
  assert.equal(away.headers.get('retry-after'), '5')
  const { request_id, ...problem } = (await away.json()) as Record<string, unknown>
  assert.equal(request_id, away.headers.get('x-request-id'))
  assert.deepEqual(problem, {
    type: '/problems/unavailable',
    title: PROBLEMS.unavailable.title,
    status: 503,
    detail: 'No process of the store answers.',
    code: 'unavailable',
  })
  const ordered = await fetch(`${url}/orders`, { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: '{}' })
  assert.deepEqual([ordered.status, ((await ordered.json()) as { code: string }).code], [503, 'unavailable'])
  assert.equal((await fetch(`${url}/products/${lamp.id}`)).status, 200, 'its own copy')

  const wanted = 'authorization, content-type, idempotency-key, if-match'
  const asked = { origin: 'https://shop.example', 'access-control-request-method': 'POST', 'access-control-request-headers': wanted }
  const preflight = await eventually(
    async () => {
      const answer = await fetch(`${url}/orders`, { method: 'OPTIONS', headers: asked })
      return answer.status === 204 && answer
    },
    { what: 'Varnish marks both as down' },
  )
  assert.equal(preflight.headers.get('access-control-allow-origin'), '*')
  const allowed = (preflight.headers.get('access-control-allow-headers') ?? '').toLowerCase().split(', ')
  assert.ok(wanted.split(', ').every((name) => allowed.includes(name)))
  assert.equal(await preflight.text(), '')
})
