import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, openConsole } from './console-harness.ts'
import { register } from './store.ts'

const HOSTILE = `"><script>document.title='taken'</script>\n<img src=x onerror="document.title='taken'">`

test('an operator reads and adds notes about an order, and nothing in them runs', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, complaints, address } = await openConsole(t)
  const [ada, lamp] = [await register(store.call), await store.addProduct()]
  const body = { items: [{ product_id: lamp.id, quantity: 1 }], attributes: { channel: HOSTILE } }
  const { json: order } = await store.call('POST', '/orders', { token: ada.token, body })
  const { status } = await store.call('POST', `/admin/orders/${order.id}/notes`, { token: operator.token, body: { text: HOSTILE } })
  assert.equal(status, 201)
  await page.goto(`${address}#orders?order=${order.id}`)
  await page.locator('.note').first().waitFor()
  assert.equal(await page.locator('.note').first().textContent(), HOSTILE)
  await page
    .getByRole('definition')
    .filter({ hasText: HOSTILE.split('\n')[0] ?? '' })
    .waitFor()
  await page.getByLabel('New note').fill('Second')
  await page.getByRole('button', { name: 'Add note' }).press('Enter')
  await page.getByText('The note is saved.').waitFor()
  await page.locator('.note').nth(1).waitFor()
  assert.deepEqual(await page.locator('.note').allTextContents(), ['Second', HOSTILE])
  assert.equal(await page.getByLabel('New note').inputValue(), '')
  await assertUsable(page, 'an order with notes')
  assert.notEqual(await page.title(), 'taken')
  assert.deepEqual(complaints, [])
})

test('an operator amends address, e-mail address, tracking and lines, and a refusal names the place', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, address } = await openConsole(t)
  const [ada, lamp, mug] = [await register(store.call), await store.addProduct(), await store.addProduct({ amount: 500, name: 'Mug' })]
  const shipping_address = { name: 'Ada', line1: '1 Old Street', city: 'London', postal_code: 'SW1', country: 'GB' }
  const items = [{ product_id: lamp.id, quantity: 2 }]
  const { json: order } = await store.call('POST', '/orders', { token: ada.token, body: { items, shipping_address } })
  const post = (path: string, body: object) => store.call('POST', `/admin/orders/${order.id}/${path}`, { token: operator.token, body })
  await post('transitions', { to: 'confirmed' })
  const tracking = { carrier: 'DHL', number: '1' }
  assert.equal((await post('shipments', { lines: [{ product_id: lamp.id, quantity: 1 }], tracking })).status, 200)
  await page.goto(`${address}#orders?order=${order.id}`)
  const dialog = page.getByRole('dialog')
  const open = async () => {
    await page.getByText('More', { exact: true }).click()
    await page.getByRole('button', { name: 'Amend…' }).press('Enter')
  }
  await open()
  const billing = dialog.getByRole('group', { name: 'Billing address, where it is another' })
  const given = { Name: 'Accounts', Company: 'Quadrille Ltd', Street: 'Ring 1', 'Postal code': '1010', City: 'Wien', Country: 'AT' }
  for (const [label, text] of Object.entries(given)) await billing.getByLabel(label).fill(text)
  await billing.getByLabel('VAT number').fill('atu 1234')
  await dialog.getByRole('group', { name: 'Delivery address' }).getByLabel('Street').fill('2 New Street')
  await dialog.getByLabel('E-mail address').fill('nobody')
  await dialog.locator('select[name=amended_parcel]').selectOption('3')
  await dialog.getByLabel('Carrier').fill('UPS')
  await dialog.getByLabel('Parcel number').fill('1Z')
  await dialog.locator(`input[name="${lamp.id}"]`).fill('3')
  await dialog.getByLabel('Add product').fill(mug.id)
  await dialog.getByLabel('Units of it').fill('2')
  await assertUsable(page, 'the dialog of an amendment')
  await dialog.getByRole('button', { name: 'Amend order' }).press('Enter')
  await dialog.getByText('must be written like ATU12345678').waitFor()
  await billing.getByLabel('VAT number').fill('atu 1234.56-78')
  await dialog.getByRole('button', { name: 'Amend order' }).press('Enter')
  await dialog.getByText('The e-mail address is not acceptable.').waitFor()
  await dialog.getByLabel('E-mail address').fill('ada@new.example')
  await dialog.getByRole('button', { name: 'Amend order' }).press('Enter')
  await page.getByText(/is amended, and a mail reports it\. .* is owed\./).waitFor()
  await page.getByText(/Amended: shipping address, billing address, vat number, email, tracking, lines; .*2 × Mug.* added; total/).waitFor()
  for (const text of ['2 New Street', 'Quadrille Ltd', 'ATU12345678']) await page.getByText(text, { exact: true }).waitFor()
  await page.getByRole('definition').filter({ hasText: 'ada@new.example' }).waitFor()
  const { json } = await store.call('GET', `/admin/orders/${order.id}`, { token: operator.token })
  assert.deepEqual([json.version, json.parcels[0].tracking, json.items.length], [4, { carrier: 'UPS', number: '1Z' }, 3])
  assert.deepEqual([json.billing_address.company, json.vat_number], ['Quadrille Ltd', 'ATU12345678'])

  const submit = () => dialog.getByRole('button', { name: 'Amend order' }).press('Enter')
  await open()
  await dialog.getByLabel('Add product').fill(mug.id.toUpperCase())
  await submit()
  await dialog.getByText('The order has this product: change its units above.').waitFor()
  await dialog.getByLabel('Add product').fill('')
  const units = dialog.locator(`input[name="${mug.id}"]`)
  await units.fill('')
  await submit()
  assert.equal(await dialog.locator(`input[name="${mug.id}"]:invalid`).count(), 1)
  await units.fill('2')
  await dialog.getByLabel('E-mail address').fill('ada@NEW.example')
  await submit()
  await page.getByText('was like that already.').waitFor()
  assert.equal((await store.call('GET', `/admin/orders/${order.id}`, { token: operator.token })).json.version, 4)
})
