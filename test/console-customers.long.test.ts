import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { totpCode, totpStepOf } from '../src/auth/factors/totp.ts'
import { NO_CHROMIUM, untilQuiet } from './chromium.ts'
import { assertUsable, filterBy, HOSTILE, NARROW, openConsoleOf, withoutRefusals } from './console-harness.ts'
import { eventually } from './eventually.ts'
import { createGuest } from './guests.ts'
import { startStore } from './store.ts'

const store = await startStore({ after })
let customers = 0

/** A customer with a hostile name and orders in two currencies. */
async function addCustomer() {
  const customer = await store.register({ email: `ada${customers++}@example.com` })
  const { token } = customer
  assert.equal((await store.call('PATCH', '/me', { token, body: { name: HOSTILE, language: 'de' } })).status, 200)
  const products = [await store.addProduct({ amount: 1_000 }), await store.addProduct({ amount: 700, currency: 'USD' })]
  const orders: { id: string; number: string }[] = []
  for (const { id } of products) {
    const { status, json, text } = await store.call('POST', '/orders', { token, body: { items: [{ product_id: id, quantity: 2 }] } })
    assert.equal(status, 201, text)
    orders.push(json)
  }
  return { customer, orders }
}

const headingOf = (page: Page, name: string | RegExp) => page.getByRole('heading', { level: 2, name })
const blockOf = async (id: string, { pool } = store) =>
  (await pool.query('select blocked_at is not null as is_blocked, blocked_reason from users where id = $1', [id])).rows[0]

test('from an order one click leads to the customer, who is blocked and unblocked', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store, { view: NARROW })
  const { customer, orders } = await addCustomer()
  const dialog = page.getByRole('dialog')
  await page.goto(`${address}#orders?order=${orders[0]?.id}`)
  await page.getByRole('link', { name: HOSTILE }).press('Enter')
  await headingOf(page, HOSTILE).waitFor()
  await page.getByText('€20.00, $14.00').waitFor()
  await page.getByText('German').waitFor()
  await page.getByText(`${customer.email} not proven`).waitFor()
  await page
    .getByRole('region', { name: 'Newest orders' })
    .getByRole('link', { name: orders[1]?.number ?? '' })
    .waitFor()
  await assertUsable(page, 'a customer')

  await page.getByText('More', { exact: true }).click()
  await page.getByRole('button', { name: 'Block…' }).press('Enter')
  await dialog.getByLabel('Reason').fill(HOSTILE)
  // The page behind the dialog is read again meanwhile, and the dialog stays as it is.
  await page.waitForResponse((answer) => answer.url().endsWith(customer.id), { timeout: 30_000 })
  assert.equal(await dialog.getByLabel('Reason').inputValue(), HOSTILE)
  await assertUsable(page, 'the dialog of a block')
  await dialog.getByRole('button', { name: 'Block' }).press('Enter')
  await page.getByText('The customer is blocked.').waitFor()
  await page.getByRole('definition').filter({ hasText: HOSTILE }).nth(1).waitFor()
  assert.deepEqual(await blockOf(customer.id), { is_blocked: true, blocked_reason: HOSTILE })
  await page.getByRole('button', { name: 'Change the reason…' }).press('Enter')
  assert.equal(await dialog.getByLabel('Reason').inputValue(), HOSTILE)
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Unblock…' }).press('Enter')
  await dialog.getByRole('button', { name: 'Unblock' }).press('Enter')
  await page.getByText('The customer is not blocked any more.').waitFor()
  assert.deepEqual(await blockOf(customer.id), { is_blocked: false, blocked_reason: null })

  await page.getByRole('link', { name: 'All orders of this customer' }).press('Enter')
  await page.getByText('2 orders', { exact: true }).waitFor()
  await page.getByRole('link', { name: 'Remove the filter Customer (id)' }).press('Enter')
  await page.waitForURL(/#orders$/)
  await filterBy(page, { 'Customer (id)': customer.id })
  await page.waitForURL(new RegExp(`#orders\\?user_id=${customer.id}$`))
  await page.getByText('2 orders', { exact: true }).waitFor()
  assert.equal(await page.locator('main script, main img').count(), 0)
  assert.match(await page.title(), /^Orders/)
  assert.deepEqual(complaints, [])
})

test('customers are found by address, order and id, page by page', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, show } = await openConsoleOf(t, store, { view: NARROW })
  const { customer, orders } = await addCustomer()
  const many = 'many-'
  for (let index = 0; index < 51; index++) await createGuest(store, `${many}${index}@example.com`)
  const guest = await createGuest(store, 'zoe@example.com')
  const row = (text: string) => page.getByRole('region', { name: 'Customers' }).getByRole('row').filter({ hasText: text })
  await show('Customers')
  await filterBy(page, { 'E-mail begins with': many })
  await row(`${many}0@`).waitFor()
  await page.getByRole('link', { name: 'Next page' }).press('Enter')
  await page.getByRole('link', { name: 'First page' }).waitFor()
  await row(`${many}9@`).waitFor()
  await page.goBack()
  await page.getByRole('link', { name: 'Next page' }).waitFor()
  await page.getByRole('link', { name: `Remove the filter E-mail begins with: ${many}` }).click()
  await filterBy(page, { 'Number of an order': `#${orders[0]?.number}` })
  await row(customer.email).getByText('€20.00, $14.00').waitFor()
  await assertUsable(page, 'the list of customers')
  await page.reload()
  await row(customer.email).waitFor()
  await page.getByText(`Number of an order: ${orders[0]?.number} ×`).waitFor()
  await filterBy(page, { 'Number of an order': '', Id: guest.id })
  await row(guest.email).getByText('guest', { exact: true }).waitFor()
  await filterBy(page, { Id: '', 'E-mail begins with': 'nobody' })
  await page.getByText('No customer matches.').waitFor()
  await page.getByRole('link', { name: 'Clear' }).press('Enter')
  await row(guest.email).waitFor()
  assert.deepEqual(complaints, [])
})

