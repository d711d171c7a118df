import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { NO_CHROMIUM } from './chromium.ts'
import { openConsoleOf, paste, WIDE } from './console-harness.ts'
import { eventually } from './eventually.ts'
import { registerOperator } from './register-operator.ts'
import { type Account, startStore } from './store.ts'

// The ten jobs that operators do most, counted: how many clicks each needs from another screen. The bound of a job is
// what the best other shop needs.
const store = await startStore({ after }, { roles: ['api', 'stream', 'email'], isAdminFactorRequired: false })
const admin = await registerOperator(store)
const customer = await store.register({ email: 'ida.keller@example.com', name: 'Ida Keller' })
const lamp = await store.addProduct({ name: 'Table lamp', sku: 'LAMP-1', amount: 4_000, stock: 500 })

async function place({ token }: Account = customer): Promise<{ id: string; number: string }> {
  const shipping_address = { name: 'Ida Keller', line1: 'Gartenweg 1', city: 'Wien', postal_code: '1070', country: 'AT' }
  const body = { items: [{ product_id: lamp.id, quantity: 2 }], shipping_address }
  const { status, json, text } = await store.call('POST', '/orders', { token, body })
  assert.equal(status, 201, text)
  return json
}

async function move(id: string, to: string): Promise<void> {
  const { status, text } = await store.call('POST', `/admin/orders/${id}/transitions`, { token: admin.token, body: { to } })
  assert.equal(status, 200, text)
}

/** A person at the console: every click and key is one of the mouse and the keyboard. */
interface Person {
  page: Page
  /** Types text where the cursor is. */
  type(text: string): Promise<void>
  press(key: string): Promise<void>
  /** Pastes what was copied elsewhere, where the cursor is. */
  paste(text: string): Promise<void>
  /** Finds something from any screen, with the keyboard alone. */
  find(text: string): Promise<void>
  button(name: string): Promise<void>
  click(label: string): Promise<void>
}

function job(name: string, most: { clicks: number }, work: (person: Person) => Promise<void>): void {
  test(`${name}: at most ${most.clicks} clicks`, { skip: NO_CHROMIUM }, async (t) => {
    const { page, complaints } = await openConsoleOf(t, store, { view: WIDE })
    await page.getByRole('heading', { level: 2, name: 'Overview' }).waitFor()
    await page.evaluate(`
      Object.assign(globalThis, { clicks: 0, keys: 0 })
      addEventListener('pointerdown', ({ isTrusted }) => isTrusted && clicks++, true)
      addEventListener('keydown', ({ isTrusted }) => isTrusted && keys++, true)`)
    const type = (text: string) => page.keyboard.type(text)
    const press = (key: string) => page.keyboard.press(key)
    await work({
      ...{ page, type, press },
      async paste(text) {
        await press('Control+v')
        await paste(page, text)
      },
      async find(text) {
        await press('/')
        await type(text)
        await page.getByRole('listbox', { name: 'Found' }).getByRole('option').first().waitFor()
        await press('Enter')
      },
      button: (label) => page.getByRole('button', { name: label, exact: true }).click(),
      click: (label) => page.getByLabel(label, { exact: true }).click(),
    })
    const { clicks, keys } = (await page.evaluate('({ clicks, keys })')) as { clicks: number; keys: number }
    t.diagnostic(`${name}: ${clicks} clicks, ${keys} keys`)
    assert.ok(clicks <= most.clicks, `${clicks} clicks`)
    assert.deepEqual(complaints, [])
  })
}

job('1. find an order by its number', { clicks: 1 }, async ({ page, find }) => {
  const order = await place()
  await find(order.number)
  await page.getByRole('heading', { level: 2, name: order.number }).waitFor()
})

job('1. find an order by a part of the name', { clicks: 3 }, async ({ page, find }) => {
  const order = await place()
  await find('Keller')
  await page.getByRole('heading', { level: 2, name: order.number }).waitFor()
})

job('2. why did the customer get no mail?', { clicks: 2 }, async ({ page, find }) => {
  const order = await place()
  const mails = async () => (await store.call('GET', `/admin/mails?order=${order.number}`, { token: admin.token })).json.data
  await eventually(async () => (await mails()).some(({ status }: { status: string }) => status === 'sent'), { what: 'the mail' })
  await find(order.number)
  await page.getByRole('heading', { level: 2, name: order.number }).waitFor()
  await page
    .getByRole('button', { name: /^Show the mail/ })
    .first()
    .click()
  await page.getByText('ida.keller@example.com').last().waitFor()
})

