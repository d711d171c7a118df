import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, filterBy, HOSTILE, loseFirstAnswer, NARROW, openConsole } from './console-harness.ts'
import { eventually } from './eventually.ts'
import { type Account, register, startSecondProcess, type TestStore } from './store.ts'

/** Orders of one customer, oldest first. */
async function placeOrders(store: TestStore, count: number, { name = 'A lamp', note = '' } = {}) {
  const customer = await register(store.call)
  const product = await store.addProduct({
    name,
    category: name,
    stock: 10_000,
    ...(name === HOSTILE ? { sku: HOSTILE.slice(0, 64) } : {}),
  })
  const orders: { id: string; number: string }[] = []
  for (let index = 0; index < count; index++) {
    const body = {
      items: [{ product_id: product.id, quantity: 2 }],
      shipping_address: {
        name: 'Ada Lovelace',
        line1: name.slice(0, 190),
        city: name.slice(0, 90),
        postal_code: 'SW1Y 4JH',
        country: 'GB',
      },
      ...(note === '' ? {} : { note, client_reference: `${index} ${note}` }),
    }
    const { status, json, text } = await store.call('POST', '/orders', { token: customer.token, body })
    assert.equal(status, 201, text)
    orders.push(json)
  }
  return { customer, product, orders }
}

const move = (store: TestStore, operator: Account, id: string, body: object) =>
  store.call('POST', `/admin/orders/${id}/transitions`, { token: operator.token, body })
const statusOf = async (store: TestStore, id: string) => {
  const { rows } = await store.pool.query('select status, version, status_history from orders where id = $1', [id])
  return rows[0]
}
const row = (page: Page, number: string) =>
  page.getByRole('region', { name: 'Orders', exact: true }).getByRole('row').filter({ hasText: number })
const dialog = (page: Page) => page.getByRole('dialog')

test('an operator finds an order, reads it and ships it, with the keyboard alone', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { store, operator, page, complaints, show } = await openConsole(t, NARROW)
  const { orders, product, customer } = await placeOrders(store, 3)
  const [first, second] = orders as [{ id: string; number: string }, { id: string; number: string }]
  await show('Orders')
  await row(page, first.number).waitFor()
  await assertUsable(page, 'the list')
  await filterBy(page, { Number: `#${first.number}` })
  await row(page, second.number).waitFor({ state: 'detached' })
  assert.match(page.url(), new RegExp(`#orders\\?number=${first.number}$`))
  await filterBy(page, { Number: '', 'E-mail': customer.email, 'Product (SKU or id)': product.sku })
  await row(page, second.number).waitFor()
  await page.getByRole('link', { name: 'To confirm' }).press('Enter')
  await page.waitForURL(/#orders\?email=[^&]*&product_id=[\da-f-]{36}&status=pending$/)
  await page.reload()
  await row(page, second.number).waitFor()
  assert.equal(await page.getByRole('link', { name: 'To confirm' }).getAttribute('aria-current'), 'true')
  await page.getByText(`Product (SKU or id): ${product.sku} ×`).waitFor()

  await page.getByRole('link', { name: first.number }).press('Enter')
  await page.getByRole('heading', { name: `Order ${first.number}` }).waitFor()
  await page.getByText('12.50', { exact: false }).first().waitFor()
  await page.getByText('Ada Lovelace').waitFor()
  await assertUsable(page, 'an order')
  assert.equal(await page.getByRole('button', { name: /^Ship/ }).count(), 0, 'it is not confirmed yet')
  await page.getByRole('button', { name: 'Confirm…' }).press('Enter')
  await assertUsable(page, 'the dialog')
  await dialog(page).getByLabel('Reason').fill('The payment arrived')
  await dialog(page).getByLabel('Reference').fill('payment-1')
  await page.keyboard.press('Enter')
  await page.getByText(`Order ${first.number} is confirmed.`).waitFor()
  await page.getByRole('button', { name: 'Ship 2 units…' }).press('Enter')
  await dialog(page).getByLabel('Carrier').fill('DHL')
  await page.keyboard.press('Enter')
  await dialog(page).getByText('Tracking needs both').waitFor()
  await dialog(page).getByLabel('Parcel number').fill('JJD 1')
  await dialog(page).getByLabel('Address that shows').fill('https://parcels.example/1')
  await page.keyboard.press('Enter')
  await page.getByText(`Order ${first.number} is shipped. 2 units were shipped.`).waitFor()
  await page.getByText('DHL JJD 1').first().waitFor()
  const { status, status_history: history } = await statusOf(store, first.id)
  assert.equal(status, 'shipped')
  assert.deepEqual(history[1], {
    status: 'confirmed',
    at: history[1].at,
    actor: { type: 'admin', id: operator.id },
    reason: 'The payment arrived',
    reference: 'payment-1',
  })
  assert.deepEqual(history[2].tracking, { carrier: 'DHL', number: 'JJD 1', url: 'https://parcels.example/1' })
  await page.getByRole('link', { name: '← All orders' }).click()
  await row(page, second.number).waitFor()
  assert.equal(await row(page, first.number).count(), 0, 'the filters are as before, and it is not pending')
  assert.deepEqual(complaints, [])
})

