import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page, Route } from 'playwright-core'
import { NO_CHROMIUM, openBrowser } from './chromium.ts'
import type { Cleanup } from './cleanup.ts'
import { assertUsable, withoutRefusals } from './console-harness.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { comeBack, startShop } from './shop-process.ts'
import { type StoreOverrides, startStore } from './store.ts'

const FIELDS = { 'E-mail': 'ada@example.com', Name: 'Ada', Street: 'Ring 1', 'Postal code': '1010', City: 'Wien' }

/** A shop with a lamp and a vase, both in the basket, and the page of the order. */
async function openOrder(t: Cleanup, overrides: StoreOverrides = {}) {
  const [port, apiPort] = [await freePort(), await freePort()]
  const origin = `http://localhost:${port}`
  const store = await startStore(t, { corsOrigins: [origin], port: apiPort, baseUrl: `http://localhost:${apiPort}`, ...overrides })
  for (const name of ['Lamp', 'Vase']) await store.addProduct({ name, stock: 10 })
  await startShop(t, port, `http://localhost:${apiPort}`)
  const { page, complaints } = await (await openBrowser(t)).open()
  for (const slug of ['lamp', 'vase']) {
    await page.goto(`${origin}/products/${slug}`)
    await page.getByRole('button', { name: 'Add to basket' }).click()
  }
  await page.goto(`${origin}/checkout`)
  return { origin, store, page, complaints, count: async () => (await store.pool.query('select from orders')).rowCount }
}

async function fill(page: Page): Promise<void> {
  for (const [label, value] of Object.entries(FIELDS)) await page.getByLabel(label, { exact: true }).fill(value)
  await page.getByLabel('Country').selectOption('AT')
}

const order = (page: Page) => page.getByRole('button', { name: 'Order', exact: true }).click()
const noAnswer = (page: Page) => page.getByText('The store cannot be reached. Press Order again: it is placed once.').waitFor()

/** The store places the order, and none of its answers arrives. */
async function loseAnswers(page: Page): Promise<() => Promise<void>> {
  const lose = async (route: Route) => {
    await route.fetch()
    await route.abort()
  }
  await page.route('**/orders', lose)
  return () => page.unroute('**/orders', lose)
}

test('an order without an answer is not placed twice: in another tab, and when it was changed', { skip: NO_CHROMIUM }, async (t) => {
  const { origin, page, count } = await openOrder(t)
  await fill(page)
  await loseAnswers(page)
  await order(page)
  await noAnswer(page)
  assert.equal(await count(), 1)

  const other = await page.context().newPage()
  await page.close()
  await other.goto(`${origin}/checkout`)
  await fill(other)
  await order(other)
  await other.getByText('Your order is placed. The mail about it has a link to it.').waitFor()
  assert.equal(await count(), 1)
  await other.close()
})

test('a customer is asked before a changed order is sent while another one has no answer', { skip: NO_CHROMIUM }, async (t) => {
  const { page, count } = await openOrder(t)
  await fill(page)
  const find = await loseAnswers(page)
  await order(page)
  await noAnswer(page)
  await find()
  await page.getByLabel('City', { exact: true }).fill('Graz')
  await order(page)
  const question = page.getByRole('dialog', { name: 'An order may have been placed' })
  await question.getByText('Check your mails first.').waitFor()
  await assertUsable(page, 'question')
  await question.getByRole('button', { name: 'Close' }).click()
  await page.getByText('Nothing was ordered.').waitFor()
  await order(page)
  await question.getByRole('button', { name: 'Order nevertheless' }).click()
  // The store knows the key of the first one.
  await page.getByText('An order from this basket was placed before you changed it').waitFor()
  assert.equal(await count(), 1)
  await order(page)
  await page.getByText(/^Thank you/).waitFor()
  assert.equal(await count(), 2)
})

/** Signs in in the order form, and fills in the address. */
async function fillAs(page: Page, { email, password }: { email: string; password: string }): Promise<void> {
  await fill(page)
  await page.getByLabel('E-mail').fill(email)
  await page.getByLabel('I have an account').check()
  await page.getByLabel('Password').fill(password)
}

const question = (page: Page) => page.getByRole('dialog', { name: 'An order may have been placed' })

test('a customer is asked before a lost order is sent again without the account, and the other way round', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { origin, store, page, count } = await openOrder(t)
  const ada = await store.register({ email: 'ada@example.com' })
  for (const first of ['account', 'guest']) {
    await store.pool.query('truncate orders cascade')
    if (first === 'account') await fillAs(page, ada)
    else await fill(page)
    const find = await loseAnswers(page)
    await order(page)
    await noAnswer(page)
    await find()
    await page.getByRole('button', { name: 'Sign out', exact: true }).click()
    await page.waitForURL(`${origin}/`)
    await page.goto(`${origin}/checkout`)
    if (first === 'account') await fill(page)
    else await fillAs(page, ada)
    await order(page)
    await question(page).getByRole('button', { name: 'Close' }).click()
    await page.getByText('Nothing was ordered.').waitFor()
    assert.equal(await count(), 1, first)
    await page.evaluate(`localStorage.removeItem('shop.attempt'); localStorage.removeItem('shop.checkout'); sessionStorage.clear()`)
    await page.reload()
  }
})

