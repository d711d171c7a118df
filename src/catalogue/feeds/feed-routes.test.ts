import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, test } from 'node:test'
import { eventually } from '../../../test/eventually.ts'
import { exchange, openSocket } from '../../../test/raw-http.ts'
import { readItems } from '../../../test/read-rss.ts'
import { startStore } from '../../../test/store.ts'
import { listDetailsAfter, type StoredProduct } from '../product-details.ts'

const PRODUCTS = 250
const shopProductUrl = 'https://shop.example/products/{slug}?from=feed#{slug}'
const store = await startStore({ after }, { shopProductUrl, trustProxy: 1, isNetworkLimited: true })
await store.pool.query(
  `insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
  select gen_random_uuid(), 'P' || place, 'Product & ' || place, 'things', place, 'EUR', place % 2 = 0
  from generate_series(1, $1) as place`,
  [PRODUCTS],
)
const archived = await store.addProduct({ name: 'Archived' })
await store.pool.query('update products set archived_at = now() where id = $1', [archived.id])
const XML = '/feeds/products.xml'
const NDJSON = '/feeds/products.ndjson'

async function countOpenTransactions(): Promise<number> {
  const { rows } = await store.pool.query<{ count: number }>(
    `select count(*)::integer as count from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and state like 'idle in transaction%'`,
  )
  return rows[0]?.count ?? -1
}

const readOverConnection = (path: string, client = '198.51.100.1') =>
  exchange(store, `GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-forwarded-for: ${client}\r\n\r\n`)

test('the feed for advertisers has each product once, in id order', async () => {
  const answer = await store.call('GET', XML)
  assert.equal(answer.status, 200)
  assert.equal(answer.headers['content-type'], 'application/xml; charset=utf-8')
  assert.match(
    answer.text,
    /^<\?xml version="1\.0" encoding="UTF-8"\?>\n<rss version="2\.0" xmlns:g="http:\/\/base\.google\.com\/ns\/1\.0">/,
  )
  assert.match(answer.text, /<channel>\n<title>shop\.example<\/title>\n<link>https:\/\/shop\.example\/<\/link>/)
  assert.match(answer.text, /<\/channel>\n<\/rss>\n$/)
  const ids = readItems(answer.text).map((item) => item['g:id']?.[0] ?? '')
  assert.equal(ids.length, PRODUCTS)
  assert.deepEqual(ids, [...new Set(ids)].sort())
  const item = readItems(answer.text).find(({ title }) => title?.[0] === 'Product & 7')
  assert.deepEqual(item?.link, ['https://shop.example/products/product-7?from=feed#product-7'])
  assert.deepEqual([item?.['g:price'], item?.['g:availability']], [['0.07 EUR'], ['out_of_stock']])
})

test('the NDJSON feed has each product as its page shows it', async () => {
  const answer = await store.call('GET', NDJSON)
  assert.equal(answer.headers['content-type'], 'application/x-ndjson')
  const lines = answer.text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  assert.equal(lines.length, PRODUCTS)
  for (const { link, ...product } of lines.slice(0, 3)) {
    assert.deepEqual(product, (await store.call('GET', `/products/${product.id}`)).json)
    assert.equal(link, `https://shop.example/products/${product.slug}?from=feed#${product.slug}`)
  }
})

test('any cache may store a feed until a product changes', async () => {
  for (const path of [XML, NDJSON]) {
    const first = await store.call('GET', path)
    const list = await store.call('GET', '/products')
    for (const header of ['cache-control', 'cdn-cache-control', 'access-control-allow-origin', 'last-modified']) {
      assert.equal(first.headers[header], list.headers[header], header)
    }
    assert.equal(first.headers['surrogate-key'], 'catalogue products')
    const etag = first.headers.etag ?? ''
    const condition = { headers: { 'if-none-match': etag } }
    const known = await store.call('GET', path, condition)
    assert.deepEqual([known.status, known.text, known.headers.etag], [304, '', etag])
    assert.equal((await store.call('HEAD', path, condition)).status, 304)
    assert.equal((await store.call('GET', path, { headers: { 'if-none-match': '"other"' } })).text, first.text)
    await store.pool.query(`update products set brand = 'New' where sku = 'P1'`)
    await eventually(async () => (await store.call('GET', path, condition)).status === 200)
  }
  assert.notEqual((await store.call('HEAD', XML)).headers.etag, (await store.call('HEAD', NDJSON)).headers.etag)
})

