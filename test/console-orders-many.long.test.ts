import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, filterBy, HOSTILE, loseFirstAnswer, NARROW, openConsoleOf, pasteInto } from './console-harness.ts'
import { eventually } from './eventually.ts'
import { registerOperator } from './register-operator.ts'
import { startStore } from './store.ts'

const store = await startStore({ after })
const admin = await registerOperator(store)

interface Placed {
  id: string
  number: string
}

/** Confirmed orders of a new product, oldest first. The name is that of their recipients. */
async function placeOrders(count: number, { name = 'Ada Lovelace', isConfirmed = true } = {}) {
  const [customer, product] = [await store.register(), await store.addProduct({ stock: 1_000 })]
  const orders: Placed[] = []
  for (let index = 0; index < count; index++) {
    const shipping_address = { name, line1: '1 Old Street', city: 'London', postal_code: 'SW1Y 4JH', country: 'GB' }
    const body = { items: [{ product_id: product.id, quantity: 1 }], shipping_address }
    const { status, json, text } = await store.call('POST', '/orders', { token: customer.token, body })
    assert.equal(status, 201, text)
    orders.push({ id: json.id, number: json.number })
    if (isConfirmed) await move(json.id, { to: 'confirmed' })
  }
  return { orders, product, customer }
}

async function move(id: string, body: object): Promise<void> {
  const { status, text } = await store.call('POST', `/admin/orders/${id}/transitions`, { token: admin.token, body })
  assert.equal(status, 200, text)
}

/** The status and the tracking of each order, in their sequence. */
async function shipmentsOf(orders: readonly Placed[]): Promise<string[]> {
  const { rows } = await store.pool.query(
    `select status, status_history -> -1 -> 'tracking' as tracking from orders where id = any($1) order by number`,
    [orders.map(({ id }) => id)],
  )
  return rows.map(({ status, tracking }) => (tracking === null ? status : `${status} ${tracking.carrier} ${tracking.number}`))
}

/** The orders of a product are listed, all of them are selected, and shipping begins. */
async function beginToShip(page: Page, address: string, product: { id: string }, count: number): Promise<void> {
  await page.goto(`${address}#orders?product_id=${product.id}`)
  await page.getByText(`${count} ${count === 1 ? 'order' : 'orders'}`, { exact: true }).waitFor()
  await page.getByLabel('Select all of this page').click()
  await page.getByText(`${count} selected`).waitFor()
  await page.getByRole('button', { name: 'Ship…' }).click()
}

test('ships 20 parcels with a filled carrier and a pasted column in at most 10 clicks', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store)
  const { orders, product } = await placeOrders(20)
  await page.goto(`${address}#orders?product_id=${product.id}`)
  await page.getByText('20 orders', { exact: true }).waitFor()
  await page.evaluate(`globalThis.clicks = 0; addEventListener('click', ({ isTrusted }) => isTrusted && clicks++, true)`)
  await page.getByLabel('Select all of this page').click()
  await page.getByRole('button', { name: 'Ship…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Ship 20 orders' })
  const newest = orders.toReversed()
  await dialog.getByLabel(`Carrier of order ${newest[0]?.number}`).click()
  await page.keyboard.type('DHL')
  await dialog.getByRole('button', { name: 'Fill down' }).click()
  await dialog.getByLabel(`Parcel number of order ${newest[0]?.number}`).click()
  await pasteInto(page, `Parcel number of order ${newest[0]?.number}`, newest.map((_, index) => `JJD ${index}`).join('\r\n'))
  await dialog.getByText('20 lines were taken.').waitFor()
  await assertUsable(page, 'the table of parcels')
  await dialog.getByRole('button', { name: 'Ship', exact: true }).click()
  await page.locator('#toast').getByText('20 orders are shipped.').waitFor()
  await dialog.waitFor({ state: 'detached' })
  assert.deepEqual(
    await shipmentsOf(newest),
    newest.map((_, index) => `shipped DHL JJD ${newest.length - 1 - index}`),
  )
  const clicks = (await page.evaluate('clicks')) as number
  assert.ok(clicks <= 10, `${clicks} clicks`)
  await page.getByText(/\d+ selected/).waitFor({ state: 'detached' })
  assert.deepEqual(complaints, [])
})