test('a lost order stays in question when the session has ended before its automatic retry', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, count } = await openOrder(t)
  await fillAs(page, await store.register({ email: 'ada@example.com' }))
  const loseAndEnd = async (route: Route) => {
    await route.fetch()
    await store.pool.query('update sessions set revoked_at = now()')
    const [, token] = (route.request().headers().authorization ?? '').split(' ')
    await eventually(async () => (await store.call('GET', '/me', { token })).status === 401)
    await route.abort()
  }
  await page.route('**/orders', loseAndEnd, { times: 1 })
  await order(page)
  await page.getByText('Your session has ended. Press Order again.').waitFor()
  await page.getByLabel('Order without an account').check()
  await order(page)
  await question(page).getByRole('button', { name: 'Close' }).click()
  assert.equal(await count(), 1)
})

const add = async (page: Page, origin: string, slug: string) => {
  await page.goto(`${origin}/products/${slug}`)
  await page.getByRole('button', { name: 'Add to basket' }).click()
}

test('a lost order stays in question when its lines were removed, and some added again', { skip: NO_CHROMIUM }, async (t) => {
  const { origin, page, count } = await openOrder(t)
  await fill(page)
  const find = await loseAnswers(page)
  await order(page)
  await noAnswer(page)
  await find()
  await page.goto(`${origin}/basket`)
  for (const name of ['Lamp', 'Vase']) await page.getByRole('button', { name: `Remove ${name}` }).click()
  await add(page, origin, 'lamp')
  await page.goto(`${origin}/checkout`)
  await order(page)
  await question(page).getByRole('button', { name: 'Close' }).click()
  assert.equal(await count(), 1)
})

test('an order has the lines that were shown when it was sent, and others stay in the basket', { skip: NO_CHROMIUM }, async (t) => {
  const { origin, store, page } = await openOrder(t)
  await fill(page)
  const lines = `JSON.parse(localStorage.getItem('shop.basket'))`
  const change = (quantity: number) =>
    page.evaluate(`localStorage.setItem('shop.basket', JSON.stringify(${lines}.map((line) => ({ ...line, quantity: ${quantity} }))))`)
  // A page from the back/forward cache has missed the changes in other tabs.
  await change(3)
  await page.route('**/auth/guest', async (route) => {
    await change(4)
    await page.evaluate(`dispatchEvent(new StorageEvent('storage'))`)
    await route.continue()
  })
  await order(page)
  await page.getByText(/^Thank you/).waitFor()
  const { rows } = await store.pool.query('select items from orders')
  assert.deepEqual(
    rows.map(({ items }) => items.map(({ quantity }: { quantity: number }) => quantity)),
    [[1, 1]],
  )
  await page.getByRole('link', { name: 'Basket (6)' }).click()
  await page.getByLabel('Units of Vase').waitFor()
  await page.evaluate(`localStorage.setItem('shop.basket', '[]')`)
  await comeBack(page)
  await page.getByText('The basket is empty.').waitFor()
  assert.equal(new URL(page.url()).origin, origin)
})

test('a deliberate repeat without an answer is found again', { skip: NO_CHROMIUM }, async (t) => {
  const { origin, page, count } = await openOrder(t, { duplicateOrderSeconds: 600 })
  await fill(page)
  await order(page)
  await page.getByText(/^Thank you/).waitFor()
  for (const slug of ['lamp', 'vase']) await add(page, origin, slug)
  await page.goto(`${origin}/checkout`)
  await fill(page)
  await order(page)
  await page.getByText('You have just placed this order. Press Order again to place it once more.').waitFor()
  const find = await loseAnswers(page)
  await order(page)
  await noAnswer(page)
  await find()
  await order(page)
  await page.getByText(/^Thank you/).waitFor()
  assert.equal(await count(), 2)
})

test('what was typed stays, except the password, until the order is placed; a refused line can be removed', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { origin, store, page, complaints } = await openOrder(t)
  await fill(page)
  await page.getByLabel('I have an account').check()
  await page.getByLabel('Password').fill('correct horse battery')
  await page.getByRole('link', { name: 'Change the basket' }).click()
  await page.getByRole('link', { name: 'Continue to delivery' }).click()
  await page.reload()
  for (const [label, value] of Object.entries(FIELDS)) assert.equal(await page.getByLabel(label, { exact: true }).inputValue(), value)
  assert.equal(await page.getByLabel('Country').inputValue(), 'AT')
  assert.equal(await page.getByLabel('Password').inputValue(), '')
  await page.getByLabel('Order without an account').check()

  await store.pool.query(`update inventory set available = 0 where product_id = (select id from products where name = 'Vase')`)
  await order(page)
  await page.getByText('Vase: 0 left.').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Remove Lamp' }).count(), 0)
  await page.getByRole('button', { name: 'Remove Vase' }).click()
  await order(page)
  await page.getByText(/^Thank you/).waitFor()
  await page.goto(`${origin}/products/lamp`)
  await page.getByRole('button', { name: 'Add to basket' }).click()
  await page.goto(`${origin}/checkout`)
  assert.equal(await page.getByLabel('City', { exact: true }).inputValue(), '')
  assert.deepEqual(withoutRefusals(complaints), [])
})
