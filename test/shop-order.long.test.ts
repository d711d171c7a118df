import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page, Route } from 'playwright-core'
import { NO_CHROMIUM, openBrowser } from './chromium.ts'
import type { Cleanup } from './cleanup.ts'
import { assertUsable, withoutRefusals } from './console-harness.ts'
import { freePort } from './free-port.ts'
import { startShop } from './shop-process.ts'
import { startStore } from './store.ts'

const FIELDS = { 'E-mail': 'ada@example.com', Name: 'Ada', Street: 'Ring 1', 'Postal code': '1010', City: 'Wien' }

/** A shop with a lamp and a vase, both in the basket, and the page of the order. */
async function openOrder(t: Cleanup) {
  const [port, apiPort] = [await freePort(), await freePort()]
  const origin = `http://localhost:${port}`
  const store = await startStore(t, { corsOrigins: [origin], port: apiPort, baseUrl: `http://localhost:${apiPort}` })
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
