import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertAccessible, NO_CHROMIUM, openBrowser } from './chromium.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { freePort } from './free-port.ts'
import { registerOperator } from './register-operator.ts'
import { startShop } from './shop-process.ts'
import { startStore } from './store.ts'

const HOSTILE = '</script><img src=x onerror="document.title=\'broken\'"><script>document.title="broken"</script>'
const eur = (amount: number) => ({ amount, currency: 'EUR' })
const MUG = {
  sku: 'MUG',
  slug: 'blue-mug',
  name: 'Blue mug',
  description: 'Stoneware.\n300 ml.',
  category: 'Kitchen',
  brand: 'Potter & Sons',
  images: [
    { url: 'https://images.example/front.svg', alt: 'A blue mug on a table', width: 400, height: 300 },
    { url: 'https://images.example/inside.svg', alt: '', width: null, height: null },
  ],
  options: { colour: 'blue' },
  attributes: { dishwasher_safe: true, weight_g: 340, materials: ['stoneware', 'glaze'] },
  price: eur(1_590),
  seo: { title: 'A mug of stoneware', description: 'It survives the dishwasher.' },
  availability_text: 'Ships within two days',
  stock: 3,
}
const IMAGE = '<svg xmlns="http://www.w3.org/2000/svg" width="400" height="300"><rect width="400" height="300" fill="#9bd"/></svg>'

/** A shop with the mug, reduced, and a browser to which the host of images answers. */
async function openShop(t: Cleanup, view: { width: number; isDark: boolean }) {
  const [port, apiPort] = [await freePort(), await freePort()]
  const origin = `http://localhost:${port}`
  // Redirects lead to the public address.
  const baseUrl = `http://localhost:${apiPort}`
  const store = await startStore(t, { corsOrigins: [origin], port: apiPort, baseUrl })
  const { token } = await registerOperator(store)
  const send = async (method: string, path: string, body: object) => {
    const { status, json, text } = await store.call(method, path, { token, body, headers: { 'if-match': '*' } })
    assert.ok(status < 300, text)
    return json
  }
  const { id } = await send('POST', '/admin/products', MUG)
  await send('PATCH', `/admin/products/${id}`, { price: eur(1_490) })
  await send('PATCH', `/admin/products/${id}`, { price: eur(1_590) })
  await send('PATCH', `/admin/products/${id}`, { price: eur(1_290), compare_at_price: eur(1_590) })
  await startShop(t, port, baseUrl)
  const { page, complaints } = await (await openBrowser(t)).open(view)
  await page.route('https://images.example/**', (route) => route.fulfill({ contentType: 'image/svg+xml', body: IMAGE }))
  onCleanup(t, async () => {
    const others = complaints.filter(
      (complaint) => !['request to images.example', 'status of 404'].some((known) => complaint.includes(known)),
    )
    assert.deepEqual(others, [])
  })
  return { origin, page, send, id }
}