test('a 304 answer needs no query', async (t) => {
  const { headers } = await store.call('GET', XML)
  const tx = await store.pool.connect()
  t.after(() => tx.release())
  await tx.query('begin; lock table products in access exclusive mode')
  try {
    assert.equal((await store.call('GET', XML, { headers: { 'if-none-match': headers.etag ?? '' } })).status, 304)
    assert.equal((await store.call('HEAD', XML)).status, 200)
  } finally {
    await tx.query('rollback')
  }
})

test('HEAD returns the headers of GET', async () => {
  for (const path of [XML, NDJSON]) {
    const [get, head] = [await store.call('GET', path), await store.call('HEAD', path)]
    assert.deepEqual([head.status, head.text, head.headers['content-length']], [200, '', undefined])
    for (const header of ['etag', 'content-type', 'cache-control', 'last-modified', 'surrogate-key', 'accept-ranges']) {
      assert.equal(head.headers[header], get.headers[header], header)
    }
  }
})

test('a range request gets the whole feed', async () => {
  const answer = await store.call('GET', XML, { headers: { range: 'bytes=0-9' } })
  assert.deepEqual([answer.status, answer.headers['accept-ranges']], [200, 'none'])
  assert.match(answer.text, /<\/rss>\n$/)
})

test("a store that does not know its shop's address has lines without links, and no feed for advertisers", async (t) => {
  const other = await startStore(t)
  await other.addProduct({ name: 'Lamp' })
  const answer = await other.call('GET', XML)
  assert.deepEqual([answer.status, answer.json.code], [404, 'not_found'])
  assert.match(answer.json.detail, /SHOP_PRODUCT_URL/)
  const line = JSON.parse((await other.call('GET', NDJSON)).text)
  assert.equal(line.name, 'Lamp')
  assert.ok(!('link' in line))
})

test('texts are in the requested language, and the Accept-Language header is ignored', async (t) => {
  const shop = await startStore(t, { shopProductUrl: 'https://shop.example/{lang}/{slug}' })
  const { id } = await shop.addProduct({ name: 'A lamp' })
  await shop.addProduct({ name: 'A vase' })
  await shop.pool.query('update products set translations = $2 where id = $1', [
    id,
    { de: { name: 'Eine Lampe' }, 'de-AT': { description: 'Hell' } },
  ])
  const read = async (query: string) => {
    const { headers, text } = await shop.call('GET', `${XML}${query}`, { headers: { 'accept-language': 'de' } })
    const item = readItems(text).find((one) => one['g:id']?.[0] === id)
    return [item?.title?.[0], item?.description?.[0], item?.link?.[0], headers['content-language'], headers.vary]
  }
  const page = (language: string, ...texts: string[]) => [...texts, `https://shop.example/${language}/a-lamp`]
  await eventually(async () => (await read('?lang=de'))[0] === 'Eine Lampe')
  assert.deepEqual(await read(''), [...page('en', 'A lamp', 'A lamp'), undefined, 'Accept-Encoding'])
  assert.deepEqual(await read('?lang=de'), [...page('de', 'Eine Lampe', 'Eine Lampe'), 'de', 'Accept-Encoding'])
  assert.deepEqual(await read('?lang=de-at'), [...page('de-AT', 'Eine Lampe', 'Hell'), 'de-AT', 'Accept-Encoding'])
  assert.deepEqual((await read('?lang=fr')).slice(0, 2), ['A lamp', 'A lamp'])
  assert.equal((await shop.call('GET', `${XML}?lang=-`)).status, 400)
  const etags = new Set<string>()
  for (const query of ['', '?lang=de', '?lang=de-AT']) {
    const etag = (await shop.call('GET', `${XML}${query}`)).headers.etag ?? ''
    assert.equal((await shop.call('GET', `${XML}${query}`, { headers: { 'if-none-match': etag } })).status, 304)
    etags.add(etag)
  }
  assert.equal(etags.size, 3)
})

