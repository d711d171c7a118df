import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import type { Page, Route } from 'playwright-core'
import { assertAccessible, NO_CHROMIUM, openBrowser } from './chromium.ts'
import { onCleanup } from './cleanup.ts'
import { makeDataFolder } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { startShop } from './shop-process.ts'
import { startStore } from './store.ts'
import { serve } from './store-process.ts'

const HOSTILE = '<img src=x onerror="document.title=\'broken\'"><script>document.title="broken"</script>'

/** Fills the form of the order, for a new account or, with an e-mail address, for a guest. */
async function fillOrder(page: Page, guest?: string): Promise<void> {
  await page.getByLabel('E-mail').fill(guest ?? `${randomUUID()}@example.com`)
  if (guest === undefined) {
    await page.getByLabel('Create an account').check()
    await page.getByLabel('Password').fill('correct horse battery')
  }
  const address = { Name: 'Ada Lovelace', Street: '12 St James Square', 'Postal code': 'SW1Y 4JH', City: 'London' }
  for (const [label, value] of Object.entries(address)) await page.getByLabel(label, { exact: true }).fill(value)
  await page.getByLabel('Country').selectOption({ label: 'United Kingdom' })
}

const order = (page: Page) => page.getByRole('button', { name: 'Order', exact: true }).click()
const basket = (page: Page, units: number) => page.getByRole('link', { name: `Basket (${units})` })

