import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { test } from 'node:test'
import { addBuyer } from './buyers.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { type FrontServer, startHaproxy, startNginx } from './front-server.ts'
import { missingProgram } from './programs.ts'
import { startStore, TEST_SECRET } from './store.ts'
import { type StoreProcess, serve } from './store-process.ts'

// Through programs that nobody has configured for this store: what they do by default must be enough.
const PROXIES = [
  { name: 'nginx', start: startNginx },
  { name: 'haproxy', start: startHaproxy },
] as const

const CLIENTS = 6

interface Sent {
  status: number
  headers: Record<string, string | string[] | undefined>
  text: string
  /** The client's port: the same for requests on one connection. */
  from: number | undefined
}

function clientOf(t: Cleanup, { url }: FrontServer, token: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
  onCleanup(t, () => agent.destroy())
  return (method: string, path: string, { body, ...headers }: Record<string, string> = {}) =>
    new Promise<Sent>((resolve, reject) => {
      const all = { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers }
      const sent = request(new URL(path, url), { method, agent, headers: all }, (answer) => {
        const chunks: Buffer[] = []
        const from = answer.socket.localPort
        answer.on('data', (chunk) => chunks.push(chunk)).on('error', reject)
        answer.on('end', () => {
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text: Buffer.concat(chunks).toString(), from })
        })
      })
      sent.on('error', reject).end(body)
    })
}