test('an operator with a second factor types the address, proves again who they are, and erases the customer', {
  skip: NO_CHROMIUM,
}, async (t) => {
  // From the first factor on, the store asks every admin for one.
  const secured = await startStore(t)
  const { page, complaints, address, operator } = await openConsoleOf(t, secured)
  const customer = await secured.register()
  await page.getByRole('link', { name: 'Account', exact: true }).click()
  await page.getByRole('button', { name: 'Set up an authenticator app' }).click()
  const secret = (await page.locator('.secret').textContent()) ?? ''
  const code = (steps: number) => totpCode(secret, totpStepOf(new Date()) + steps)
  await page.getByLabel('Code of the app').fill(code(-1))
  await page.getByRole('button', { name: 'Confirm' }).click()
  await page.getByRole('button', { name: 'I have stored them' }).click()
  await secured.pool.query(`update sessions set authenticated_at = now() - interval '11 minutes' where user_id = $1`, [operator.id])

  await page.goto(`${address}#customers?customer=${customer.id}`)
  await page.getByText('More', { exact: true }).click()
  await page.getByRole('button', { name: 'Erase…' }).press('Enter')
  const dialog = page.getByRole('dialog', { name: `Erase ${customer.email}` })
  await dialog.getByLabel('Type the e-mail address').fill('ada')
  await page.keyboard.press('Enter')
  await dialog.getByText('Type the e-mail address exactly as it is shown above.').waitFor()
  await assertUsable(page, 'the dialog of erasing')
  await dialog.getByLabel('Type the e-mail address').fill(customer.email)
  await page.keyboard.press('Enter')
  const proof = page.getByRole('dialog', { name: 'Confirm that it is you' })
  await proof.waitFor()
  assert.notEqual(await blockOf(customer.id, secured), undefined, 'nothing is erased before the proof')
  await proof.getByLabel('Code of your app').fill(code(0))
  await page.keyboard.press('Enter')
  await headingOf(page, 'Customers').waitFor()
  assert.equal(await blockOf(customer.id, secured), undefined)
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('what was typed at one address is not in the fields of another', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, show } = await openConsoleOf(t, store)
  await show('Customers')
  const search = page.getByLabel('Search', { exact: true })
  await search.fill('somebody')
  await search.press('Enter')
  await page.waitForURL(/q=somebody$/)
  await page.getByText('No customer matches.').waitFor()
  assert.equal(await page.evaluate('document.activeElement.name'), 'q', 'a search keeps the focus')
  await search.fill('not sent')
  await page.getByRole('link', { name: 'Clear' }).click()
  await page.waitForURL(/#customers$/)
  await eventually(async () => (await search.inputValue()) === '', { what: 'an empty field' })
  assert.deepEqual(complaints, [])
})

test('an order of an account that was deleted names no customer', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store)
  const { customer, orders } = await addCustomer()
  assert.equal((await store.call('DELETE', '/me', { token: customer.token })).status, 204)
  await page.goto(`${address}#orders?order=${orders[0]?.id}`)
  await page.getByText('no customer any more').waitFor()
  assert.deepEqual(complaints, [])
})

test('support reads customers and changes none; the warehouse reads none', { skip: NO_CHROMIUM }, async (t) => {
  const { customer, orders } = await addCustomer()
  const support = await openConsoleOf(t, store, { role: 'support' })
  await support.page.goto(`${support.address}#customers?customer=${customer.id}`)
  await headingOf(support.page, HOSTILE).waitFor()
  await support.page.getByText(customer.email).waitFor()
  assert.deepEqual(await support.page.getByRole('main').getByRole('button').allTextContents(), ['New order…'])

  const { page, address, complaints, show } = await openConsoleOf(t, store, { role: 'warehouse' })
  const asked: string[] = []
  page.on('request', (request) => asked.push(request.url()))
  await show('Orders')
  await page.getByRole('link', { name: orders[0]?.number ?? '' }).waitFor()
  assert.equal(await page.getByRole('link', { name: 'Customers', exact: true }).count(), 0)
  await page.getByRole('link', { name: orders[0]?.number ?? '' }).click()
  await page.getByRole('link', { name: 'All orders of this customer' }).waitFor()
  assert.equal(await page.getByText(HOSTILE).count(), 0)
  for (const hash of [`#customers?customer=${customer.id}`, '#customers']) {
    await page.goto(`${address}${hash}`)
    await headingOf(page, /^Overview$/).waitFor()
    await untilQuiet(page)
  }
  assert.deepEqual(
    asked.filter((url) => url.includes('/customers')),
    [],
  )
  assert.deepEqual([...complaints, ...support.complaints], [])
})
