import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import { createPathList, sitemap } from '../examples/shop/server/search-engines.ts'
import { NO_CHROMIUM, openBrowser } from './chromium.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { assertUsable, withoutRefusals } from './console-harness.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { placeLinkedOrder } from './order-links.ts'
import { registerOperator } from './register-operator.ts'
import { startShop } from './shop-process.ts'
import { startStore } from './store.ts'

const MOST_BYTES = 120_000
const MOST_SHIFT = 0.1

/** A shop with 30 products in two languages and two currencies, in a category below another. */
async function openShop(t: Cleanup) {
  const [port, apiPort] = [await freePort(), await freePort()]
  const origin = `http://localhost:${port}`
  const baseUrl = `http://localhost:${apiPort}`
  const store = await startStore(t, { corsOrigins: [origin], port: apiPort, baseUrl })
  const { token } = await registerOperator(store)
  const send = async (path: string, body: object) => {
    const { status, json, text } = await store.call('POST', path, { token, body })
    assert.ok(status < 300, text)
    return json
  }
  const image = { url: `${baseUrl}/sample-pictures/mug.sage.svg`, width: 800, height: 800 }
  for (let number = 1; number <= 30; number++) {
    await send('/admin/products', {
      ...{ sku: `CUP-${number}`, slug: `cup-${number}`, name: `Cup ${number}`, description: `The cup ${number}.` },
      ...{ categories: [['Kitchen', 'Cups']], brand: number % 2 === 0 ? 'Even' : 'Odd', images: [image], stock: 5 },
      ...{ price: { amount: 1_000 + number, currency: 'EUR' }, prices: [{ amount: 2_000 + number, currency: 'USD' }] },
      translations: { de: { name: `Tasse ${number}`, description: `Die Tasse ${number}.` } },
      attributes: { material: number < 4 ? 'glass' : 'stoneware' },
    })
  }
  await startShop(t, port, baseUrl)
  return { origin, store, send, browser: await openBrowser(t) }
}

async function fillOrder(page: Page): Promise<void> {
  const fields = { 'E-mail': 'ada@example.com', Name: 'Ada', Street: 'Ring 1', 'Postal code': '1010', City: 'Wien' }
  for (const [label, value] of Object.entries(fields)) await page.getByLabel(label, { exact: true }).fill(value)
  await page.getByLabel('Country').selectOption('AT')
}

const names = (page: Page) => page.getByRole('list', { name: 'Products' }).getByRole('heading').allTextContents()
const read = async (url: string, headers: Record<string, string> = {}) => {
  const answer = await fetch(url, { headers, redirect: 'manual' })
  return { answer, text: await answer.text() }
}

test('without scripts a visitor lists, searches, filters, sorts and reads products', { skip: NO_CHROMIUM }, async (t) => {
  const { origin, browser } = await openShop(t)
  const { page } = await browser.open({ width: 390, hasScripts: false })
  await page.goto(origin)
  const first = await names(page)
  await page.getByRole('link', { name: 'More products' }).click()
  const second = await names(page)
  assert.deepEqual([first.length, second.length, new Set([...first, ...second]).size], [24, 6, 30])
  await page.getByLabel('Search').fill('cup 7')
  await page.getByRole('button', { name: 'Search' }).click()
  assert.deepEqual(await names(page), ['Cup 7'])

  await page.getByRole('navigation', { name: 'Categories' }).getByRole('link', { name: 'Kitchen' }).click()
  await page.getByRole('navigation', { name: 'Subcategories' }).getByRole('link', { name: 'Cups' }).click()
  await page.getByLabel('Brand').selectOption('Odd')
  await page.getByLabel('Material').selectOption({ label: 'glass (3)' })
  await page.getByLabel('Sort').selectOption('-price')
  await page.getByRole('button', { name: 'Show' }).click()
  assert.equal(new URL(page.url()).pathname, '/categories/cups')
  assert.deepEqual(await names(page), ['Cup 3', 'Cup 1'])
  assert.equal(await page.getByLabel('Brand').inputValue(), 'Odd')
  await page.getByRole('link', { name: 'Cup 3' }).click()
  await page.getByText('The cup 3.').waitFor()
  assert.match(await page.content(), /<noscript>.*Ordering needs JavaScript\./)
})

