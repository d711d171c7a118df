import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { NO_CHROMIUM, untilQuiet } from './chromium.ts'
import { assertUsable, filterBy, HOSTILE, NARROW, openConsoleOf } from './console-harness.ts'
import { registerOperator } from './register-operator.ts'
import { type Account, startStore } from './store.ts'

const store = await startStore({ after })
const grace = await registerOperator(store)

async function call(method: string, path: string, body?: object, { token }: Pick<Account, 'token'> = grace) {
  const headers: Record<string, string> = method === 'POST' ? {} : { 'if-match': '*' }
  const { status, json, text } = await store.call(method, path, { token, headers, ...(body === undefined ? {} : { body }) })
  assert.ok(status < 300, text)
  return json
}

async function placeOrder(product: { id: string }) {
  const customer = await store.register()
  const order = await call('POST', '/orders', { items: [{ product_id: product.id, quantity: 1 }] }, customer)
  return { customer, order }
}

const changes = (page: Page) => page.getByRole('region', { name: 'Changes', exact: true }).getByRole('row')
const unfold = (page: Page) => page.getByRole('main').getByText('Changes', { exact: true }).press('Enter')

test('an order, a product and a customer show their changes, and those of now', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store, { view: NARROW })
  const product = await store.addProduct({ name: 'Lamp', amount: 1_000, stock: 7 })
  const { customer, order } = await placeOrder(product)
  const key = await call('POST', '/admin/api-keys', { name: HOSTILE, scopes: ['stock:read', 'stock:write'] })
  await call('PUT', `/admin/products/${product.id}/stock`, { stock: 25 }, { token: key.key })
  await call('PATCH', `/admin/products/${product.id}`, { name: HOSTILE, price: { amount: 900, currency: 'EUR' } })

  await page.goto(`${address}#products?product=${product.id}`)
  await page.getByRole('heading', { level: 2, name: HOSTILE }).waitFor()
  await unfold(page)
  await changes(page)
    .filter({ hasText: `operator ${grace.email}` })
    .getByText(`name: Lamp → ${HOSTILE}`)
    .waitFor()
  await changes(page)
    .filter({ hasText: `key ${HOSTILE}` })
    .getByText('stock: 6 → 25')
    .waitFor()
  await page.getByText('price: €10.00 → €9.00').waitFor()
  await assertUsable(page, 'the changes of a product')
  // New changes come in by themselves, and the list stays unfolded.
  await call('PUT', `/admin/products/${product.id}/stock`, { stock: 3 })
  await page.getByText('stock: 25 → 3').waitFor()

  await page.goto(`${address}#orders?order=${order.id}`)
  await page.getByRole('heading', { level: 2, name: `Order ${order.number}` }).waitFor()
  await unfold(page)
  await page.getByText('No changes.').waitFor()
  await call('POST', `/admin/orders/${order.id}/transitions`, { to: 'confirmed', reason: 'Paid' })
  await changes(page).filter({ hasText: 'moved the order' }).getByText('status: pending → confirmed').waitFor()

  await call('POST', `/admin/customers/${customer.id}/block`, { reason: HOSTILE })
  await page.goto(`${address}#customers?customer=${customer.id}`)
  await page.getByText(customer.email).first().waitFor()
  await unfold(page)
  await changes(page).filter({ hasText: 'blocked the customer' }).getByText('blocked: no → yes').waitFor()
  await assertUsable(page, 'the changes of a customer')
  assert.equal(await page.locator('main script, main img').count(), 0)
  assert.deepEqual(complaints, [])
})

test('all changes are filtered by who, what and when, page by page', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, show, operator } = await openConsoleOf(t, store, { view: NARROW })
  const product = await store.addProduct({ stock: 0 })
  for (let stock = 1; stock <= 50; stock++) await call('PUT', `/admin/products/${product.id}/stock`, { stock })
  await call('PUT', `/admin/products/${product.id}/stock`, { stock: 1_000 }, operator)
  await store.pool.query(
    `insert into activities (actor_type, action, subject_type, subject_id) values ('system', 'webhook add', 'webhook', $1)`,
    [HOSTILE],
  )
  await show('Changes')
  const ofWebhook = changes(page).filter({ hasText: 'ran “webhook add”' }).first().getByText(HOSTILE)
  await ofWebhook.waitFor()
  assert.equal(await ofWebhook.getAttribute('href'), `#settings?${new URLSearchParams({ section: 'webhooks', webhook: HOSTILE })}`)
  await filterBy(page, { Id: product.id })
  // The first list has both; that of the product has one.
  await changes(page).filter({ hasText: 'ran “webhook add”' }).waitFor({ state: 'detached' })
  await page.getByText('stock: 50 → 1000').waitFor()
  assert.equal(await page.getByText('stock: 0 → 1', { exact: true }).count(), 0)
  assert.equal(await changes(page).count(), 51, 'a page, below the names of the columns')
  await page.getByRole('link', { name: 'Next page' }).press('Enter')
  await page.getByText('stock: 0 → 1', { exact: true }).waitFor()
  assert.equal(await changes(page).count(), 2)
  await page.reload()
  await page.getByText('stock: 0 → 1', { exact: true }).waitFor()
  await page.goBack()
  await page.getByText('stock: 50 → 1000').waitFor()
  // A change of now comes in by itself.
  await call('PUT', `/admin/products/${product.id}/stock`, { stock: 5 })
  await page.getByText('stock: 1000 → 5').waitFor()
  await assertUsable(page, 'the list of changes')

  await filterBy(page, { By: operator.email, What: 'counted the stock', Of: 'products', From: '2020-01-01T00:00' })
  await page.getByText('stock: 1000 → 5').waitFor({ state: 'detached' })
  await page.getByText('stock: 50 → 1000').waitFor()
  assert.equal(await changes(page).count(), 2)
  await page.reload()
  await page.getByText('stock: 50 → 1000').waitFor()
  await page.getByRole('link', { name: `Remove the filter By: ${operator.email}` }).waitFor()
  await page
    .getByRole('link', { name: /^Remove the filter From: 1 Jan/ })
    .or(page.getByRole('link', { name: /^Remove the filter From: Jan 1/ }))
    .waitFor()
  await filterBy(page, { Before: '2020-01-02T00:00' })
  await page.getByText('No change matches.').waitFor()
  await page.getByRole('link', { name: 'Clear' }).press('Enter')
  await page.getByText('stock: 1000 → 5').waitFor()
  assert.equal(await page.locator('main script, main img').count(), 0)
  assert.deepEqual(complaints, [])
})

test('who may not read activities has no list of changes', { skip: NO_CHROMIUM }, async (t) => {
  const product = await store.addProduct()
  const { order } = await placeOrder(product)
  const support = await openConsoleOf(t, store, { role: 'support' })
  await support.page.goto(`${support.address}#orders?order=${order.id}`)
  await support.page.getByRole('heading', { level: 2, name: `Order ${order.number}` }).waitFor()
  await support.page.goto(`${support.address}#products?product=${product.id}`)
  await support.page.getByRole('heading', { level: 2, name: product.name }).waitFor()
  assert.equal(await support.page.getByText('Changes', { exact: true }).count(), 0)

  const { page, address, complaints } = await openConsoleOf(t, store, { role: 'analyst' })
  await page.goto(`${address}#changes`)
  await page.getByRole('heading', { level: 2, name: 'Overview' }).waitFor()
  assert.equal(await page.getByRole('link', { name: 'Changes' }).count(), 0)
  await untilQuiet(page)
  assert.deepEqual([...complaints, ...support.complaints], [])
})
