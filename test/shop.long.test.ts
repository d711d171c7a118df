import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { Page, Route } from 'playwright-core'
import { assertAccessible, NO_CHROMIUM, openBrowser } from './chromium.ts'
import { makeDataFolder } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { startShop } from './shop-process.ts'
import { startStore } from './store.ts'
import { serve } from './store-process.ts'

const HOSTILE = '<img src=x onerror="document.title=\'broken\'"><script>document.title="broken"</script>'

async function fillOrder(page: Page): Promise<void> {
  const address = {
    Name: 'Ada Lovelace',
    Street: '12 St James Square',
    'Postal code': 'SW1Y 4JH',
    City: 'London',
    'Country (two letters)': 'GB',
  }
  for (const [label, value] of Object.entries(address)) await page.getByLabel(label, { exact: true }).fill(value)
}

async function register(page: Page): Promise<void> {
  await page.getByLabel('E-mail').fill(`${randomUUID()}@example.com`)
  await page.getByLabel('Password').fill('correct horse battery')
  await page.getByRole('button', { name: 'Create an account' }).click()
}

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
    await startShop(t, port, store.server.listeningOrigin.replace('[::1]', 'localhost').replace('127.0.0.1', 'localhost'))
    const { page, complaints } = await (await openBrowser(t)).open({ width, isDark })
    const lists: string[] = []
    page.on('request', (request) => {
      if (request.url().includes('/products')) lists.push(`${request.method()} ${request.headers().authorization ?? 'no token'}`)
    })

    await page.goto(origin)
    const tiles = page.getByRole('list', { name: 'Products' }).getByRole('listitem')
    await tiles.first().waitFor()
    assert.equal(lists[0], 'GET no token')
    await assertAccessible(page, 'list')
    // Further pages come as the end of the list comes into view.
    await eventually(async () => {
      await page.mouse.wheel(0, 5_000)
      return (await tiles.count()) === 62
    })
    assert.deepEqual(new Set(lists), new Set(['GET no token']))

    assert.equal(await tiles.filter({ hasText: 'Vaza' }).locator('.price').textContent(), 'RSD\u00a099,999.00')
    await page.getByLabel('Sort').selectOption('price')
    await tiles.getByRole('link', { name: HOSTILE }).waitFor()
    await page.getByLabel('Search').fill('lamp 42')
    await eventually(async () => (await tiles.count()) === 1)
    // The keyboard suffices.
    await page.getByRole('link', { name: 'Lamp 42' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('article', { name: 'Lamp 42' }).waitFor()
    await assertAccessible(page, 'product')
    await page.getByRole('button', { name: 'Add to basket' }).press('Enter')
    await page.getByRole('button', { name: 'Basket (1)' }).press('Enter')
    await page.getByLabel('Units of Lamp 42').fill('3')
    await page.getByLabel('Units of Lamp 42').press('Tab')
    await page.getByText('€31.26', { exact: true }).waitFor()
    await assertAccessible(page, 'basket')
    await fillOrder(page)
    // What is charged is what was shown: the price changes behind the customer's back.
    await store.pool.query(`update products set price_amount = 1_500 where sku = 'LAMP-42'`)
    await page.getByRole('button', { name: 'Order', exact: true }).click()
    await assertAccessible(page, 'account')
    await register(page)
    await page.getByText('A price has changed.').waitFor()
    await page.getByText('€45.00', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Order', exact: true }).click()
    await page.getByText(/^Thank you: order \d+ is placed\.$/).waitFor()

    await page.getByRole('button', { name: 'Orders' }).click()
    const orders = page.getByRole('list', { name: 'Orders' }).getByRole('listitem')
    await orders.filter({ hasText: 'pending' }).waitFor()
    await assertAccessible(page, 'orders')
    await page.getByRole('button', { name: /^Cancel order/ }).click()
    await orders.filter({ hasText: 'cancelled' }).waitFor()
    await page.keyboard.press('Escape')
    await page.reload()
    await page.getByRole('button', { name: 'Sign out' }).waitFor()
    await page.getByRole('button', { name: 'Basket (0)' }).waitFor()

    assert.equal(await page.title(), 'Lamp 42')
    assert.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true, 'nothing is wider than the page')
    // Chromium reports the answer to the order with the old price.
    assert.deepEqual(complaints, ['error: Failed to load resource: the server responded with a status of 409 (Conflict)'])
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
  await page.getByLabel('In stock').check()
  await page.getByLabel('Search').fill('skillet')
  await page
    .getByRole('link', { name: /Skillet/ })
    .first()
    .click()
  await page.getByRole('button', { name: 'Add to basket' }).click()
  await page.getByRole('button', { name: 'Sign in' }).first().click()
  await register(page)
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
  await page.getByRole('button', { name: 'Basket (1)' }).click()
  await fillOrder(page)

  // The order is placed and its answer lost: the process dies before the browser has it.
  const killInTheMiddle = async (route: Route) => {
    await route.fetch()
    await store.end('SIGKILL')
    await route.abort()
  }
  await page.route('**/orders', killInTheMiddle, { times: 1 })
  await page.getByRole('button', { name: 'Order', exact: true }).click()
  await page.getByText('The store cannot be reached. Press Order again: it is placed once.').waitFor()
  await serve(t, { env })
  await page.getByRole('button', { name: 'Order', exact: true }).click()
  await page.getByText(/^Thank you: order \d+ is placed\.$/).waitFor()
  await page.getByRole('button', { name: 'Orders' }).click()
  const orders = page.getByRole('list', { name: 'Orders' }).getByRole('listitem')
  await orders.filter({ hasText: 'pending' }).waitFor()
  assert.equal(await orders.count(), 1)
})

test('a visitor orders without an account, and sees the order', { skip: NO_CHROMIUM }, async (t) => {
  const port = await freePort()
  const origin = `http://localhost:${port}`
  const store = await startStore(t, { corsOrigins: [origin] })
  await store.addProduct({ name: 'Lamp' })
  await startShop(t, port, store.server.listeningOrigin.replace('[::1]', 'localhost').replace('127.0.0.1', 'localhost'))
  const { page, complaints } = await (await openBrowser(t)).open({ width: 390, isDark: false })
  await page.goto(origin)
  await page.getByRole('link', { name: 'Lamp' }).click()
  await page.getByRole('button', { name: 'Add to basket' }).click()
  await page.getByRole('button', { name: 'Basket (1)' }).click()
  await fillOrder(page)
  await page.getByRole('button', { name: 'Order', exact: true }).click()
  await page.getByRole('button', { name: 'Order without an account' }).click()
  await page.getByRole('dialog', { name: 'Sign in' }).waitFor()
  await page.getByLabel('E-mail').fill('ada@example.com')
  await assertAccessible(page, 'sign in')
  await page.getByRole('button', { name: 'Order without an account' }).click()
  await page.getByText(/^Thank you: order \d+ is placed/).waitFor()
  await page.getByRole('button', { name: 'Orders' }).click()
  await page.getByRole('list', { name: 'Orders' }).getByText('1 × Lamp').waitFor()
  const { rows } = await store.pool.query('select users.role, users.email from orders join users on users.id = orders.user_id')
  assert.deepEqual(rows, [{ role: 'guest', email: 'ada@example.com' }])
  assert.deepEqual(complaints, [])
})