test("a carrier's file finds its orders in any sequence, and names the lines that it cannot place", { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store, { view: NARROW })
  const { orders, product } = await placeOrders(3, { name: HOSTILE })
  const [first, second, third] = orders as [Placed, Placed, Placed]
  await beginToShip(page, address, product, 3)
  const dialog = page.getByRole('dialog', { name: 'Ship 3 orders' })
  const text = [
    '\uFEFF"Date";"Reference";"Tracking number";"Carrier";"Link"',
    `2026-11-28;#${second.number};"1Z;2";UPS;https://parcels.example/2`,
    `2026-11-28;${first.number};1Z1;"The ""best"" one";`,
    '2026-11-28;999999;1Z9;UPS;',
  ].join('\r\n')
  await dialog.getByLabel('CSV file of the carrier').setInputFiles({ name: 'parcels.csv', mimeType: 'text/csv', buffer: Buffer.from(text) })
  await dialog.getByText('2 lines were taken. 1 line names no order of this table: 999999.').waitFor()
  await assertUsable(page, 'the table of parcels with a file')
  assert.equal(await dialog.getByLabel(`Parcel number of order ${second.number}`).inputValue(), '1Z;2')
  await dialog.getByRole('button', { name: 'Ship', exact: true }).click()
  await dialog.getByText('2 orders are shipped.').waitFor()
  // The third one has no number: it stays, until it is to be shipped without one.
  await dialog.getByLabel(`Parcel number of order ${third.number}`).waitFor()
  await dialog.getByLabel('Also ship orders without a parcel number (1)').check()
  await dialog.getByRole('button', { name: 'Ship', exact: true }).click()
  await dialog.waitFor({ state: 'detached' })
  assert.deepEqual(await shipmentsOf(orders), ['shipped The "best" one 1Z1', 'shipped UPS 1Z;2', 'shipped'])
  assert.equal(await page.locator('main script, main img').count(), 0)
  assert.deepEqual(complaints, [])
})

test('pastes order, carrier and number, and Enter goes down as a scanner does', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store)
  const { orders, product } = await placeOrders(3)
  const [first, second, third] = orders as [Placed, Placed, Placed]
  await beginToShip(page, address, product, 3)
  const dialog = page.getByRole('dialog')
  await pasteInto(page, `Parcel number of order ${second.number}`, `${first.number}\tDPD\tA1\n${third.number}\tDPD\tA3\n`)
  await dialog.getByText('2 lines were taken.').waitFor()
  assert.equal(await dialog.getByLabel(`Parcel number of order ${second.number}`).inputValue(), '')
  await dialog.getByLabel(`Parcel number of order ${third.number}`).fill('A3b')
  await page.keyboard.press('Enter')
  await page.keyboard.type('A2')
  await page.keyboard.press('Enter')
  assert.equal(await page.evaluate('document.activeElement.value'), 'A1')
  // Escape does not lose what was scanned.
  await page.keyboard.press('Escape')
  const question = page.getByRole('dialog', { name: 'Close without sending?' })
  await question.getByText('3 parcel numbers are not sent.').waitFor()
  await question.getByRole('button', { name: 'Cancel' }).click()
  await dialog.getByRole('button', { name: 'Ship', exact: true }).click()
  await dialog.getByText(`Order ${second.number} has a parcel number without a carrier.`).waitFor()
  await dialog.getByRole('button', { name: 'Fill down' }).click()
  await dialog.getByRole('button', { name: 'Ship', exact: true }).click()
  await page.getByText('3 orders are shipped.').waitFor()
  assert.deepEqual(await shipmentsOf(orders), ['shipped DPD A1', 'shipped DPD A2', 'shipped DPD A3b'])
  assert.deepEqual(complaints, [])
})