test('the first view has less than 120 kB without pictures, does not move, and its largest part comes from the server', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { origin, browser } = await openShop(t)
  for (const [width, path] of [
    [1_280, '/'],
    [390, '/'],
    [1_280, '/products/cup-1'],
    [390, '/products/cup-1'],
  ] as const) {
    const { page, complaints } = await browser.open({ width })
    const what = `${path} at ${width} px`
    const sizes: Promise<{ kind: string; bytes: number }>[] = []
    page.on('requestfinished', (request) => {
      const read = async () => {
        const { responseBodySize, responseHeadersSize } = await request.sizes()
        return { kind: request.resourceType(), bytes: responseBodySize + responseHeadersSize }
      }
      if (request.resourceType() !== 'image') sizes.push(read())
    })
    await page.addInitScript(`
      globalThis.shift = 0
      globalThis.largest = null
      new PerformanceObserver((list) => { for (const { value } of list.getEntries()) shift += value })
        .observe({ type: 'layout-shift', buffered: true })
      new PerformanceObserver((list) => { largest = list.getEntries().at(-1).element })
        .observe({ type: 'largest-contentful-paint', buffered: true })`)
    await page.goto(origin + path, { waitUntil: 'networkidle' })
    const largest = await eventually(
      async () => (await page.evaluate('largest && (largest.src || largest.textContent.trim())')) as string,
      {
        what: 'the largest part',
      },
    )
    const inHtml = (await read(origin + path)).text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"')
    assert.ok(inHtml.includes(largest) || inHtml.includes(decodeURI(largest)), `${what}: ${largest}`)
    assert.ok(((await page.evaluate('shift')) as number) < MOST_SHIFT, what)
    const loaded = await Promise.all(sizes)
    assert.deepEqual(loaded.map(({ kind }) => kind).sort(), ['document', 'script', 'stylesheet'], what)
    const bytes = loaded.reduce((sum, one) => sum + one.bytes, 0)
    t.diagnostic(`${what}: ${bytes} bytes`)
    assert.ok(bytes < MOST_BYTES, `${what}: ${bytes} bytes`)
    await assertUsable(page, what)
    assert.deepEqual(complaints, [])
  }
})

test('search engines, link previews and caches get what they need', async (t) => {
  const { origin } = await openShop(t)
  const { answer, text } = await read(`${origin}/products/cup-1`)
  assert.match(answer.headers.get('content-security-policy') ?? '', /script-src 'self';/)
  assert.deepEqual(
    [answer.headers.get('cache-control'), answer.headers.get('vary')],
    ['public, max-age=0, s-maxage=60', 'accept-language, accept-encoding'],
  )
  const data = JSON.parse(/<script type="application\/ld\+json">(.*?)<\/script>/.exec(text)?.[1] ?? '')
  const { price, priceCurrency, availability } = data.offers
  assert.deepEqual([price, priceCurrency, availability], ['10.01', 'EUR', 'https://schema.org/InStock'])
  for (const part of [
    ...['<title>Cup 1</title>', '<meta name="description" content="The cup 1.">', `<link rel="canonical" href="${origin}/products/cup-1">`],
    ...['<meta property="og:type" content="product">', '<meta property="og:title" content="Cup 1">', '<meta property="og:image" '],
    `<link rel="alternate" hreflang="de" href="${origin}/products/cup-1?lang=de">`,
  ]) {
    assert.ok(text.includes(part), part)
  }
  const german = (await read(`${origin}/products/cup-1?lang=de&currency=USD`)).text
  assert.ok(german.includes(`<link rel="canonical" href="${origin}/products/cup-1?lang=de">`))
  assert.match((await read(`${origin}/categories/cups`)).text, /<link rel="canonical" href="[^"]*\/categories\/cups">/)
  for (const path of ['/?q=cup', '/?sort=price', '/basket'])
    assert.match((await read(origin + path)).text, /<meta name="robots" content="noindex">/)

  assert.match((await read(`${origin}/robots.txt`)).text, new RegExp(`Disallow: /basket\n[^]*Sitemap: ${origin}/sitemap.xml\n`))
  const early = await read(`${origin}/sitemap.xml`)
  assert.deepEqual([early.answer.status, early.answer.headers.get('retry-after')], [503, '60'], 'the first reading has just begun')
  const map = await eventually(async () => {
    const later = await read(`${origin}/sitemap.xml`)
    return later.answer.status === 200 && later.text
  })
  assert.equal(map.split(`<loc>${origin}/products/cup-`).length - 1, 30)
  assert.ok(map.includes(`<loc>${origin}/categories/cups</loc>`))
  assert.equal((await read(`${origin}/sitemap-2.xml`)).answer.status, 404)

  // A cursor of another list leads to the beginning, and no address to itself.
  for (const [asked, location] of [
    ['/?cursor=none', '/'],
    ['/?cursor=none&currency=USD&in_stock=true', '/?currency=USD&in_stock=true'],
    ['/?attr=none&currency=USD', '/'],
  ] as const) {
    const { answer: moved } = await read(origin + asked)
    assert.deepEqual([moved.status, moved.headers.get('location')], [302, location], asked)
  }
  for (const path of ['/', '/products/cup-1', '/categories/cups'])
    assert.equal((await read(`${origin}${path}?currency=ABC`)).answer.status, 200, path)
})

