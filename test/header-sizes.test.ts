import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { addBuyer, addBuyers } from './buyers.ts'
import { exchange } from './raw-http.ts'
import { startStore } from './store.ts'

const MAX_BYTES = 3_072
const ORIGIN = `https://${'shop-'.repeat(40)}.example`
const LONGEST = '🏮'.repeat(300)

interface Parameter {
  name: string
  in: string
  schema: { type?: string; enum?: string[]; $ref?: string; maximum?: number; maxLength?: number; pattern?: string }
}
const document = JSON.parse(readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'))
const gets = Object.entries<{ get?: { parameters?: Parameter[] } }>(document.paths).flatMap(([path, { get }]) =>
  get === undefined ? [] : [{ path, parameters: get.parameters ?? [] }],
)
const lists = gets.filter(({ parameters }) => parameters.some(({ name }) => name === 'limit'))

const store = await startStore(
  { after },
  { corsOrigins: [ORIGIN], cdnPurgeUrls: ['varnish://127.0.0.1:1', 'cloudflare://:token@zone'], catalogueLanguage: 'en' },
)
const [admin, buyer] = [await addBuyer(store, 'admin'), await addBuyer(store)]
await addBuyers(store, 110)
const lamp = await store.addProduct({ stock: 1_000 })
await store.pool.query(
  `insert into products (id, sku, name, category, brand, variant_group, price_amount, price_currency, in_stock, translations)
  select gen_random_uuid(), 'LONG-' || n, $1 || n, left($1, 100), left($1, 100), left($1, 64), 100, 'EUR', true, '{"zh-hant-tw-x": {}}'
  from generate_series(100, 220) as n`,
  [LONGEST.slice(0, 2 * 297)],
)
for (let order = 0; order < 2; order++) {
  const placed = await store.call('POST', '/orders', { token: buyer.token, body: { items: [{ product_id: lamp.id, quantity: 1 }] } })
  assert.equal(placed.status, 201)
}

/** Status, bytes of all headers as they are on the wire, and the address of the next page. */
async function readHeaders(target: string, token = admin.token) {
  const head = [
    `GET ${target} HTTP/1.1`,
    ...['Host: shop.example', 'Connection: close', `Origin: ${ORIGIN}`, `X-Request-Id: ${'i'.repeat(128)}`],
    ...(token === undefined ? [] : [`Authorization: Bearer ${token}`]),
  ]
  const answer = await exchange(store, `${head.join('\r\n')}\r\n\r\n`)
  const [headers = '', body = ''] = answer.split('\r\n\r\n')
  return { status: Number(answer.split(' ', 2)[1]), bytes: Buffer.byteLength(headers) + 4, headers, body }
}

/** Query strings: all lists at their largest, and each filter at its longest. */
function worstQueries(parameters: readonly Parameter[]): string[] {
  const limits = ['limit=1', `limit=${parameters.find(({ name }) => name === 'limit')?.schema.maximum}`]
  const values = parameters
    .filter((parameter) => parameter.in === 'query' && !['limit', 'cursor'].includes(parameter.name))
    .flatMap(({ name, schema }) => worstValues(schema).map((value) => `${name}=${value}`))
  const whole = values.filter((value) => !value.startsWith('attr') && !value.startsWith('ids'))
  return limits.flatMap((limit) => [limit, ...values.map((value) => `${limit}&${value}`), `${limit}&${whole.join('&')}`])
}

function worstValues({ type, enum: allowed, maximum, maxLength, pattern }: Parameter['schema']): string[] {
  if (allowed !== undefined) return allowed
  if (type === 'integer') return [String(maximum)]
  if (type === 'boolean') return ['true']
  if (type === 'array') return [Array.from({ length: 20 }, (_, index) => `a${index}=${encodeURIComponent('🏮'.repeat(60))}`).join('&attr=')]
  if (pattern !== undefined && maxLength === 3_700) return [Array(100).fill(lamp.id).join(',')]
  return [encodeURIComponent('🏮'.repeat(Math.min(maxLength ?? 20, 200)))]
}

test('no list has more than 3 KiB of headers, at any limit and with any filter', async () => {
  const largest: Record<string, number> = {}
  for (const { path, parameters } of lists) {
    for (const query of worstQueries(parameters)) {
      const target = `${path.replace('{id}', lamp.id)}?${query}`
      const { status, bytes, body } = await readHeaders(target, path === '/orders' ? buyer.token : admin.token)
      assert.ok(bytes <= MAX_BYTES, `${bytes} bytes, ${status}: ${target.slice(0, 200)}`)
      if (status === 200) largest[path] = Math.max(largest[path] ?? 0, bytes)
      const next = /"next_cursor":"([^"]+)"/.exec(body)?.[1]
      if (next === undefined) continue
      const following = await readHeaders(`${target}&cursor=${next}`, path === '/orders' ? buyer.token : admin.token)
      assert.ok(following.bytes <= MAX_BYTES, `${following.bytes} bytes, ${following.status}: the page after ${target.slice(0, 200)}`)
    }
  }
  assert.ok(lists.length >= 14, `${lists.length} lists`)
  assert.ok(Object.keys(largest).length >= 10, JSON.stringify(largest))
  assert.ok((largest['/products'] ?? 0) > 1_000, 'the longest list has links')
})

test('no other answer has more than 3 KiB of headers, errors included', async () => {
  const moved = await store.addProduct({ name: '灯'.repeat(100) })
  const { rows } = await store.pool.query('select slug from product_slugs where product_id = $1', [moved.id])
  const slug = encodeURIComponent(rows[0].slug)
  const others = gets.filter(({ path }) => !path.includes('/export') && !path.startsWith('/feeds'))
  const targets = [
    ...others.map(({ path }) =>
      path
        .replace('{id}', lamp.id)
        .replace('{slug}', slug)
        .replaceAll(/\{\w+\}/g, 'x'),
    ),
    ...[`/products/by-slug/${encodeURIComponent(rows[0].slug.toUpperCase())}%20?lang=zh-Hant-TW&currency=EUR`, '/nowhere', '/products?x=1'],
    ...['/feeds/products.ndjson', '/console', '/docs', '/problems/not_found', '/console/none', '/openapi.json'],
  ]
  for (const target of targets) {
    for (const token of [undefined, admin.token, buyer.token]) {
      const { bytes, status } = await readHeaders(target, token)
      assert.ok(bytes <= MAX_BYTES, `${bytes} bytes, ${status}: ${target}`)
    }
  }
})

test('each kind of cache that is configured gets its header of tags, and without one Varnish and Fastly do', async (t) => {
  for (const [cdnPurgeUrls, expected] of [
    [[], ['surrogate-key']],
    [['varnish://127.0.0.1:1', 'fastly://:token@service'], ['surrogate-key']],
    [['cloudflare://:token@zone'], ['cache-tag']],
    [
      ['varnish://127.0.0.1:1', 'cloudflare://:token@zone'],
      ['surrogate-key', 'cache-tag'],
    ],
  ] as const) {
    const other = await startStore(t, { cdnPurgeUrls })
    const product = await other.addProduct()
    const { headers } = await other.call('GET', `/products/${product.id}`)
    const sent = Object.fromEntries(Object.entries(headers).filter(([name]) => ['surrogate-key', 'cache-tag'].includes(name)))
    const tag = Buffer.from(product.id.replaceAll('-', ''), 'hex').toString('base64url')
    const values = { 'surrogate-key': `catalogue ${tag}`, 'cache-tag': `catalogue,${tag}` }
    assert.deepEqual(sent, Object.fromEntries(expected.map((name) => [name, values[name]])))
  }
})