test('scanned numbers are not lost: not by Escape again and again, by Back, by a reload, nor while they are sent', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { page, address, complaints } = await openConsoleOf(t, store)
  const { orders, product } = await placeOrders(1)
  const { number } = orders[0] as Placed
  await beginToShip(page, address, product, 1)
  const dialog = page.getByRole('dialog', { name: 'Ship 1 order' })
  const scanned = dialog.getByLabel(`Parcel number of order ${number}`)
  await dialog.getByLabel(`Carrier of order ${number}`).fill('DHL')
  await scanned.fill('JJD 1')
  await page.keyboard.press('Enter')
  const question = page.getByRole('dialog', { name: 'Close without sending?' })
  for (const isOpen of [true, false, true]) {
    await page.keyboard.press('Escape')
    await question.waitFor({ state: isOpen ? 'visible' : 'detached' })
  }
  await question.getByRole('button', { name: 'Cancel' }).click()

  await page.goBack()
  const leaving = page.getByRole('dialog', { name: 'Leave without saving?' })
  await leaving.getByText('1 parcel number is not sent.').waitFor()
  await leaving.getByRole('button', { name: 'Cancel' }).click()
  const asked: string[] = []
  page.once('dialog', (shown) => {
    asked.push(shown.type())
    void shown.dismiss()
  })
  await page.evaluate('location.reload()').catch(() => {})
  await eventually(async () => asked.length > 0, { what: 'a question before the reload' })
  assert.equal(await scanned.inputValue(), 'JJD 1')

  let send = () => {}
  const held = new Promise<void>((resolve) => {
    send = resolve
  })
  await page.route('**/admin/orders/transitions', async (route) => {
    await held
    await route.continue()
  })
  await dialog.getByRole('button', { name: 'Ship', exact: true }).click()
  for (let times = 0; times < 3; times++) await page.keyboard.press('Escape')
  assert.equal(await dialog.count(), 1)
  assert.equal(await question.count(), 0)
  send()
  // The dialog says it until it has closed.
  await page.locator('#toast').getByText('1 order is shipped.').waitFor()
  await dialog.waitFor({ state: 'detached' })
  await page.getByRole('link', { name: 'Products', exact: true }).click()
  await page.getByRole('heading', { level: 2, name: 'Products' }).waitFor()
  assert.deepEqual(await shipmentsOf(orders), ['shipped DHL JJD 1'])
  assert.deepEqual(complaints, [])
})

test('what is refused stays in the table with its reason, and a lost answer ships nothing twice', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store)
  const { orders, product } = await placeOrders(3)
  const [first, second, third] = orders as [Placed, Placed, Placed]
  await beginToShip(page, address, product, 3)
  const dialog = page.getByRole('dialog')
  // While the dialog is open, one is cancelled and one is changed and can be shipped still.
  await move(first.id, { to: 'cancelled' })
  const fee = { kind: 'fee', label: 'Gift', amount: { amount: 100, currency: 'EUR' } }
  await store.call('POST', `/admin/orders/${second.id}/adjustments`, { token: admin.token, body: fee })
  const lines = orders.map(({ number }, index) => `${number}\tDHL\tL${index + 1}`)
  await pasteInto(page, `Parcel number of order ${third.number}`, lines.join('\n'))
  await loseFirstAnswer(page, '**/admin/orders/transitions')
  const ship = dialog.getByRole('button', { name: 'Ship', exact: true })
  await ship.click()
  await dialog.getByText('0 of 3 are shipped. Sent again, no order is shipped twice.').waitFor()
  assert.deepEqual(await shipmentsOf([third]), ['shipped DHL L3'])
  // A number that was corrected meanwhile is not taken silently.
  await dialog.getByLabel(`Parcel number of order ${third.number}`).fill('L4')
  await ship.click()
  await dialog.getByText('It was shipped before, with the number L3.').waitFor()
  await dialog.getByText(/It is cancelled now\./).waitFor()
  await dialog.getByText(/It is confirmed now\./).waitFor()
  assert.ok(await dialog.getByLabel(`Parcel number of order ${first.number}`).isDisabled())
  await assertUsable(page, 'refused parcels')
  // The operator has seen why, and sends the changed one again.
  await ship.click()
  await dialog.getByLabel(`Parcel number of order ${second.number}`).waitFor({ state: 'detached' })
  await dialog.getByRole('button', { name: 'Close' }).click()
  assert.deepEqual(await shipmentsOf(orders), ['cancelled', 'shipped DHL L2', 'shipped DHL L3'])
  const { rows } = await store.pool.query(`select version from orders where id = $1`, [third.id])
  assert.deepEqual(rows, [{ version: 3 }])
  assert.deepEqual(
    complaints.filter((text) => !/ERR_CONNECTION_RESET|status of 4/.test(text)),
    [],
  )
})