test('an old link to further products leads to the beginning of the same list', { skip: NO_CHROMIUM }, async (t) => {
  const { origin, browser } = await openShop(t)
  const { page, complaints } = await browser.open()
  await page.goto(`${origin}/?in_stock=true`)
  await page.evaluate(`document.querySelector('#more a').href = '/?in_stock=true&cursor=none'`)
  await page.mouse.wheel(0, 5_000)
  await page.waitForEvent('load')
  assert.equal(new URL(page.url()).search, '?in_stock=true')
  assert.deepEqual([(await names(page)).length >= 24, complaints], [true, []])
})

test('currencies may be written small and with spaces, and a word that is none ends the start', async (t) => {
  const [port, apiPort] = [await freePort(), await freePort()]
  await startStore(t, { port: apiPort })
  const api = `http://localhost:${apiPort}`
  await startShop(t, port, api, { SHOP_CURRENCIES: 'eur, usd' })
  assert.equal((await read(`http://localhost:${port}/`)).answer.status, 200)
  await assert.rejects(startShop(t, await freePort(), api, { SHOP_CURRENCIES: 'EUR,EURO' }), /the shop ended/)
})

test('a store that cannot be reached is no missing product', async (t) => {
  const [port, apiPort] = [await freePort(), await freePort()]
  await startShop(t, port, `http://localhost:${apiPort}`)
  assert.equal((await read(`http://localhost:${port}/sitemap.xml`)).answer.status, 503)
  for (const path of ['/', '/categories/cups', '/products/cup-1']) {
    const { answer, text } = await read(`http://localhost:${port}${path}`)
    assert.deepEqual([answer.status, answer.headers.get('cache-control')], [503, 'no-store'], path)
    assert.match(text, /The store cannot be reached\./)
  }
})

test('the addresses of the shop are read once at a time, and stay while they cannot be read again', async (t) => {
  t.mock.timers.enable({ apis: ['Date'] })
  t.mock.method(console, 'error', () => {})
  const answers: PromiseWithResolvers<{ data: { slug: string }[] }>[] = []
  const categories = () => {
    answers.push(Promise.withResolvers())
    return answers.at(-1)?.promise
  }
  const readPaths = createPathList({ categories, products: () => [] } as never)
  assert.deepEqual([readPaths(), readPaths(), answers.length], [null, null, 1])
  answers[0]?.resolve({ data: [{ slug: 'cups' }] })
  await setImmediate()
  assert.deepEqual([readPaths(), answers.length], [['/', '/categories/cups'], 1])
  t.mock.timers.tick(3_600_001)
  readPaths()
  answers[1]?.reject(new Error('no answer'))
  await setImmediate()
  assert.deepEqual([readPaths(), answers.length], [['/', '/categories/cups'], 3])
})