test('goods that come back are put into stock only when the operator asks for it', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, complaints, address } = await openConsole(t)
  const { orders, product } = await placeOrders(store, 2)
  for (const [index, { id, number }] of orders.entries()) {
    for (const to of ['confirmed', 'shipped', 'delivered']) await move(store, operator, id, { to })
    await page.goto(`${address}#orders?order=${id}`)
    await page.getByRole('button', { name: 'Return…' }).click()
    await dialog(page).getByRole('button', { name: 'All units' }).click()
    if (index === 1) await dialog(page).getByLabel('The goods can be sold again').check()
    await dialog(page).getByRole('button', { name: 'Return', exact: true }).click()
    await page.getByText(`Order ${number} is returned. 2 units were returned.`).waitFor()
  }
  assert.deepEqual(await store.readStock(product), [9_998])
  assert.deepEqual(complaints, [])
})

test('of two operators who move one order, the second is told what happened and overwrites nothing', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, complaints, address } = await openConsole(t)
  const [order] = (await placeOrders(store, 1)).orders as [{ id: string; number: string }]
  await page.goto(`${address}#orders?order=${order.id}`)
  const cancel = async () => {
    await page.getByText('More', { exact: true }).click()
    await page.getByRole('button', { name: 'Cancel the order…' }).click()
  }
  await cancel()
  await dialog(page).getByLabel('Reason').fill('She called')
  assert.equal((await move(store, operator, order.id, { to: 'confirmed' })).status, 200)
  // The operator decided before, even when the page behind the dialog shows the new version now.
  await page.getByText('to ship', { exact: true }).waitFor()
  await dialog(page).getByRole('button', { name: 'Cancel' }).first().click()
  await dialog(page)
    .getByText(`Order ${order.number} was not cancelled: it was changed meanwhile by an operator. It is confirmed now.`)
    .waitFor()
  await assertUsable(page, 'the explanation')
  assert.equal((await statusOf(store, order.id)).version, 2)
  // What was typed is kept, and the operator who has read this may send it again.
  assert.equal(await dialog(page).getByLabel('Reason').inputValue(), 'She called')
  await dialog(page).getByRole('button', { name: 'Cancel' }).first().click()
  await page.getByText(`Order ${order.number} is cancelled.`).waitFor()
  assert.deepEqual(
    complaints.filter((complaint) => !complaint.includes('status of 412')),
    [],
  )
})

test('many orders move at once; the one that was refused stays selected, with the reason', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, complaints, show } = await openConsole(t, NARROW)
  const { orders } = await placeOrders(store, 60)
  const refused = orders[30] as { id: string; number: string }
  await show('Orders')
  await row(page, (orders.at(-1) as { number: string }).number).waitFor()
  await page.getByLabel('Select all of this page').check()
  await page.getByText('50 selected').waitFor()
  await page.getByRole('button', { name: 'Select all that match' }).click()
  await page.getByText('60 selected').waitFor()
  await page.getByRole('button', { name: 'Confirm…' }).click()
  await move(store, operator, refused.id, { to: 'cancelled' })
  await dialog(page).getByLabel('Reason').fill('Paid')
  await dialog(page).getByRole('button', { name: 'Confirm', exact: true }).click()
  await page.getByText('59 orders are confirmed. 1 was refused.').waitFor()
  const results = page.getByRole('dialog', { name: '1 order was refused' })
  await results.getByRole('row').filter({ hasText: refused.number }).getByText('cancelled').waitFor()
  await assertUsable(page, 'the results')
  await results.getByRole('button', { name: 'Close' }).click()
  await page.getByText('1 selected').waitFor()
  assert.ok(await page.getByLabel(`Select order ${refused.number}`).isChecked())
  const { rows } = await store.pool.query('select status, count(*)::int from orders group by status order by status')
  assert.deepEqual(rows, [
    { status: 'cancelled', count: 1 },
    { status: 'confirmed', count: 59 },
  ])
  assert.deepEqual(complaints, [])
})

