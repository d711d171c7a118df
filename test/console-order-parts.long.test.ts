import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { NO_CHROMIUM, untilQuiet } from './chromium.ts'
import { assertUsable, HOSTILE, loseFirstAnswer, NARROW, openConsoleOf, withoutRefusals } from './console-harness.ts'
import { registerOperator } from './register-operator.ts'
import { startStore } from './store.ts'

const store = await startStore({ after })
const admin = await registerOperator(store)

/** A confirmed order of 3 mugs and 2 lamps, each with a stock of 97 and 98. */
async function placeOrder({ name = 'Blue mug', attributes = {} } = {}) {
  const [mug, lamp] = [await store.addProduct({ name, amount: 1_000 }), await store.addProduct({ name: 'Lamp', amount: 2_000 })]
  const items = [
    { product_id: mug.id, quantity: 3 },
    { product_id: lamp.id, quantity: 2 },
  ]
  const customer = await store.register()
  const { status, json, text } = await store.call('POST', '/orders', { token: customer.token, body: { items, attributes } })
  assert.equal(status, 201, text)
  const order: { id: string; number: string } = json
  await change(order.id, 'transitions', { to: 'confirmed' })
  return { order, mug, lamp, customer }
}

async function change(id: string, path: string, body: object): Promise<void> {
  const { status, text } = await store.call('POST', `/admin/orders/${id}/${path}`, { token: admin.token, body })
  assert.equal(status, 200, text)
}

async function read(id: string) {
  const { json } = await store.call('GET', `/admin/orders/${id}`, { token: admin.token })
  return json
}

async function open(page: Page, address: string, { id, number }: { id: string; number: string }): Promise<void> {
  await page.goto(`${address}#orders?order=${id}`)
  await page.getByRole('heading', { level: 2, name: `Order ${number}` }).waitFor()
}

test('an operator ships a parcel, cancels and returns parts, with the keyboard alone', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store, { view: NARROW })
  const { order, mug, lamp } = await placeOrder({ name: HOSTILE, attributes: { channel: HOSTILE, is_gift: true } })
  const dialog = page.getByRole('dialog')
  await open(page, address, order)
  await page.getByRole('heading', { name: 'Attributes' }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Return…' }).count(), 0, 'nothing was shipped yet')

  await page.getByRole('button', { name: 'Ship 5 units…' }).press('Enter')
  assert.equal(await dialog.getByLabel(HOSTILE).inputValue(), '3', 'a parcel has everything, unless something is taken out')
  await dialog.getByLabel(HOSTILE).fill('1')
  await dialog.getByLabel('Lamp').fill('0')
  await dialog.getByLabel('Carrier').fill(HOSTILE)
  await page.keyboard.press('Enter')
  await dialog.getByText('Tracking needs both').waitFor()
  await dialog.getByLabel('Parcel number').fill('JJD 1')
  await assertUsable(page, 'the dialog of a parcel')
  await page.keyboard.press('Enter')
  await page.getByText(`Order ${order.number} is confirmed. 1 unit was shipped.`).waitFor()
  await page.getByRole('heading', { name: 'Parcels' }).waitFor()
  await page.getByText(`1 × ${HOSTILE} shipped`).waitFor()
  assert.equal(await page.getByText(`${HOSTILE} JJD 1`).count(), 2, 'the parcel, and the change that shipped it')

  await page.getByText('More', { exact: true }).press('Enter')
  await page.getByRole('button', { name: 'Cancel units…' }).press('Enter')
  await page.keyboard.press('Tab')
  await dialog.getByRole('button', { name: 'Cancel units' }).press('Enter')
  await dialog.getByText('Choose at least one unit.').waitFor()
  await dialog.getByLabel('Lamp').fill('2')
  await dialog.getByLabel('Reason').fill('No longer made')
  await page.keyboard.press('Enter')
  await page.getByText(`Order ${order.number} is confirmed. 2 units were cancelled.`).waitFor()
  await page.getByRole('table', { name: 'Sums' }).getByRole('row').filter({ hasText: 'Total' }).getByText('€30.00').waitFor()

  for (const [index, isRestocked] of [false, true].entries()) {
    if (index === 1) await change(order.id, 'shipments', {})
    await page.getByRole('button', { name: 'Return…' }).press('Enter')
    await dialog.getByLabel(HOSTILE).fill('1')
    if (isRestocked) await dialog.getByLabel('The goods can be sold again').press('Space')
    await dialog.getByRole('button', { name: 'Return', exact: true }).press('Enter')
    await page.getByText(/1 unit was returned\./).waitFor()
    await page.getByText(isRestocked ? 'returned, to be sold again' : 'returned, not back in stock').waitFor()
  }
  await assertUsable(page, 'an order with parcels')
  const { status, items, parcels, total } = await read(order.id)
  assert.deepEqual(
    [status, total.amount, parcels.length, parcels[0].tracking],
    ['shipped', 3_000, 2, { carrier: HOSTILE, number: 'JJD 1' }],
  )
  assert.deepEqual(
    items.map(({ shipped, cancelled, returned }: Record<string, number>) => [shipped, cancelled, returned]),
    [
      [3, undefined, 2],
      [undefined, 2, undefined],
    ],
  )
  assert.deepEqual([await store.readStock(mug), await store.readStock(lamp)], [[98], [100]])
  assert.equal(await page.locator('main script, main img').count(), 0)
  assert.match(await page.title(), /^Order \d/)
  assert.deepEqual(complaints, [])
})