for (const { name, start } of PROXIES) {
  const options = { skip: missingProgram(name, name) }

  test(`${name} with its defaults passes on lists, orders, refusals, conditions and connections as they are`, options, async (t) => {
    const store = await startStore(t, { port: await freePort(), corsOrigins: '*' })
    await store.pool.query(
      `insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
      select gen_random_uuid(), 'P-' || n, repeat('灯', 290) || n, 'lamps', 100, 'EUR', true from generate_series(1, 250) as n`,
    )
    const lamp = await store.addProduct()
    const buyer = await addBuyer(store)
    const send = clientOf(t, await start(t, [store.config.port]), buyer.token)

    for (const query of ['limit=100', 'limit=100&sort=name', 'limit=37', `limit=100&q=${encodeURIComponent('灯'.repeat(60))}`]) {
      const list = await send('GET', `/products?${query}`)
      assert.equal(list.status, 200, query)
      const [, next] = /<([^>]+)>; rel="next"/.exec(String(list.headers.link)) ?? []
      if (next === undefined) continue
      const { pathname, search } = new URL(next)
      assert.equal((await send('GET', pathname + search)).status, 200, search)
    }
    assert.equal((await send('GET', '/orders?limit=100')).status, 200)
    assert.equal((await send('GET', '/categories')).status, 200)

    const page = await send('GET', '/products?limit=100')
    const head = await send('HEAD', '/products?limit=100')
    assert.deepEqual([head.status, head.text, head.headers.etag], [200, '', page.headers.etag])
    assert.equal((await send('GET', '/products?limit=100', { 'if-none-match': String(page.headers.etag) })).status, 304)
    for (const path of ['/products?limit=100', '/feeds/products.ndjson', '/openapi.json']) {
      const [whole, part] = [await send('GET', path), await send('GET', path, { range: 'bytes=0-9' })]
      assert.ok(part.status === 200 ? part.text === whole.text : part.status === 206 && part.text === whole.text.slice(0, 10), path)
    }

    const order = JSON.stringify({ items: [{ product_id: lamp.id, quantity: 1 }] })
    const placed = await send('POST', '/orders', { body: order, 'idempotency-key': 'one' })
    assert.equal(placed.status, 201, placed.text)
    const again = await send('POST', '/orders', { body: order, 'idempotency-key': 'one' })
    assert.deepEqual([again.status, JSON.parse(again.text).id], [201, JSON.parse(placed.text).id])
    assert.deepEqual(await store.readStock(lamp), [99])

    for (const [method, path, sent, status, code] of [
      ['GET', '/nowhere', {}, 404, 'not_found'],
      ['GET', '/products?nope=1', {}, 400, 'invalid_query'],
      ['GET', '/me', { authorization: 'Bearer nonsense' }, 401, 'invalid_token'],
      ['GET', '/admin/orders', {}, 403, 'forbidden'],
      ['PUT', '/products', { body: '{}' }, 405, 'method_not_allowed'],
      ['POST', '/orders', { body: `{"note":"${'x'.repeat(700_000)}"}` }, 413, 'payload_too_large'],
      ['POST', '/orders', { body: 'x', 'content-type': 'text/plain' }, 415, 'unsupported_media_type'],
      ['POST', '/orders', { body: '{}' }, 422, 'invalid_body'],
    ] as const) {
      const refused = await send(method, path, sent as Record<string, string>)
      assert.ok(refused.text.startsWith('{'), `${method} ${path}: ${refused.status} ${refused.text}`)
      assert.deepEqual([refused.status, JSON.parse(refused.text).code], [status, code], `${method} ${path}`)
      assert.equal(refused.headers['content-type'], 'application/problem+json')
    }

    const ports = new Set<number | undefined>()
    for (let turn = 0; turn < 40; turn++) ports.add((await send('GET', `/products?limit=${1 + turn}`)).from)
    assert.equal(ports.size, 1, 'one connection of the client for all')
  })

  test(`a restart of two API processes in turn behind ${name} fails no request`, options, async (t) => {
    const store = await startStore(t, { baseUrl: 'http://localhost:3000' })
    const [buyer, lamp] = [await addBuyer(store), await store.addProduct({ stock: 1_000_000 })]
    const ports = [await freePort(), await freePort()]
    const env = {
      ...{ DATABASE_URL: store.addresses.api, STOREFRONT_SECRET: TEST_SECRET, BASE_URL: 'http://localhost:3000', ROLES: 'api' },
      ...{ OPS_PORT: 'off', DATA_DIR: store.config.dataDir, DRAIN_DELAY_SECONDS: '3', MAX_PENDING_ORDERS_PER_USER: 'off' },
    }
    const launch = (port = 0) => serve(t, { env: { ...env, PORT: String(port) } })
    const processes: StoreProcess[] = [await launch(ports[0]), await launch(ports[1])]
    const send = clientOf(t, await start(t, ports), buyer.token)
    const counts: Record<string, number> = {}
    const order = JSON.stringify({ items: [{ product_id: lamp.id, quantity: 1 }] })
    let isOver = false
    onCleanup(t, () => {
      isOver = true
    })
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      for (let turn = 0; !isOver; turn++) {
        const asked = client % 2 === 0 ? send('POST', '/orders', { body: order }) : send('GET', `/products?limit=${1 + (turn % 100)}`)
        const outcome = await asked.then(({ status }) => String(status)).catch((error: Error) => error.message)
        counts[outcome] = (counts[outcome] ?? 0) + 1
      }
    })
    const answered = () => (counts[200] ?? 0) + (counts[201] ?? 0)
    const moreAnswers = async () => {
      const before = answered()
      await eventually(async () => answered() > before + 50, { what: 'answers' })
    }
    for (const [index, port] of ports.entries()) {
      await moreAnswers()
      assert.equal(await processes[index]?.end('SIGTERM'), 0)
      await moreAnswers()
      const back = await launch(port)
      processes[index] = back
      // nginx sends a process nothing for 10 s after it has refused a connection: the next one stops when this one is
      // asked again.
      await back.untilLogged(/^request$/)
    }
    await moreAnswers()
    isOver = true
    await Promise.all(clients)
    assert.deepEqual(Object.keys(counts).toSorted(), ['200', '201'], JSON.stringify(counts))
    const { rows } = await store.pool.query<{ count: number }>('select count(*)::integer as count from orders')
    assert.equal(rows[0]?.count, counts[201], 'each order once')
  })
}