job('3. ship 20 orders with their parcel numbers', { clicks: 10 }, async ({ page, type, paste, button, click }) => {
  const product = await store.addProduct({ name: 'Twenty', stock: 100 })
  for (let index = 0; index < 20; index++) {
    const { json } = await store.call('POST', '/orders', {
      token: customer.token,
      body: { items: [{ product_id: product.id, quantity: 1 }] },
    })
    await move(json.id, 'confirmed')
  }
  await page.getByRole('link', { name: 'Orders', exact: true }).click()
  await page.getByRole('link', { name: /^To ship/ }).click()
  await page.getByText('20 orders', { exact: true }).waitFor()
  await click('Select all of this page')
  await button('Ship…')
  const dialog = page.getByRole('dialog', { name: 'Ship 20 orders' })
  await dialog
    .getByLabel(/^Carrier of order/)
    .first()
    .click()
  await type('DHL')
  await dialog.getByRole('button', { name: 'Fill down' }).click()
  await dialog
    .getByLabel(/^Parcel number of order/)
    .first()
    .click()
  await paste(Array.from({ length: 20 }, (_, index) => `JJD${index}`).join('\r\n'))
  await dialog.getByText('20 lines were taken.').waitFor()
  await dialog.getByRole('button', { name: 'Ship', exact: true }).click()
  await page.locator('#toast').getByText('20 orders are shipped.').waitFor()
})

job('4. refund one of two lamps that came back', { clicks: 5 }, async ({ page, find, type, button }) => {
  const order = await place()
  const payment = { provider: 'bank', reference: `statement ${order.number}`, state: 'paid' }
  await store.call('PUT', `/admin/orders/${order.id}/payment`, { token: admin.token, body: payment })
  for (const to of ['confirmed', 'shipped']) await move(order.id, to)
  await find(order.number)
  await button('Return and refund…')
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('spinbutton').click({ clickCount: 2 })
  await type('1')
  assert.equal(await dialog.getByLabel('Paid back').inputValue(), '40.00', 'the sum is computed')
  await dialog.getByRole('button', { name: 'Return', exact: true }).click()
  await page.getByText('1 unit was returned. €40.00 is recorded as paid back.').waitFor()
})

job('5. set the stock after a count', { clicks: 2 }, async ({ page, find, type, press, click }) => {
  await store.addProduct({ name: 'Counted', sku: 'COUNT-1', stock: 10 })
  await find('COUNT-1')
  await page.getByText('10 available').waitFor()
  await click('Set to')
  await press('Control+a')
  await type('8')
  await press('Enter')
  await page.getByText('The stock is 8.').waitFor()
})

job('6. plan a sale that ends by itself', { clicks: 5 }, async ({ page, find, type, button, click }) => {
  await store.addProduct({ name: 'Reduced', sku: 'SALE-1', amount: 2_000 })
  await find('SALE-1')
  await button('Add a sale')
  await click('Price in sale 1')
  await type('15')
  await click('Sale 1 until')
  // What a person types depends on the language of the browser.
  await page.getByLabel('Sale 1 until', { exact: true }).fill('2126-12-01T08:00')
  await button('Save')
  await page.getByText('Reduced is saved.').waitFor()
})

job('7. make six variants of a product', { clicks: 9 }, async ({ page, find, type, press, button, click }) => {
  await store.addProduct({ name: 'Shirt', sku: 'SHIRT-1' })
  await find('SHIRT-1')
  await click('Option 1')
  await type('Size')
  await press('Tab')
  await type('S, M, L')
  await button('Another option')
  await click('Option 2')
  await type('Colour')
  await press('Tab')
  await type('red, blue')
  await button('Make 6 rows')
  await page.getByText('6 changes', { exact: true }).waitFor()
  await button('Save variants')
  await page.getByText('6 variants are saved.').waitFor()
})

job('8. the revenue of yesterday', { clicks: 2 }, async ({ page }) => {
  await page.getByRole('link', { name: 'Yesterday', exact: true }).click()
  await page.getByRole('link', { name: 'Yesterday', exact: true }).and(page.locator('[aria-current=true]')).waitFor()
  await page.getByText('Revenue', { exact: true }).first().waitFor()
})

job('9. invite a colleague', { clicks: 5 }, async ({ page, type, press, button }) => {
  await page.getByRole('link', { name: 'Settings', exact: true }).click()
  await button('Invite an operator')
  const dialog = page.getByRole('dialog', { name: 'Invite an operator' })
  await dialog.getByLabel('E-mail').click()
  await type('grace@shop.example')
  await press('Tab')
  await type('warehouse')
  await dialog.getByRole('button', { name: 'Invite' }).click()
  await page.getByText('grace@shop.example is invited by a mail.').waitFor()
})

job('10. what happened to my order?', { clicks: 1 }, async ({ page, find }) => {
  const order = await place()
  for (const to of ['confirmed', 'shipped']) await move(order.id, to)
  await find(order.number)
  await page.getByRole('heading', { level: 2, name: order.number }).waitFor()
  const story = page.getByRole('heading', { level: 3, name: 'What happened' })
  await story.waitFor()
  const { y = 0 } = (await story.boundingBox()) ?? {}
  assert.ok(y > 0 && y < 900, `the answer is ${y} px below the top`)
})