test('products with long texts are read in several batches', async (t) => {
  const shop = await startStore(t)
  await shop.pool.query(
    `insert into products (id, sku, name, category, price_amount, price_currency, in_stock, translations)
    select gen_random_uuid(), 'P' || place, 'Product', 'things', 1, 'EUR', true,
      jsonb_build_object('de', jsonb_build_object('description', (
        -- Text that cannot be compressed to much less.
        select string_agg(md5(place || ' ' || part), '') from generate_series(1, 2000) as part
      )))
    from generate_series(1, 60) as place`,
  )
  const sizes: number[][] = []
  for (const isTranslated of [true, false]) {
    const reads: StoredProduct[][] = []
    for (let id: string | undefined = '00000000-0000-0000-0000-000000000000'; id !== undefined; id = reads.at(-1)?.at(-1)?.id)
      reads.push(await listDetailsAfter(shop.pool, id, 50, isTranslated))
    const products = reads.flat()
    assert.equal(new Set(products.map(({ id }) => id)).size, 60)
    assert.ok(products.every(({ translations }) => (translations.de?.description?.length ?? 0) === (isTranslated ? 64_000 : 0)))
    sizes.push(reads.map((read) => read.length))
  }
  assert.ok(
    sizes[0]?.every((size) => size <= 30),
    String(sizes),
  )
  assert.deepEqual(sizes[1], [50, 10, 0])
  const lines = (await shop.call('GET', `${NDJSON}?lang=de`)).text.trimEnd().split('\n')
  assert.equal(lines.length, 60)
  assert.ok(lines.every((line) => JSON.parse(line).description.length === 64_000))
})

test('a client can have four feeds at once, even if it uses many networks of its IPv6 site', async () => {
  await store.pool.query(`update products set description = repeat('€', 10000)`)
  const sockets = await Promise.all(Array.from({ length: 4 }, () => openSocket(store)))
  const fetchFrom = (address: string) => store.call('GET', NDJSON, { headers: { 'x-forwarded-for': address } })
  try {
    for (const [index, socket] of sockets.entries()) {
      socket.write(`GET ${NDJSON} HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: 2001:db8:1:${index}::1\r\n\r\n`)
      await once(socket, 'readable')
    }
    const refused = await fetchFrom('2001:db8:1:ffff::9')
    assert.deepEqual([refused.status, refused.json.code, refused.headers['retry-after']], [429, 'rate_limited', '30'])
    assert.equal((await fetchFrom('2001:db8:2:1::1')).status, 200)
  } finally {
    for (const socket of sockets) socket.destroy()
    await store.pool.query(`update products set description = ''`)
  }
  await eventually(async () => (await fetchFrom('2001:db8:1:2::9')).status === 200)
})

test('an empty catalogue is an empty feed', async (t) => {
  const empty = await startStore(t, { shopProductUrl: 'https://shop.example/{slug}' })
  assert.equal((await empty.call('GET', NDJSON)).text, '')
  assert.deepEqual(readItems((await empty.call('GET', XML)).text), [])
})

test('a product that changes while a feed is being sent is in it once', async () => {
  const socket = await openSocket(store)
  try {
    await store.pool.query(`update products set description = repeat('x', 10000)`)
    socket.write(`GET ${NDJSON} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`)
    let text = ''
    socket.setEncoding('utf8')
    await once(socket, 'readable')
    await store.pool.query(`update products set name = 'Renamed', price_amount = 5`)
    for await (const chunk of socket) text += chunk
    const ids = text.match(/\{"id":"[^"]+","slug":"[^"]+","sku"/g) ?? []
    assert.equal(new Set(ids).size, PRODUCTS)
    assert.equal(ids.length, PRODUCTS)
  } finally {
    socket.destroy()
    await store.pool.query(`update products set description = ''`)
  }
})

test('100 clients that read nothing hold no database connection, and give way to a client that reads', async () => {
  // The feed must be larger than the buffers of a connection.
  await store.pool.query(`update products set description = repeat('€', 10000)`)
  const sockets = await Promise.all(Array.from({ length: 100 }, () => openSocket(store)))
  try {
    for (const [index, socket] of sockets.entries()) {
      socket.pause()
      socket.write(`GET ${NDJSON} HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: 192.0.2.${index}\r\n\r\n`)
    }
    // Over a connection, which the store may reset while requests of the others still arrive.
    await eventually(async () => (await readOverConnection(NDJSON)).split('\n').filter((line) => line.startsWith('{')).length === PRODUCTS)
    await eventually(async () => (await countOpenTransactions()) === 0)
    assert.equal((await store.call('GET', '/products?sort=name')).status, 200)
  } finally {
    for (const socket of sockets) socket.destroy()
    await store.pool.query(`update products set description = ''`)
  }
  // Each that went away has given its place back.
  await eventually(async () => {
    const answers = await Promise.all(Array.from({ length: 64 }, (_, index) => readOverConnection(XML, `192.0.2.${index}`)))
    return answers.every((text) => text.startsWith('HTTP/1.1 200 ') && text.includes('</rss>'))
  })
})