test('selects all that match, exports them as CSV and prints their slips', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store)
  const { orders, product } = await placeOrders(53, { name: '=cmd|calc', isConfirmed: false })
  const [first] = orders as [Placed]
  await page.goto(`${address}#orders?product_id=${product.id}`)
  await page.getByText('50 orders, and more').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Select all that match' }).count(), 0)
  await page.getByLabel('Select all of this page').click()
  await page.getByText('50 selected').waitFor()
  await page.getByRole('button', { name: 'Select all that match' }).click()
  await page.getByText('53 selected').waitFor()
  await assertUsable(page, 'a selection')

  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export CSV' }).click()])
  assert.match(file.suggestedFilename(), /^orders-\d{4}-\d\d-\d\d\.csv$/)
  const lines = (await readFile(await file.path(), 'utf8')).split('\r\n')
  assert.equal(lines.length, 55)
  assert.match(lines[0] ?? '', /^\uFEFF"number","placed_at","status"/)
  assert.match(lines[53] ?? '', new RegExp(`^"${first.number}",.*"pending".*12.50,"EUR".*"'=cmd\\|calc".*"GB"`))

  await page.evaluate('globalThis.print = () => { globalThis.isPrinted = true }')
  await page.getByRole('button', { name: 'Print slips' }).click()
  await eventually(() => page.evaluate('globalThis.isPrinted'))
  assert.equal(await page.locator('.slips').isVisible(), false, 'only paper has them')
  await page.emulateMedia({ media: 'print' })
  assert.equal(await page.locator('.slips section:visible').count(), 53)
  assert.equal(await page.getByRole('region', { name: 'Orders', exact: true }).isVisible(), false)
  await page.locator('.slips').getByText(`Packing slip of order ${first.number}`).waitFor()
  await page.emulateMedia({ media: 'screen' })
  await page.evaluate(`dispatchEvent(new Event('afterprint'))`)
  await page.locator('.slips').waitFor({ state: 'detached' })

  // An order prints its slip, too.
  await page.goto(`${address}#orders?order=${first.id}`)
  await page.getByRole('heading', { name: `Order ${first.number}` }).waitFor()
  await page.evaluate(`dispatchEvent(new Event('beforeprint'))`)
  await page.emulateMedia({ media: 'print' })
  await page.locator('.slips section:visible').waitFor()
  assert.equal(await page.getByRole('heading', { name: 'What happened' }).isVisible(), false)
  assert.deepEqual(complaints, [])
})

test('keeps a view by its name, and an order leads to its neighbours and back to the list', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store, { view: NARROW })
  const { orders, product } = await placeOrders(3, { isConfirmed: false })
  const [first, second] = orders as [Placed, Placed]
  await page.goto(`${address}#orders`)
  await page.getByRole('link', { name: 'To confirm' }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Save view…' }).count(), 0, 'there is nothing to name')
  await filterBy(page, { 'Product (SKU or id)': product.sku })
  await page.getByRole('link', { name: 'To confirm' }).click()
  await page.getByRole('button', { name: 'Save view…' }).click()
  await page.getByRole('dialog').getByLabel('Name').fill(HOSTILE.slice(0, 50))
  await assertUsable(page, 'the name of a view')
  await page.keyboard.press('Enter')
  await page.getByRole('link', { name: 'All', exact: true }).click()
  await page.reload()
  const view = page.getByRole('link', { name: HOSTILE.slice(0, 50) })
  await view.click()
  await page.waitForURL(new RegExp(`product_id=${product.id}&status=pending|status=pending&product_id=${product.id}`))
  await page.locator('nav a[aria-current=true]', { hasText: HOSTILE.slice(0, 50) }).waitFor()
  await page.getByText('3 orders', { exact: true }).waitFor()
  await assertUsable(page, 'a saved view')
  await page.getByRole('link', { name: second.number }).press('Enter')
  const heading = page.getByRole('heading', { name: `Order ${second.number}` })
  await heading.waitFor()
  await eventually(() => page.evaluate(`document.activeElement.textContent === 'Order ${second.number}'`))
  await page.getByRole('link', { name: '↓ Next order' }).click()
  await page.getByRole('heading', { name: `Order ${first.number}` }).waitFor()
  assert.equal(await page.getByRole('link', { name: '↓ Next order' }).count(), 0)
  await page.getByRole('link', { name: '↑ Previous order' }).click()
  await heading.waitFor()
  await page.getByRole('link', { name: '← All orders' }).click()
  await page.getByText('3 orders', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Remove view' }).click()
  await view.waitFor({ state: 'detached' })
  assert.deepEqual(complaints, [])
})

