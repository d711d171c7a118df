import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, HOSTILE, NARROW, openConsoleOf } from './console-harness.ts'
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
const unfold = (page: Page) => page.getByText('Changes', { exact: true }).press('Enter')

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
  await page.getByRole('heading', { level: 2, name: `Orders: ${order.number}` }).waitFor()
  await unfold(page)
  await page.getByText('No changes.').waitFor()
  await call('POST', `/admin/orders/${order.id}/transitions`, { to: 'confirmed', reason: 'Paid' })
  await changes(page).filter({ hasText: 'moved the order' }).getByText('status: pending → confirmed').waitFor()

  await call('POST', `/admin/customers/${customer.id}/block`, { reason: HOSTILE })
  await page.goto(`${address}#orders?customer=${customer.id}`)
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
  for (let stock = 1; stock <= 25; stock++) await call('PUT', `/admin/products/${product.id}/stock`, { stock })
  await call('PUT', `/admin/products/${product.id}/stock`, { stock: 1_000 }, operator)
  await store.pool.query(
    `insert into activities (actor_type, action, subject_type, subject_id) values ('system', 'webhook add', 'webhook', $1)`,
    [HOSTILE],
  )
  await show('Pipeline')
  await page.getByRole('link', { name: 'Changes by operators and keys' }).press('Enter')
  await page.getByRole('heading', { level: 2, name: 'Pipeline: changes' }).waitFor()
  await changes(page).filter({ hasText: 'ran “webhook add”' }).first().getByText(HOSTILE).waitFor()
  await page.getByRole('textbox', { name: 'Id' }).fill(product.id)
  await page.getByRole('button', { name: 'Search' }).press('Enter')
  // The first list has both; that of the product has one.
  await changes(page).filter({ hasText: 'ran “webhook add”' }).waitFor({ state: 'detached' })
  await page.getByText('stock: 25 → 1000').waitFor()
  assert.equal(await page.getByText('stock: 1 → 2').count(), 0)
  const before = await changes(page).count()
  await page.getByRole('button', { name: 'Older changes' }).press('Enter')
  await page.getByText('stock: 1 → 2').waitFor()
  assert.equal(before, 21, 'a page, below the names of the columns')
  // A change of now joins the pages that are shown.
  await call('PUT', `/admin/products/${product.id}/stock`, { stock: 5 })
  await page.getByText('stock: 1000 → 5').waitFor()
  assert.equal(await changes(page).count(), 28)
  assert.equal(await page.getByRole('button', { name: 'Older changes' }).isVisible(), false)
  await assertUsable(page, 'the list of changes')

  await page.getByRole('combobox', { name: 'By' }).selectOption(operator.email)
  await page.getByRole('combobox', { name: 'What' }).selectOption('counted the stock')
  await page.getByRole('combobox', { name: 'Of' }).selectOption('products')
  await page.getByLabel('From').fill('2020-01-01T00:00')
  await page.getByRole('button', { name: 'Search' }).press('Enter')
  await page.getByText('stock: 1000 → 5').waitFor({ state: 'detached' })
  await page.getByText('stock: 25 → 1000').waitFor()
  assert.equal(await changes(page).count(), 2)
  await page.reload()
  await page.getByText('stock: 25 → 1000').waitFor()
  await page.getByRole('combobox', { name: 'By' }).locator('option:checked', { hasText: operator.email }).waitFor({ state: 'attached' })
  assert.equal(await page.getByLabel('From').inputValue(), '2020-01-01T00:00')
  await page.getByLabel('Before').fill('2020-01-02T00:00')
  await page.getByRole('button', { name: 'Search' }).press('Enter')
  await page.getByText('No changes.').waitFor()
  await page.getByRole('link', { name: 'Clear filters' }).press('Enter')
  await page.getByText('stock: 1000 → 5').waitFor()
  assert.equal(await page.locator('main script, main img').count(), 0)
  assert.deepEqual(complaints, [])
})

test('who may not read activities has no list of changes', { skip: NO_CHROMIUM }, async (t) => {
  const product = await store.addProduct()
  const { order } = await placeOrder(product)
  const support = await openConsoleOf(t, store, { role: 'support' })
  await support.page.goto(`${support.address}#orders?order=${order.id}`)
  await support.page.getByRole('heading', { level: 2, name: `Orders: ${order.number}` }).waitFor()
  await support.page.goto(`${support.address}#products?product=${product.id}`)
  await support.page.getByRole('heading', { level: 2, name: 'Products: ' }).waitFor()
  assert.equal(await support.page.getByText('Changes', { exact: true }).count(), 0)

  const { page, address, complaints } = await openConsoleOf(t, store, { role: 'analyst' })
  await page.goto(`${address}#pipeline?changes=1`)
  await page.getByRole('heading', { level: 2, name: /^Pipeline$/ }).waitFor()
  assert.equal(await page.getByRole('link', { name: 'Changes by operators and keys' }).count(), 0)
  await page.waitForLoadState('networkidle')
  assert.deepEqual([...complaints, ...support.complaints], [])
})