for (const view of [
  { width: 1_280, isDark: false },
  { width: 390, isDark: true },
]) {
  test(`a visitor opens a product from the list and goes back, at ${view.width} px`, { skip: NO_CHROMIUM }, async (t) => {
    const { origin, page } = await openShop(t, view)
    await page.goto(origin)
    const list = page.getByRole('list', { name: 'Products' })
    assert.equal(
      await list.getByRole('listitem').locator('.price').textContent(),
      '€12.90 instead of €15.90Lowest price of the last 30 days: €14.90',
    )
    await list.getByRole('link', { name: 'Blue mug' }).click()
    const product = page.getByRole('article', { name: 'Blue mug' })
    await product.waitFor()
    assert.equal(page.url(), `${origin}/products/blue-mug`)
    assert.equal(await list.isVisible(), false)
    for (const text of ['Potter & Sons', 'In stock – Ships within two days', 'Stoneware.', 'Lowest price of the last 30 days: €14.90']) {
      await product.getByText(text).waitFor()
    }
    assert.deepEqual(await product.locator('dt, dd').allTextContents(), [
      ...['Colour', 'blue', 'Weight g', '340', 'Materials', 'stoneware, glaze', 'Dishwasher safe', 'yes'],
    ])
    const large = product.getByRole('img', { name: 'A blue mug on a table' }).first()
    assert.deepEqual([await large.getAttribute('width'), await large.getAttribute('height')], ['400', '300'])
    await assertAccessible(page, 'a product')
    assert.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true)
    await product.getByRole('list', { name: 'Images' }).getByRole('link').nth(1).press('Enter')
    assert.equal(await product.locator('#picture img').getAttribute('src'), 'https://images.example/inside.svg')
    assert.equal(await product.locator('#picture img').getAttribute('alt'), 'Blue mug')
    await product.getByRole('button', { name: 'Add to basket' }).click()
    await page.getByRole('link', { name: 'Basket (1)' }).waitFor()

    assert.equal(await page.title(), 'A mug of stoneware')
    assert.equal(await page.locator('meta[name=description]').getAttribute('content'), 'It survives the dishwasher.')
    assert.equal(await page.locator('link[rel=canonical]').getAttribute('href'), `${origin}/products/blue-mug`)
    const data = JSON.parse((await page.locator('script[type="application/ld+json"]').textContent()) ?? '')
    assert.deepEqual([data.name, data.sku, data.brand.name, data.image.length], ['Blue mug', 'MUG', 'Potter & Sons', 2])
    const offer = { price: '12.90', priceCurrency: 'EUR', availability: 'https://schema.org/InStock', url: `${origin}/products/blue-mug` }
    assert.deepEqual(data.offers, { '@type': 'Offer', ...offer })

    await page.goBack()
    await list.getByRole('link', { name: 'Blue mug' }).waitFor()
    assert.equal(await product.isVisible(), false)
    assert.equal(await page.title(), 'Example shop')
    assert.equal(await page.locator('script[type="application/ld+json"]').count(), 0)
    await page.goForward()
    await product.waitFor()
    await page.getByRole('navigation', { name: 'Breadcrumbs' }).getByRole('link', { name: 'Kitchen' }).click()
    await page.getByRole('heading', { name: 'Kitchen' }).waitFor()
    assert.equal(page.url(), `${origin}/categories/kitchen`)
    await page.getByRole('link', { name: 'All products' }).click()
    await list.waitFor()
    assert.equal(page.url(), `${origin}/`)
  })
}

test('a visitor chooses a variant and a quantity', { skip: NO_CHROMIUM }, async (t) => {
  const { origin, page, send } = await openShop(t, { width: 1_280, isDark: false })
  for (const [size, colour, stock] of [
    ['M', 'red', 9],
    ['S', 'red', 9],
    ['S', 'blue', 0],
  ] as const) {
    const variant = { name: `Shirt ${size} ${colour}`, slug: `shirt-${size}-${colour}`.toLowerCase(), sku: `SHIRT-${size}-${colour}` }
    await send('POST', '/admin/products', {
      ...variant,
      category: 'Shirts',
      price: eur(2_000),
      stock,
      group: 'shirt',
      options: { size, colour },
    })
  }
  await page.goto(origin)
  const tile = page.getByRole('list', { name: 'Products' }).getByRole('listitem').filter({ hasText: 'Shirt' })
  await tile.getByText('3 variants').waitFor()
  assert.equal(await tile.count(), 1)
  await page.goto(`${origin}/products/shirt-m-red`)
  await page.getByRole('heading', { name: 'Shirt M red' }).waitFor()
  const variants = page.getByRole('navigation', { name: 'Variants' })
  assert.deepEqual(await variants.getByRole('link').allTextContents(), ['S', 'M', 'blue, sold out', 'red'])
  assert.deepEqual(await variants.locator('[aria-current]').allTextContents(), ['M', 'red'])
  await assertAccessible(page, 'a product with variants')
  await variants.getByRole('link', { name: 'S', exact: true }).click()
  await page.getByRole('heading', { name: 'Shirt S red' }).waitFor()
  assert.equal(page.url(), `${origin}/products/shirt-s-red`)
  await page.getByLabel('Quantity').fill('3')
  await page.getByRole('button', { name: 'Add to basket' }).click()
  await page.getByRole('link', { name: 'Basket (3)' }).click()
  const line = page.getByRole('list', { name: 'Basket' }).getByRole('listitem')
  await line.getByText('€20.00 each').waitFor()
  await line.getByText('€60.00').waitFor()
  await page.goBack()
  await variants.getByRole('link', { name: 'blue' }).click()
  await page.getByRole('heading', { name: 'Shirt S blue' }).waitFor()
  assert.equal(await page.getByLabel('Quantity').isDisabled(), true)
})