test('the note of an order is not lost without a question, and an unbroken name hides no price', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store, { view: { width: 1_024 } })
  const product = await store.addProduct({ name: 'x'.repeat(200) })
  const customer = await store.register()
  const { json: order } = await store.call('POST', '/orders', {
    ...{ token: customer.token, body: { items: [{ product_id: product.id, quantity: 1 }] } },
  })
  await page.goto(`${address}#orders?order=${order.id}`)
  await page.getByLabel('New note').fill('Call her')
  const amount = page.getByRole('region', { name: 'Units' }).getByRole('cell').last()
  const { x = 0, width = 0 } = (await amount.boundingBox()) ?? {}
  const card = await page.getByRole('region', { name: 'Units' }).boundingBox()
  assert.ok(x + width <= (card?.x ?? 0) + (card?.width ?? 0) + 1, 'the amount is in sight')
  await page.getByRole('link', { name: 'Products', exact: true }).click()
  const question = page.getByRole('dialog', { name: 'Leave without saving?' })
  await question.getByText('1 change is not saved.').waitFor()
  await question.getByRole('button', { name: 'Cancel' }).click()
  assert.equal(await page.getByLabel('New note').inputValue(), 'Call her')
  await page.getByRole('button', { name: 'Add note' }).click()
  // The answer is where the hand is.
  const { y = -1 } = (await page.getByText('The note is saved.').boundingBox()) ?? {}
  assert.ok(y >= 0 && y < 900, `the message is in sight, at ${y}`)
  await page.getByRole('link', { name: 'Products', exact: true }).click()
  await page.getByRole('heading', { level: 2, name: 'Products' }).waitFor()
  assert.deepEqual(complaints, [])
})

test('the tabs say how many orders wait for a person, and for their payment', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, show } = await openConsoleOf(t, store, { role: 'warehouse' })
  const { orders } = await placeOrders(2, { isConfirmed: false })
  const { json: before } = await store.call('GET', '/admin/to-do/orders', { token: admin.token })
  await show('Orders')
  const tab = (title: string) => page.getByRole('navigation', { name: 'Orders: groups' }).getByRole('link', { name: title })
  await tab(`To confirm ${before.to_confirm.count}`).waitFor()
  await tab(`To ship ${before.to_ship.count}`).waitFor()
  const body = { provider: 'bank', reference: 'tab', state: 'paid' }
  await store.call('PUT', `/admin/orders/${orders[0]?.id}/payment`, { token: admin.token, body })
  await page.reload()
  await tab(`Unpaid ${before.unpaid.count - 1}`).click()
  await page.getByRole('link', { name: orders[1]?.number ?? '', exact: true }).waitFor()
  assert.equal(await page.getByRole('link', { name: orders[0]?.number ?? '', exact: true }).count(), 0)
  assert.match(page.url(), /#orders\?unpaid=true$/)
  // What the operator does is counted at once.
  await page.getByLabel(`Select order ${orders[1]?.number}`).click()
  await page.getByRole('button', { name: 'Confirm…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Confirm', exact: true }).click()
  await tab(`To confirm ${before.to_confirm.count - 1}`).waitFor()
  await tab(`To ship ${before.to_ship.count + 1}`).waitFor()
  await assertUsable(page, 'the tabs')
  assert.deepEqual(complaints, [])
})