test('the store learns the address of a visitor, and a page without a part is not kept', async (t) => {
  const { origin, store } = await openShop(t)
  const seen: unknown[] = []
  const before = createServer(async ({ url = '', headers }, response) => {
    seen.push(headers['x-forwarded-for'])
    if (url.startsWith('/products/facets')) return void response.writeHead(400).end()
    const answer = await fetch(store.server.listeningOrigin + url)
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' }).end(await answer.text())
  })
  await new Promise<void>((resolve) => before.listen(0, 'localhost', resolve))
  onCleanup(t, () => new Promise<void>((resolve) => void before.close(() => resolve()).closeAllConnections()))
  const port = await freePort()
  await startShop(t, port, `http://localhost:${(before.address() as AddressInfo).port}`)
  const partial = await read(`http://localhost:${port}/`, { 'x-forwarded-for': '203.0.113.7' })
  assert.match(String(seen[0]), /^203\.0\.113\.7, (::1|127\.0\.0\.1|::ffff:127\.0\.0\.1)$/)
  assert.deepEqual([partial.answer.status, partial.answer.headers.get('cache-control')], [200, 'no-store'])
  assert.match((await read(`http://localhost:${port}/products/cup-1`)).answer.headers.get('cache-control') ?? '', /s-maxage/)
  assert.equal(seen.at(-1), undefined)

  for (const [path, status, location] of [
    ['/shop-OLD1.js', 307, /^\/shop-\w+\.js$/],
    ['/style-OLD1.css', 307, /^\/style-\w+\.css$/],
    ['/style-OLD1.js', 404, /^$/],
  ] as const) {
    const { answer } = await read(origin + path)
    assert.deepEqual([answer.status, answer.headers.get('cache-control')], [status, 'no-store'], path)
    assert.match(answer.headers.get('location') ?? '', location)
  }
})

test('a sitemap of more addresses than one may have is in parts', () => {
  const paths = Array.from({ length: 5 }, (_, index) => `/products/a&${index}`)
  const locations = (part: number | null) =>
    [...(sitemap(paths, 'https://shop.example', part, 2) ?? '').matchAll(/<loc>(.*?)<\/loc>/g)].map(([, loc]) => loc)
  assert.deepEqual(
    locations(null),
    [1, 2, 3].map((part) => `https://shop.example/sitemap-${part}.xml`),
  )
  assert.deepEqual(locations(3), ['https://shop.example/products/a&amp;4'])
  assert.equal(sitemap(paths, 'https://shop.example', 4, 2), null)
})

test('a visitor reads in the language of the browser or of their choice, and orders in another currency', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { origin, store, browser } = await openShop(t)
  const { page, complaints } = await browser.open({ width: 390, locale: 'de-AT' })
  await page.goto(`${origin}/products/cup-1`)
  await page.getByRole('heading', { name: 'Tasse 1' }).waitFor()
  assert.equal(await page.locator('html').getAttribute('lang'), 'de')
  await assertUsable(page, 'German')
  await page.getByRole('link', { name: 'English' }).click()
  await page.getByRole('heading', { name: 'Cup 1' }).waitFor()
  assert.equal((await read(page.url())).answer.headers.get('vary'), 'accept-encoding')
  await page.getByRole('link', { name: 'USD' }).click()
  await page.getByText('$20.01').waitFor()
  await page.getByRole('button', { name: 'Add to basket' }).click()
  await page.getByRole('link', { name: 'Basket (1)' }).click()
  await page.locator('#total').getByText('$20.01').waitFor()
  await page.getByRole('link', { name: 'Continue to delivery' }).click()
  assert.equal(new URL(page.url()).search, '?lang=en&currency=USD')
  assert.equal(await page.getByLabel('Country').inputValue(), 'AT')
  await fillOrder(page)
  await page.getByRole('button', { name: 'Order', exact: true }).click()
  await page.getByText(/^Thank you/).waitFor()
  await page.getByText('$20.01').first().waitFor()
  const { rows } = await store.pool.query('select total_amount::int as amount, currency from orders')
  assert.deepEqual(rows, [{ amount: 2_001, currency: 'USD' }])
  assert.deepEqual(complaints, [])
})