test('a former address leads to the one of now, and an unknown one is not found', { skip: NO_CHROMIUM }, async (t) => {
  const { origin, page, send, id } = await openShop(t, { width: 1_280, isDark: false })
  await page.goto(origin)
  const link = page.getByRole('link', { name: 'Blue mug' })
  await link.waitFor()
  await send('PATCH', `/admin/products/${id}`, { slug: 'Größe XL' })
  // The list still has the former slug.
  await link.click()
  await page.getByRole('article', { name: 'Blue mug' }).waitFor()
  assert.equal(page.url(), `${origin}/products/grosse-xl`)
  const answer = await fetch(`${origin}/products/blue-mug`, { redirect: 'manual' })
  assert.deepEqual([answer.status, answer.headers.get('location')], [301, '/products/grosse-xl'])
  await page.goto(`${origin}/products/blue-mug`)
  await page.getByRole('article', { name: 'Blue mug' }).waitFor()
  assert.equal(page.url(), `${origin}/products/grosse-xl`)
  for (const slug of ['none', '%F0%9F%A7%A6', '%zz', '..%2f..%2fproducts']) {
    const { status } = await fetch(`${origin}/products/${slug}`)
    assert.equal(status, 404, slug)
    await page.goto(`${origin}/products/${slug}`)
    await page.getByText('There is no such product, or it is no longer sold.').waitFor()
    assert.equal(await page.getByRole('article').isVisible(), false)
  }
  for (const path of ['/categories/none', '/nothing', '/serve.ts', '/..%2fpackage.json']) {
    assert.equal((await fetch(origin + path)).status, 404, path)
  }
  await assertAccessible(page, 'no product')
  await page.getByRole('link', { name: 'Example shop' }).click()
  await page.getByRole('link', { name: 'Blue mug' }).waitFor()
  assert.equal(await page.getByText('There is no such product').count(), 0)
})

test('texts of the store stay texts, also those for search engines', { skip: NO_CHROMIUM }, async (t) => {
  const { origin, page, send } = await openShop(t, { width: 390, isDark: false })
  const texts = {
    name: HOSTILE,
    description: HOSTILE,
    brand: HOSTILE,
    availability_text: HOSTILE,
    category: 'x',
    options: { [`a${HOSTILE}`.slice(0, 40)]: HOSTILE },
  }
  const body = {
    ...texts,
    sku: 'HOSTILE',
    slug: 'hostile',
    price: eur(0),
    stock: 0,
    images: [{ url: 'https://images.example/a', alt: HOSTILE }],
  }
  await send('POST', '/admin/products', body)
  await page.goto(`${origin}/products/hostile`)
  await page.getByRole('heading', { name: HOSTILE }).waitFor()
  await page.getByText(/^Sold out – /).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Add to basket' }).isDisabled(), true)
  assert.equal(await page.title(), HOSTILE)
  assert.equal(JSON.parse((await page.locator('script[type="application/ld+json"]').textContent()) ?? '').name, HOSTILE)
  assert.equal(await page.locator('meta[property="og:title"]').getAttribute('content'), HOSTILE)
  assert.equal(await page.evaluate('document.querySelectorAll("[onerror]").length'), 0)
  for (const path of [
    `/?q=${encodeURIComponent(HOSTILE)}`,
    `/?attr=${encodeURIComponent(HOSTILE)}`,
    `/?brand=${encodeURIComponent(HOSTILE)}`,
  ]) {
    await page.goto(origin + path)
    await page.getByRole('heading', { level: 1 }).waitFor()
    assert.equal(await page.evaluate('document.querySelectorAll("[onerror]").length'), 0, path)
    assert.notEqual(await page.title(), 'broken')
  }
})