test('a parcel that was made meanwhile is not doubled, and what was entered outlives the polling behind the dialog', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store)
  const { order, mug } = await placeOrder()
  const dialog = page.getByRole('dialog')
  await open(page, address, order)
  await page.getByRole('button', { name: 'Ship 5 units…' }).click()
  await dialog.getByLabel('Blue mug').fill('2')
  await change(order.id, 'shipments', { lines: [{ product_id: mug.id, quantity: 2 }] })
  await page.getByText('2 of 3 shipped').waitFor()
  assert.equal(await dialog.getByLabel('Blue mug').inputValue(), '2')
  await dialog.getByRole('button', { name: 'Ship', exact: true }).click()
  await dialog.getByText(`Order ${order.number} was not shipped: it was changed meanwhile by an operator. It is confirmed now`).waitFor()
  assert.equal((await read(order.id)).parcels.length, 1)
  // What was entered stays beside what is left now, and is too much.
  await dialog.getByText('At most 1.').waitFor()
  assert.equal(await dialog.getByLabel('Blue mug').inputValue(), '2')
  await dialog.getByRole('button', { name: 'Ship', exact: true }).click()
  assert.equal(await page.evaluate(`document.querySelector('dialog input:invalid').validity.rangeOverflow`), true)
  await dialog.getByRole('button', { name: 'Cancel' }).click()

  // The answer is lost: the same button sends it again, and it is made once.
  await page.getByRole('button', { name: 'Ship 3 units…' }).click()
  await dialog.getByLabel('Lamp').fill('1')
  await loseFirstAnswer(page, '**/shipments')
  await dialog.getByRole('button', { name: 'Ship', exact: true }).click()
  await dialog.getByText('Nothing you have entered is lost').waitFor()
  await dialog.getByRole('button', { name: 'Ship', exact: true }).click()
  await page.getByText(`Order ${order.number} is confirmed. 2 units were shipped.`).waitFor()
  assert.equal((await read(order.id)).parcels.length, 2)
  assert.deepEqual(
    withoutRefusals(complaints).filter((text) => !text.includes('ERR_CONNECTION_RESET')),
    [],
  )
})

test('an operator sees what each line is engraved with, ships one of two lines of a product, and returns it at its price', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store)
  const ring = await store.addProduct({ name: 'Ring', amount: 1_000 })
  const items = ['Anna', HOSTILE].map((engraving) => ({ product_id: ring.id, quantity: 1, attributes: { engraving } }))
  const { json: order } = await store.call('POST', '/orders', { token: (await store.register()).token, body: { items } })
  await change(order.id, 'transitions', { to: 'confirmed' })
  const dialog = page.getByRole('dialog')
  await open(page, address, order)
  await page.getByRole('table', { name: 'Units' }).getByText(`engraving: ${HOSTILE}`).waitFor()
  await page.evaluate(`dispatchEvent(new Event('beforeprint'))`)
  assert.ok((await page.locator('.slips').textContent())?.includes('Ringengraving: Anna'))
  await page.evaluate(`dispatchEvent(new Event('afterprint'))`)

  await page.getByRole('button', { name: 'Ship 2 units…' }).press('Enter')
  await dialog.getByLabel('engraving: Anna').fill('0')
  await assertUsable(page, 'the dialog of a parcel with engravings')
  await dialog.getByRole('button', { name: 'Ship', exact: true }).press('Enter')
  await page.getByText(`1 × Ring (engraving: ${HOSTILE}) shipped`).waitFor()
  await page.getByRole('button', { name: 'Return…' }).press('Enter')
  assert.equal(await dialog.getByRole('spinbutton').count(), 1)
  await dialog.getByLabel('engraving').fill('1')
  await dialog.getByRole('button', { name: 'Return', exact: true }).press('Enter')
  await page.getByText(/1 unit was returned\./).waitFor()
  const { items: lines } = await read(order.id)
  assert.deepEqual(
    lines.map(({ shipped, returned }: { shipped?: number; returned?: number }) => [shipped, returned]),
    [
      [undefined, undefined],
      [1, 1],
    ],
  )
  assert.deepEqual(complaints, [])
})

test('who may only read orders has no button that changes one', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store, { role: 'support' })
  const { order } = await placeOrder()
  await page.route('**/console/session/refresh', async (route) => {
    const answer = await route.fetch()
    const access = await answer.json()
    await route.fulfill({ response: answer, json: { ...access, operator: { ...access.operator, scopes: ['orders:read'] } } })
  })
  await open(page, address, order)
  await page.reload()
  await open(page, address, order)
  await page.getByRole('heading', { name: 'What happened' }).waitFor()
  await untilQuiet(page)
  await page.getByText('More', { exact: true }).click()
  const buttons = await page.getByRole('main').getByRole('button').allTextContents()
  assert.deepEqual(buttons, ['Print the packing slip'])
  assert.deepEqual(complaints, [])
})