test('a move whose answer was lost is sent again and made once', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, show } = await openConsole(t)
  const { orders } = await placeOrders(store, 3)
  await show('Orders')
  await row(page, (orders[0] as { number: string }).number).waitFor()
  await page.getByLabel('Select all of this page').check()
  await loseFirstAnswer(page, '**/admin/orders/transitions')
  await page.getByRole('button', { name: 'Confirm…' }).click()
  const send = dialog(page).getByRole('button', { name: 'Confirm', exact: true })
  await send.click()
  await dialog(page).getByText('With this reference no order is changed twice.').waitFor()
  await send.click()
  await page.getByText('3 orders are confirmed. All of them were so already.').waitFor()
  const { rows } = await store.pool.query('select distinct version, status from orders')
  assert.deepEqual(rows, [{ version: 2, status: 'confirmed' }])
})

test('new orders come in by themselves, and selection, focus and scroll stay', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, show } = await openConsole(t)
  const { orders } = await placeOrders(store, 55)
  const chosen = orders[10] as { number: string }
  await show('Orders')
  const box = page.getByLabel(`Select order ${chosen.number}`)
  await box.check()
  await box.evaluate((element) => void Object.assign(element, { isSame: true }))
  const { orders: newer } = await placeOrders(store, 12)
  await row(page, (newer.at(-1) as { number: string }).number).waitFor({ timeout: 20_000 })
  assert.ok(await box.isChecked(), 'twelve newer orders push it off the newest page, and it stays')
  assert.equal(
    await box.evaluate(
      (element) => 'isSame' in element && element === (globalThis as { document?: { activeElement: unknown } }).document?.activeElement,
    ),
    true,
  )
  assert.deepEqual(complaints, [])
})

test('HTML in names, notes, references and reasons is text everywhere', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, complaints, show } = await openConsole(t, NARROW)
  const { orders } = await placeOrders(store, 2, { name: HOSTILE, note: HOSTILE })
  const [first] = orders as [{ id: string; number: string }]
  await move(store, operator, first.id, { to: 'confirmed', reason: HOSTILE, reference: HOSTILE })
  await move(store, operator, first.id, { to: 'shipped', tracking: { carrier: HOSTILE, number: HOSTILE } })
  await show('Orders')
  await page.getByText(`2 × ${HOSTILE}`).first().waitFor()
  await assertUsable(page, 'the list')
  await page.getByRole('link', { name: first.number }).click()
  await page.getByText(HOSTILE).nth(6).waitFor()
  await page.getByRole('heading', { name: `Order ${first.number}` }).waitFor()
  await assertUsable(page, 'the order')
  assert.equal(await page.locator('main script, main img').count(), 0)
  await page.goto(page.url().replace(/#.*/, `#orders?${new URLSearchParams({ number: '1', email: HOSTILE })}`))
  await page.getByText('No order matches.').waitFor()
  assert.match(await page.title(), /^Orders/)
  assert.deepEqual(complaints, [])
})

test('says that the store does not answer, keeps what is shown, and comes back by itself', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, address, show } = await openConsole(t)
  const { orders } = await placeOrders(store, 2)
  await show('Orders')
  const [first] = orders as [{ id: string; number: string }]
  await page.getByLabel(`Select order ${first.number}`).check()
  await store.app.stop()
  await page.getByText('The store does not answer.').waitFor({ timeout: 20_000 })
  assert.ok(await page.getByLabel(`Select order ${first.number}`).isChecked())
  const again = await startSecondProcess(t, store, { port: Number(new URL(address).port) })
  const { orders: newer } = await placeOrders({ ...store, call: again.call }, 1)
  await row(page, (newer[0] as { number: string }).number).waitFor({ timeout: 20_000 })
  assert.equal(await page.getByText('The store does not answer.').count(), 0)
  assert.ok(await page.getByLabel(`Select order ${first.number}`).isChecked())
})