test('products of two currencies are not ordered together', { skip: NO_CHROMIUM }, async (t) => {
  const { origin, store, send, browser } = await openShop(t)
  await send('/admin/products', {
    sku: 'EURO',
    slug: 'euro',
    name: 'Euro',
    category: 'Kitchen',
    price: { amount: 500, currency: 'EUR' },
    stock: 5,
  })
  const { page, complaints } = await browser.open()
  for (const slug of ['cup-1', 'euro']) {
    await page.goto(`${origin}/products/${slug}?currency=USD`)
    await page.getByRole('button', { name: 'Add to basket' }).click()
  }
  await page.getByRole('link', { name: 'Basket (2)' }).click()
  const mixed = page.getByText('Order the products of each currency on their own.')
  await mixed.waitFor()
  await page.getByText('Sold out, or not sold in this currency.').waitFor()
  assert.equal(await page.getByRole('link', { name: 'Continue to delivery' }).count(), 0)
  const calls: string[] = []
  page.on('request', (request) => request.method() === 'POST' && calls.push(request.url()))
  await page.goto(`${origin}/checkout?currency=USD`)
  await fillOrder(page)
  await page.getByRole('button', { name: 'Order', exact: true }).click()
  await mixed.waitFor()
  assert.deepEqual(calls, [])
  await page.getByRole('link', { name: 'Change the basket' }).click()
  await page.getByRole('button', { name: 'Remove Euro' }).click()
  await page.getByRole('link', { name: 'Continue to delivery' }).click()
  await fillOrder(page)
  await page.getByRole('button', { name: 'Order', exact: true }).click()
  await page.getByText(/^Thank you/).waitFor()
  const { rows } = await store.pool.query('select total_amount::int as amount, currency from orders')
  assert.deepEqual(rows, [{ amount: 2_001, currency: 'USD' }])
  assert.deepEqual(complaints, [])
})

test('the link of a mail shows an order with its parcels, its address for the postal code, and cancels after a question', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { origin, store, send, browser } = await openShop(t)
  const product = await store.addProduct({ name: 'Lamp' })
  const shipping_address = { name: 'Ada', line1: 'Ring 1', city: 'Wien', postal_code: '1010', country: 'AT' }
  const [sent, kept] = [
    await placeLinkedOrder(store, product, {
      items: [{ product_id: product.id, quantity: 1, attributes: { engraving: 'Anna' } }],
      shipping_address,
    }),
    await placeLinkedOrder(store, product, { shipping_address }),
  ]
  const tracking = { carrier: 'Post', number: 'P1', url: 'https://post.example/P1' }
  await send(`/admin/orders/${sent.id}/transitions`, { to: 'confirmed' })
  await send(`/admin/orders/${sent.id}/transitions`, { to: 'shipped', tracking })

  const { page, complaints } = await browser.open({ width: 390, isDark: true })
  await page.goto(`${origin}/order#${sent.token}`)
  await page.getByRole('heading', { name: `Order ${sent.number}` }).waitFor()
  assert.equal(page.url(), `${origin}/order`, 'the address has no token any more')
  assert.equal(await page.locator('#status').textContent(), 'On its way')
  const parcels = page.getByRole('list', { name: 'Parcels' })
  await parcels.getByText('1 × Lamp').waitFor()
  assert.equal(await parcels.getByRole('link', { name: 'Track Post P1' }).getAttribute('href'), 'https://post.example/P1')
  await page.getByLabel('Postal code').fill('1020')
  await page.getByRole('button', { name: 'Show the address' }).click()
  await page.getByText('The order has another postal code.').waitFor()
  await assertUsable(page, 'order')
  await page.getByLabel('Postal code').fill('1010')
  await page.getByRole('button', { name: 'Show the address' }).click()
  await page.getByText('Ring 1').waitFor()
  await page.getByText('engraving: Anna').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Cancel the order' }).count(), 0)

  await page.goto(`${origin}/order#${kept.token}`)
  await page.getByRole('heading', { name: `Order ${kept.number}` }).waitFor()
  await page.reload()
  await page.getByRole('button', { name: 'Cancel the order' }).click()
  await page.getByRole('button', { name: 'Yes, cancel it' }).click()
  await page.locator('#status').getByText('Cancelled').waitFor()
  await page.goto('about:blank')
  await page.goto(`${origin}/order#forged`)
  await page.getByText('This link is not valid any more.').waitFor()
  assert.deepEqual(withoutRefusals(complaints), [])
})
