import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, NARROW, openConsole } from './console-harness.ts'

test('an operator sees how the price of a product has changed', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, complaints, show } = await openConsole(t, NARROW)
  const send = async (method: string, path: string, body: object) => {
    const { status, json, text } = await store.call(method, path, { token: operator.token, body, headers: { 'if-match': '*' } })
    assert.ok(status < 300, text)
    return json
  }
  const usd = (amount: number) => ({ amount, currency: 'USD' })
  const product = { name: 'Lamp', sku: 'LAMP', category: 'lamps', price: usd(2_000) }
  const { id } = await send('POST', '/admin/products', product)
  for (let price = 1; price <= 100; price++) await send('PATCH', `/admin/products/${id}`, { price: usd(price) })
  await send('PATCH', `/admin/products/${id}`, { price: { amount: 1_500, currency: 'EUR' } })
  await show('Products')
  await page.getByRole('link', { name: 'Lamp' }).click()
  const history = page.getByRole('region', { name: 'Prices over time' })
  // The currency of the own price first, and a choice of the others.
  await history.getByRole('img', { name: 'Plot: Price in EUR over time' }).locator('canvas').waitFor()
  const currencies = history.getByRole('combobox', { name: 'Currency' })
  assert.deepEqual(await currencies.getByRole('option').allTextContents(), ['EUR', 'USD'])
  await assertUsable(page, 'a product with its prices')
  assert.equal(await history.getByText('€15.00').count(), 0)
  await history.getByText('As a table: Price in EUR over time').click()
  const table = history.getByRole('region', { name: 'Price in EUR over time, as a table' })
  await table.getByRole('cell', { name: '€15.00' }).first().waitFor()

  // The form's change is in the history at once.
  await page.getByRole('textbox', { name: /^Price In/ }).fill('12.00')
  await page.getByRole('textbox', { name: 'Reduced from' }).fill('15.00')
  await page.getByRole('button', { name: 'Save' }).click()
  await table.getByRole('cell', { name: '€12.00' }).first().waitFor()

  await currencies.selectOption('USD')
  await history.getByText('As a table: Price in USD over time').click()
  const dollars = history.getByRole('region', { name: 'Price in USD over time, as a table' })
  await dollars.getByRole('cell', { name: '$0.99' }).waitFor()
  assert.equal(await history.getByText('Price in EUR over time').count(), 0)
  assert.equal(await dollars.getByRole('cell', { name: '$20.00' }).count(), 0)
  await history.getByRole('button', { name: 'Older prices' }).click()
  await dollars.getByRole('cell', { name: '$20.00' }).waitFor()
  await assertUsable(page, 'a product with its older prices')
  await currencies.selectOption('EUR')
  await table.getByRole('cell', { name: '€12.00' }).first().waitFor()

  // A sale that is on is in the history, and the form keeps the regular price.
  const sales = page.getByRole('textbox', { name: 'Sales' })
  await sales.fill('EUR 10.00 until 2126-12-01T08:00:00Z')
  await page.getByRole('button', { name: 'Save' }).click()
  await table.getByRole('cell', { name: '€10.00' }).first().waitFor()
  assert.equal(await sales.inputValue(), 'EUR 10.00 until 2126-12-01T08:00:00.000Z')
  assert.equal(await page.getByRole('textbox', { name: /^Price In/ }).inputValue(), '12.00')
  assert.deepEqual(complaints, [])
})