test('the story of an order has its mails, and the details follow each change to its mail and the lake', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const roles = ['api', 'stream', 'email', 'lake'] as const
  const { store, operator, page, complaints, address } = await openConsole(t, NARROW, { roles: [...roles], lakeFlushSeconds: 1 })
  const { orders, customer } = await placeOrders(store, 1)
  const [order] = orders as [{ id: string; number: string }]
  await page.goto(`${address}#orders?order=${order.id}`)
  await page.getByText('Details', { exact: true }).click()
  const steps = page.getByRole('region', { name: 'Timeline' }).getByRole('row')
  await steps.filter({ hasText: 'pending' }).getByText('sent', { exact: true }).waitFor({ timeout: 60_000 })
  await steps.filter({ hasText: 'pending' }).getByText('1 attempt').waitFor()
  // Published, mailed and in the lake: three steps that took some time.
  await steps.filter({ hasText: 'pending' }).getByText(/\+\d/).nth(2).waitFor({ timeout: 60_000 })
  const story = page.getByRole('listitem')
  const placed = story.filter({ hasText: 'Mail “Order placed”' })
  await placed.getByText(`to ${customer.email}`).waitFor()
  await placed.getByText('sent', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Show the mail “Order placed”' }).press('Enter')
  const mail = page.frameLocator('.mail-content iframe')
  await mail.getByText(order.number).first().waitFor()
  await assertUsable(page, 'an order with its mail')
  assert.match(page.url(), /&event=1$/)
  await move(store, operator, order.id, { to: 'cancelled', reason: 'The lamp is broken' })
  await steps.filter({ hasText: 'cancelled' }).getByText('sent', { exact: true }).waitFor({ timeout: 60_000 })
  await page.getByRole('button', { name: 'Show the mail “Order cancelled”' }).click()
  await mail.getByText('The lamp is broken').waitFor()
  await page.reload()
  await mail.getByText('The lamp is broken').waitFor()
  assert.match(page.url(), /&event=2$/)
  // The newest comes first, whatever it is.
  const texts = await page.locator('.story > li').allTextContents()
  assert.match(texts.at(-1) ?? '', /Order placed by the customer/)
  assert.ok(
    texts.findIndex((text) => text.includes('Mail “Order cancelled”')) < texts.findIndex((text) => text.includes('Mail “Order placed”')),
  )
  await page.getByRole('button', { name: 'Hide the mail “Order cancelled”' }).click()
  await page.locator('.mail-content').waitFor({ state: 'detached' })
  assert.doesNotMatch(page.url(), /event/)
  assert.deepEqual(complaints, [])
})

test('an empty shop says what will be listed; Back returns to the row of a later page; keys walk through the list', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { store, page, complaints, show } = await openConsole(t)
  await show('Orders')
  await page.getByText('No orders yet: they are listed when customers place them.').waitFor()
  assert.equal(await page.getByText('No order matches.').count(), 0)
  const { orders } = await placeOrders(store, 90)
  await page.getByRole('link', { name: 'Next page' }).click({ timeout: 20_000 })
  const oldest = orders[0] as { number: string }
  const link = page.getByRole('link', { name: oldest.number, exact: true })
  await link.scrollIntoViewIfNeeded()
  const scrolled = (await page.evaluate('scrollY')) as number
  assert.ok(scrolled > 0)
  await link.click()
  await page.getByRole('heading', { name: `Order ${oldest.number}` }).waitFor()
  await page.goBack()
  await link.waitFor()
  await eventually(() => page.evaluate(`Math.abs(scrollY - ${scrolled}) < 50`), { timeoutMs: 20_000, what: 'the scroll' })
  assert.match(page.url(), /cursor=/)

  await page.getByRole('link', { name: 'First page' }).click()
  const newest = orders.at(-1) as { number: string }
  await row(page, newest.number).waitFor()
  await page.getByRole('heading', { level: 2, name: 'Orders' }).click()
  for (const key of ['j', 'j', 'k', 'x']) await page.keyboard.press(key)
  await page.getByText('1 selected').waitFor()
  assert.ok(await page.getByLabel(`Select order ${newest.number}`).isChecked())
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: `Order ${newest.number}` }).waitFor()
  await eventually(() => page.evaluate(`document.activeElement.tagName === 'H2'`))
  assert.deepEqual(complaints, [])
})
