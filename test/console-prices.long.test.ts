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
  assert.equal(await history.locator('details[open]').count(), 0)
  await history.getByText(/The lowest price of the last 30 days is €15\.00/).waitFor()
  await history.getByText('As a table: Price in EUR over time').click()
  const table = history.getByRole('region', { name: 'Price in EUR over time, as a table' })
  await table.getByRole('cell', { name: '€15.00' }).first().waitFor()

  // The form's change is in the history at once.
  await page.getByLabel('Price', { exact: true }).fill('12.00')
  await page.getByLabel('Reduced from', { exact: true }).fill('15.00')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await table.getByRole('cell', { name: '€12.00' }).first().waitFor()

  await currencies.selectOption('USD')
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
  await page.getByRole('button', { name: 'Add a sale' }).click()
  await page.getByLabel('Price in sale 1').fill('10,00')
  await page.getByLabel('Sale 1 until').fill('2126-12-01T08:00')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await table.getByRole('cell', { name: '€10.00' }).first().waitFor()
  await assertUsable(page, 'a product with a sale')
  assert.equal(await page.getByLabel('Price in sale 1').inputValue(), '10.00')
  assert.equal(await page.getByLabel('Sale 1 until').inputValue(), '2126-12-01T08:00')
  assert.equal(await page.getByLabel('Price', { exact: true }).inputValue(), '12.00')
  const { json: onSale } = await store.call('GET', `/admin/products/${id}`, { token: operator.token })
  assert.deepEqual(
    onSale.sale_prices.map(({ amount, currency, until }: { amount: number; currency: string; until: string }) => [amount, currency, until]),
    [[1_000, 'EUR', '2126-12-01T08:00:00.000Z']],
  )
  await page.getByText(/Lowest price of the 30 days before the reduction.*€15\.00/).waitFor()

  // Prices in other currencies, as people of several countries write them.
  await page.getByRole('button', { name: 'Add a currency' }).click()
  await page.getByLabel('Currency 2').fill('usd')
  await page.getByLabel('Price in USD', { exact: true }).fill('1,234.50')
  await page.getByRole('button', { name: 'Add a currency' }).click()
  await page.getByLabel('Currency 3').fill('CHF')
  await page.getByLabel('Price in CHF', { exact: true }).fill('1’234,5')
  await page.getByLabel('Reduced from, in CHF').fill('1.500,00')
  await page.getByText('1 change', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('Lamp is saved.').waitFor()
  await page.getByText('1 change', { exact: true }).waitFor({ state: 'detached' })
  const { json: priced } = await store.call('GET', `/admin/products/${id}`, { token: operator.token })
  assert.deepEqual(priced.prices, [
    { currency: 'CHF', amount: 123_450, compare_at: 150_000 },
    { currency: 'USD', amount: 123_450, compare_at: null },
  ])
  await page.getByRole('button', { name: 'Remove the price in CHF' }).click()
  await page.getByRole('button', { name: 'Remove sale 1' }).click()
  await page.getByText('2 changes', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Discard' }).click()
  assert.equal(await page.getByLabel('Price in CHF', { exact: true }).inputValue(), '1234.50')
  assert.equal(await page.getByLabel('Price in sale 1').inputValue(), '10.00')
  assert.deepEqual(complaints, [])
})
