import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, HOSTILE, NARROW, openConsole } from './console-harness.ts'
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
  await page.getByLabel('Number').fill(first.number)
  await page.keyboard.press('Enter')
  await row(page, second.number).waitFor({ state: 'detached' })
  assert.match(page.url(), new RegExp(`#orders\\?number=${first.number}$`))
  await page.getByLabel('Number').fill('')
  await page.getByLabel('E-mail').fill(customer.email)
  await page.getByLabel('Product').fill(product.sku)
  await page.getByLabel('Status').selectOption('pending')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Search' }).press('Enter')
  await row(page, second.number).waitFor()
  assert.match(page.url(), /#orders\?email=.*&status=pending&product_id=[\da-f-]{36}$/)
  await page.reload()
  await row(page, second.number).waitFor()
  assert.equal(await page.getByLabel('Status').inputValue(), 'pending')

  await page.getByRole('link', { name: first.number }).press('Enter')
  await page.getByRole('heading', { name: `Orders: ${first.number}` }).waitFor()
  await page.getByText('12.50', { exact: false }).first().waitFor()
  await page.getByText('Ada Lovelace').waitFor()
  await assertUsable(page, 'an order')
  assert.equal(await page.getByRole('button', { name: /Move to shipped/ }).count(), 0, 'it is not confirmed yet')
  await page.getByRole('button', { name: 'Move to confirmed…' }).press('Enter')
  await assertUsable(page, 'the dialog')
  await dialog(page).getByLabel('Reason').fill('The payment arrived')
  await dialog(page).getByLabel('Reference').fill('payment-1')
  await page.keyboard.press('Enter')
  await page.getByText(`Order ${first.number} is confirmed.`).waitFor()
  await page.getByRole('button', { name: 'Move to shipped…' }).press('Enter')
  await dialog(page).getByLabel('Carrier').fill('DHL')
  await page.keyboard.press('Enter')
  await dialog(page).getByText('Tracking needs both').waitFor()
  await dialog(page).getByLabel('Parcel number').fill('JJD 1')
  await dialog(page).getByLabel('Address that shows').fill('https://parcels.example/1')
  await page.keyboard.press('Enter')
  await page.getByText(`Order ${first.number} is shipped.`).waitFor()
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
    await page.getByRole('button', { name: 'Move to returned…' }).click()
    if (index === 1) await dialog(page).getByLabel('The goods can be sold again').check()
    await dialog(page).getByRole('button', { name: 'Move to returned' }).click()
    await page.getByText(`Order ${number} is returned.`).waitFor()
  }
  assert.deepEqual(await store.readStock(product), [9_998])
  assert.deepEqual(complaints, [])
})

test('of two operators who move one order, the second is told what happened and overwrites nothing', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, complaints, address } = await openConsole(t)
  const [order] = (await placeOrders(store, 1)).orders as [{ id: string; number: string }]
  await page.goto(`${address}#orders?order=${order.id}`)
  await page.getByRole('button', { name: 'Move to cancelled…' }).click()
  assert.equal((await move(store, operator, order.id, { to: 'confirmed' })).status, 200)
  // The operator decided before, even when the page behind the dialog shows the new version now.
  await page.getByText('version 2').waitFor()
  await dialog(page).getByRole('button', { name: 'Move to cancelled' }).click()
  await page.getByText(`Order ${order.number} was not moved to cancelled: it was changed meanwhile. It is confirmed (version 2)`).waitFor()
  await assertUsable(page, 'the explanation')
  assert.equal((await statusOf(store, order.id)).version, 2)
  await page.getByRole('button', { name: 'Move to cancelled…' }).click()
  await dialog(page).getByRole('button', { name: 'Move to cancelled' }).click()
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
  await page.getByRole('button', { name: 'Older orders' }).click()
  await page.getByText('60 orders', { exact: true }).waitFor()
  await page.getByLabel('Select all shown').check()
  await page.getByText('60 selected').waitFor()
  await page.getByRole('combobox', { name: 'Move to' }).selectOption('confirmed')
  await page.getByRole('button', { name: 'Move selected…' }).click()
  await move(store, operator, refused.id, { to: 'cancelled' })
  await dialog(page).getByLabel('Reason').fill('Paid')
  await dialog(page).getByRole('button', { name: 'Move to confirmed' }).click()
  await page.getByText('Orders moved: 59. Refused: 1, with the reason below.').waitFor()
  await page.getByText('1 selected').waitFor()
  assert.ok(await page.getByLabel(`Select order ${refused.number}`).isChecked())
  const results = page.getByRole('region', { name: 'Result of the last move' })
  await results.getByRole('row').filter({ hasText: refused.number }).getByText('not moved').waitFor()
  await assertUsable(page, 'the results')
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
  await page.getByLabel('Select all shown').check()
  let isLost = true
  await page.route('**/admin/orders/transitions', async (route) => {
    if (!isLost) return route.continue()
    isLost = false
    await route.fetch()
    await route.abort('connectionreset')
  })
  await page.getByRole('button', { name: 'Move selected…' }).click()
  const send = dialog(page).getByRole('button', { name: 'Move to confirmed' })
  await send.click()
  await dialog(page).getByText('With this reference no order is moved twice.').waitFor()
  await send.click()
  await page.getByText('Orders moved: 3.').waitFor()
  await page.getByText('Result of the last move: 3 moved, 0 refused').click()
  assert.equal(await page.getByText('was confirmed already').count(), 3)
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

test('the timeline follows each change to its mail and the lake, with the mail beside it', { skip: NO_CHROMIUM }, async (t) => {
  const roles = ['api', 'stream', 'email', 'lake'] as const
  const { store, operator, page, complaints, address } = await openConsole(t, NARROW, { roles: [...roles], lakeFlushSeconds: 1 })
  const { orders, customer } = await placeOrders(store, 1)
  const [order] = orders as [{ id: string; number: string }]
  await page.goto(`${address}#orders?order=${order.id}`)
  const steps = page.getByRole('region', { name: 'Timeline' }).getByRole('row')
  await steps.filter({ hasText: 'pending' }).getByText('sent', { exact: true }).waitFor({ timeout: 60_000 })
  await steps.filter({ hasText: 'pending' }).getByText('1 attempt').waitFor()
  // Published, mailed and in the lake: three steps that took some time.
  await steps.filter({ hasText: 'pending' }).getByText(/\+\d/).nth(2).waitFor({ timeout: 60_000 })
  await page
    .getByRole('definition')
    .filter({ hasText: new RegExp(`^${RegExp.escape(customer.email)}$`) })
    .waitFor()
  const mail = page.frameLocator('.mail-view iframe')
  await mail.getByText(order.number).first().waitFor()
  await assertUsable(page, 'an order with its mail')
  await move(store, operator, order.id, { to: 'cancelled', reason: 'The lamp is broken' })
  await steps.filter({ hasText: 'cancelled' }).getByText('sent', { exact: true }).waitFor({ timeout: 60_000 })
  await mail.getByText('The lamp is broken').waitFor()
  await page.getByRole('button', { name: 'Show the mail of change 1, pending' }).click()
  await mail.getByText('The lamp is broken').waitFor({ state: 'detached' })
  await mail.getByText(order.number).first().waitFor()
  assert.match(page.url(), /&event=1$/)
  assert.equal(await page.getByRole('button', { name: 'Show the mail of change 1, pending' }).getAttribute('aria-pressed'), 'true')
  assert.deepEqual(complaints, [])
})
