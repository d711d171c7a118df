import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, loseFirstAnswer, openConsole } from './console-harness.ts'
import { createGuest } from './guests.ts'
import { register } from './store.ts'

test('an operator places orders for a guest and for a customer, each once', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, complaints, address } = await openConsole(t)
  const [ada, lamp, mug] = [
    await register(store.call),
    await store.addProduct({ name: 'Lamp', stock: 3 }),
    await store.addProduct({ name: 'Mug', amount: 500, stock: 9 }),
  ]
  const short = await store.addProduct({ name: 'Sheet A', sku: 'SH-1' })
  await store.addProduct({ name: 'Sheet B', sku: 'SH-10' })
  await page.goto(`${address}#orders`)
  const dialog = page.getByRole('dialog')
  const place = () => dialog.getByRole('button', { name: 'Place order' })
  const addProduct = async (text: string) => {
    await dialog.getByRole('textbox', { name: 'Add product' }).fill(text)
    await dialog.getByRole('textbox', { name: 'Add product' }).press('Enter')
  }
  await page.getByRole('button', { name: 'New order…' }).press('Enter')
  await dialog.getByLabel('or guest’s e-mail address').fill('phone@example.com')
  await place().press('Enter')
  await dialog.getByText('Add at least one product.').waitFor()
  await addProduct(lamp.sku)
  await dialog.getByLabel('Units of Lamp').fill('4')
  await addProduct(mug.sku)
  await dialog.getByLabel('Units of Mug').waitFor()
  // Enter leaves a list open that has several products, and none with this SKU.
  const found = dialog.getByRole('list', { name: 'Found by Add product' }).getByRole('button')
  await addProduct('sheet')
  await found.nth(1).waitFor()
  await dialog.getByRole('textbox', { name: 'Add product' }).press('Enter')
  assert.deepEqual([await found.count(), await dialog.getByLabel(/^Units of Sheet/).count()], [2, 0])
  await addProduct(short.sku)
  await dialog.getByLabel('Units of Sheet A', { exact: true }).waitFor()
  await dialog.getByRole('button', { name: 'Remove Sheet A' }).press('Enter')
  await dialog.getByText('Lamp: 3 in stock.').waitFor()
  for (const [label, text] of Object.entries({ Name: 'Grace', Street: 'Ring 1', 'Postal code': '1010', City: 'Wien', Country: 'AT' }))
    await dialog.getByRole('group', { name: 'Delivery address' }).getByLabel(label, { exact: true }).fill(text)
  await assertUsable(page, 'the dialog of a new order')
  await place().press('Enter')
  await dialog.getByText('There is not enough stock.').waitFor()
  await dialog.getByRole('button', { name: 'Remove Lamp' }).press('Enter')
  await dialog.getByText('€5.00', { exact: true }).waitFor()
  await dialog.getByLabel('Language of the mails').selectOption('de')
  await place().press('Enter')
  await page.getByText(/^Order \d+ is placed\.$/).waitFor()
  await page.getByText('Ring 1').waitFor()
  const { json: orders } = await store.call('GET', '/admin/orders', { token: operator.token })
  assert.equal(orders.data.length, 1)
  const [{ user_id, total, status_history, shipping_address }] = orders.data
  assert.deepEqual([total.amount, shipping_address.name, status_history[0].actor], [500, 'Grace', { type: 'admin', id: operator.id }])
  const { json: guest } = await store.call('GET', `/admin/customers/${user_id}`, { token: operator.token })
  assert.deepEqual([guest.email, guest.role, guest.language], ['phone@example.com', 'guest', 'de'])
  assert.deepEqual(await store.readStock(lamp, mug), [3, 8])

  await page.goto(`${address}#orders`)
  await page.getByRole('button', { name: 'New order…' }).press('Enter')
  for (let i = 0; i < 6; i++) await createGuest(store, ada.email)
  await dialog.getByLabel('Find customer').fill(ada.email)
  const people = dialog.getByRole('list', { name: 'Found by Find customer' }).getByRole('button')
  await people.first().waitFor()
  await dialog.getByRole('textbox', { name: 'Find customer' }).press('Enter')
  assert.deepEqual(
    (await people.allInnerTexts()).map((text) => text.split(' ').at(-1)),
    ['account', ...Array(5).fill('guest')],
  )
  await people.first().press('Enter')
  await dialog
    .getByText(`(${ada.email})`)
    .or(dialog.getByText(`For ${ada.email}`))
    .first()
    .waitFor()
  await addProduct(lamp.sku)
  await dialog.getByLabel('Units of Lamp').waitFor()
  await loseFirstAnswer(page, '**/admin/orders')
  await dialog.getByText('Total').waitFor()
  await place().press('Enter')
  await dialog.getByText('The store did not answer.').waitFor()
  await place().press('Enter')
  await page.getByText(/^Order \d+ is placed\.$/).waitFor()
  const { json: own } = await store.call('GET', '/orders', { token: ada.token })
  assert.equal(own.data.length, 1)
  assert.deepEqual(await store.readStock(lamp), [2])

  await page.goto(`${address}#customers?customer=${ada.id}`)
  await page.getByRole('button', { name: 'New order…' }).press('Enter')
  await dialog.getByText(ada.email).waitFor()
  assert.equal(await dialog.getByLabel('Find customer').count(), 0)
  assert.deepEqual(
    complaints.filter((text) => !text.includes('Failed to load resource')),
    [],
  )
})

test('the answer that the same order is meant counts for this order only', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, address } = await openConsole(t, {}, { duplicateOrderSeconds: 600 })
  const [ada, lamp, mug] = [await register(store.call), await store.addProduct({ name: 'Lamp' }), await store.addProduct({ name: 'Mug' })]
  const body = { items: [lamp, mug].map(({ id }) => ({ product_id: id, quantity: 1 })) }
  assert.equal((await store.call('POST', '/orders', { token: ada.token, body })).status, 201)
  await page.goto(`${address}#customers?customer=${ada.id}`)
  await page.getByRole('button', { name: 'New order…' }).press('Enter')
  const dialog = page.getByRole('dialog')
  const again = dialog.getByLabel('Place the same order a second time')
  const addProduct = async (name: string, sku: string) => {
    const field = dialog.getByRole('textbox', { name: 'Add product' })
    await field.fill(sku)
    await field.press('Enter')
    await dialog.getByLabel(`Units of ${name}`).waitFor()
    await dialog.getByText('Total').waitFor()
  }
  const place = () => dialog.getByRole('button', { name: 'Place order' }).press('Enter')
  await addProduct('Lamp', lamp.sku)
  await addProduct('Mug', mug.sku)
  await place()
  await again.check()
  await dialog.getByRole('button', { name: 'Remove Mug' }).press('Enter')
  await again.waitFor({ state: 'detached' })
  await addProduct('Mug', mug.sku)
  assert.equal(await again.count(), 0)
  await place()
  await again.waitFor()
  assert.equal(await again.isChecked(), false)
  await again.check()
  await place()
  await page.getByText(/^Order \d+ is placed\.$/).waitFor()
})