for (const { width, isDark } of [
  { width: 1_280, isDark: false },
  { width: 390, isDark: true },
]) {
  test(`a customer searches, orders and cancels at ${width} px, ${isDark ? 'dark' : 'light'}`, { skip: NO_CHROMIUM }, async (t) => {
    const port = await freePort()
    const origin = `http://localhost:${port}`
    const store = await startStore(t, { corsOrigins: [origin] })
    for (let number = 1; number <= 60; number++)
      await store.addProduct({ sku: `LAMP-${number}`, name: `Lamp ${number}`, category: 'lamps', amount: 1_000 + number })
    await store.addProduct({ sku: 'HOSTILE', name: HOSTILE, category: HOSTILE, amount: 1 })
    await store.addProduct({ sku: 'RSD', name: 'Vaza', amount: 9_999_900, currency: 'RSD' })
    await startShop(t, port, store.localOrigin)
    const { page, complaints } = await (await openBrowser(t)).open({ width, isDark })
    const lists: string[] = []
    page.on('request', (request) => {
      const { origin: asked, pathname } = new URL(request.url())
      if (asked === origin || pathname.startsWith('/products'))
        lists.push(`${request.method()} ${request.headers().authorization ?? 'no token'}`)
    })

    await page.goto(origin)
    const tiles = page.getByRole('list', { name: 'Products' }).getByRole('listitem')
    await tiles.first().waitFor()
    await assertAccessible(page, 'list')
    // Further pages come as the end of the list comes into view.
    await eventually(async () => {
      await page.mouse.wheel(0, 5_000)
      return (await tiles.count()) === 62
    })

    assert.equal(await tiles.filter({ hasText: 'Vaza' }).locator('.price').textContent(), 'RSD\u00a099,999.00')
    await page.getByLabel('Sort').selectOption('price')
    await tiles.first().getByRole('link', { name: HOSTILE }).waitFor()
    assert.equal(new URL(page.url()).search, '?sort=price')
    assert.equal(await page.getByRole('link', { name: 'Deutsch' }).getAttribute('href'), '/?sort=price&lang=de')
    await page.goBack()
    await tiles.first().getByRole('link', { name: 'Vaza' }).waitFor()
    await page.getByLabel('Search').fill('lamp 42')
    await page.getByLabel('Search').press('Enter')
    await page.getByRole('heading', { name: 'Results for “lamp 42”' }).waitFor()
    // A link to a search can be sent.
    await page.reload()
    assert.equal(new URL(page.url()).search, '?q=lamp+42')
    assert.equal(await tiles.count(), 1)
    // The keyboard suffices.
    await page.getByRole('link', { name: 'Lamp 42' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('article', { name: 'Lamp 42' }).waitFor()
    assert.equal(await page.title(), 'Lamp 42')
    await assertAccessible(page, 'product')
    await page.getByRole('button', { name: 'Add to basket' }).press('Enter')
    await page.getByText('Lamp 42 is in the basket.').waitFor()
    await basket(page, 1).press('Enter')
    await page.getByLabel('Units of Lamp 42').fill('3')
    await page.getByLabel('Units of Lamp 42').press('Tab')
    await page.locator('#total').getByText('€31.26', { exact: true }).waitFor()
    await assertAccessible(page, 'basket')
    await page.getByRole('link', { name: 'Continue to delivery' }).press('Enter')
    await fillOrder(page)
    await assertAccessible(page, 'order form')
    await page.getByLabel('City', { exact: true }).fill('')
    await order(page)
    await page.getByText('Please check: City.').waitFor()
    await page.getByLabel('City', { exact: true }).fill('London')
    // What is charged is what was shown: the price changes behind the customer's back.
    await store.pool.query(`update products set price_amount = 1_500 where sku = 'LAMP-42'`)
    await order(page)
    await page.getByText('A price has changed.').waitFor()
    await page.locator('#total').getByText('€45.00', { exact: true }).waitFor()
    await order(page)
    await page.getByText(/^Thank you: order \d+ is placed\.$/).waitFor()
    const status = page.locator('#status')
    assert.equal(await status.textContent(), 'Received')
    await assertAccessible(page, 'order')

    await page.getByRole('button', { name: 'Cancel the order' }).click()
    const question = page.getByRole('dialog', { name: 'Cancel the order' })
    await assertAccessible(page, 'question')
    // The first key that is pressed cancels nothing.
    await page.keyboard.press('Enter')
    await question.waitFor({ state: 'detached' })
    assert.equal(await status.textContent(), 'Received')
    await page.getByRole('button', { name: 'Cancel the order' }).click()
    await question.getByRole('button', { name: 'Yes, cancel it' }).click()
    await status.getByText('Cancelled').waitFor()
    await page.getByRole('link', { name: 'Orders', exact: true }).click()
    const orders = page.getByRole('list', { name: 'Orders' }).getByRole('listitem')
    await orders.filter({ hasText: 'Cancelled' }).waitFor()
    await assertAccessible(page, 'orders')
    await page.reload()
    await page.getByRole('button', { name: 'Sign out' }).waitFor()
    await basket(page, 0).waitFor()

    assert.deepEqual(new Set(lists), new Set(['GET no token']))
    assert.notEqual(await page.title(), 'broken')
    assert.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true, 'nothing is wider than the page')
    // Chromium reports the answers to the orders without a city and with the old price.
    const refusal = 'error: Failed to load resource: the server responded with a status of'
    assert.deepEqual(complaints, [`${refusal} 422 (Unprocessable Entity)`, `${refusal} 409 (Conflict)`])
  })
}

test('an order in the middle of which the store is killed and started again is placed once', { skip: NO_CHROMIUM }, async (t) => {
  const [apiPort, shopPort] = [await freePort(), await freePort()]
  const env = {
    DATA_DIR: makeDataFolder(t).path,
    PORT: String(apiPort),
    BASE_URL: `http://localhost:${apiPort}`,
    CORS_ORIGINS: `http://localhost:${shopPort}`,
  }
  const store = await serve(t, { env })
  await startShop(t, shopPort, env.BASE_URL)
  const { page } = await (await openBrowser(t)).open()
  await page.goto(`http://localhost:${shopPort}`)
  await page.getByLabel('Search').fill('skillet')
  await page.getByLabel('Search').press('Enter')
  await page.getByLabel('In stock').check()
  await page.waitForURL(/q=skillet&in_stock=true/)
  await page
    .getByRole('link', { name: /Skillet/ })
    .first()
    .click()
  await page.getByRole('button', { name: 'Add to basket' }).click()
  await basket(page, 1).click()
  await page.getByRole('link', { name: 'Continue to delivery' }).click()
  await fillOrder(page)

  // The order is placed and its answer lost: the process dies before the browser has it.
  const killInTheMiddle = async (route: Route) => {
    await route.fetch()
    await store.end('SIGKILL')
    await route.abort()
  }
  await page.route('**/orders', killInTheMiddle, { times: 1 })
  await order(page)
  await page.getByText('The store cannot be reached. Press Order again: it is placed once.').waitFor()
  await serve(t, { env })
  await order(page)
  await page.getByText(/^Thank you: order \d+ is placed\.$/).waitFor()
  await page.getByRole('link', { name: 'Orders', exact: true }).click()
  const orders = page.getByRole('list', { name: 'Orders' }).getByRole('listitem')
  await orders.filter({ hasText: 'Received' }).waitFor()
  assert.equal(await orders.count(), 1)
})

test('a shop for a running store answers its open requests and ends when it is told to stop', async (t) => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const { promise: isAsked, resolve: ask } = Promise.withResolvers<void>()
    const { promise: canAnswer, resolve: release } = Promise.withResolvers<void>()
    const api = createServer(async (_, response) => {
      ask()
      await canAnswer
      response.writeHead(404).end()
    })
    onCleanup(t, () => void api.close())
    await once(api.listen(0), 'listening')
    const port = await freePort()
    const shop = await startShop(t, port, `http://localhost:${(api.address() as AddressInfo).port}`)
    const ended = once(shop, 'exit')
    const answer = fetch(`http://localhost:${port}/products/lamp`)
    await isAsked
    shop.kill(signal)
    const isRefused = () =>
      fetch(`http://localhost:${port}/`, { method: 'POST' }).then(
        () => false,
        () => true,
      )
    await eventually(isRefused, { what: 'a shop that takes no request any more' })
    release()
    assert.ok((await answer).status >= 400)
    assert.deepEqual(await ended, [0, null], signal)
  }
})

test('a visitor orders without an account, and sees the order', { skip: NO_CHROMIUM }, async (t) => {
  const port = await freePort()
  const origin = `http://localhost:${port}`
  const store = await startStore(t, { corsOrigins: [origin] })
  await store.addProduct({ name: 'Lamp' })
  await startShop(t, port, store.localOrigin)
  const { page, complaints } = await (await openBrowser(t)).open({ width: 390, isDark: false })
  await page.goto(origin)
  await page.getByRole('link', { name: 'Lamp', exact: true }).click()
  await page.getByRole('button', { name: 'Add to basket' }).click()
  await basket(page, 1).click()
  await page.getByRole('link', { name: 'Continue to delivery' }).click()
  await fillOrder(page, 'ada@example.com')
  await order(page)
  await page.getByText(/^Thank you: order \d+ is placed/).waitFor()
  await page.getByRole('link', { name: 'Orders', exact: true }).click()
  await page.getByRole('list', { name: 'Orders' }).getByText('1 × Lamp').waitFor()
  const { rows } = await store.pool.query('select users.role, users.email from orders join users on users.id = orders.user_id')
  assert.deepEqual(rows, [{ role: 'guest', email: 'ada@example.com' }])
  assert.deepEqual(complaints, [])
})
