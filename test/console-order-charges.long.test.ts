import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, HOSTILE, NARROW, openConsoleOf, withoutRefusals } from './console-harness.ts'
import { startStore } from './store.ts'

const store = await startStore({ after })

async function placeOrder(): Promise<{ id: string; number: string }> {
  const [customer, product] = [await store.register(), await store.addProduct({ amount: 1_000 })]
  const body = { items: [{ product_id: product.id, quantity: 2 }] }
  return (await store.call('POST', '/orders', { token: customer.token, body })).json
}

test('an operator adds and voids an adjustment and records a payment', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store, { view: NARROW })
  const order = await placeOrder()
  const dialog = page.getByRole('dialog')
  await page.goto(`${address}#orders?order=${order.id}`)
  await page.getByText('Nothing is charged besides the lines.').waitFor()
  await page.getByLabel('Kind').selectOption('discount')
  await page.getByLabel('Label').fill(HOSTILE.slice(0, 100))
  const amount = page.getByRole('textbox', { name: 'Amount' })
  await amount.fill('30')
  await page.getByRole('button', { name: 'Add adjustment' }).press('Enter')
  await page.getByText('would be negative').waitFor()
  await amount.fill('2.50')
  await page.getByRole('button', { name: 'Add adjustment' }).press('Enter')
  await page.getByText('The total is €17.50 now.').waitFor()

  await page.getByRole('button', { name: 'Record payment…' }).press('Enter')
  await dialog.getByLabel(/^Provider/).fill('bank')
  await dialog.getByLabel('Reference').fill('<i>1</i>')
  await assertUsable(page, 'the dialog of a payment')
  await page.keyboard.press('Enter')
  await page.getByText('The payment is paid.').waitFor()
  await page.getByText('paid (bank <i>1</i>)').waitFor()
  // A payment goes forward only: the store keeps it, and the page shows what it is.
  await page.getByRole('button', { name: 'Record payment…' }).press('Enter')
  assert.equal(await dialog.getByLabel('Reference').inputValue(), '<i>1</i>')
  await dialog.getByLabel('State').selectOption('authorized')
  await dialog.getByRole('button', { name: 'Record payment' }).press('Enter')
  await dialog.waitFor({ state: 'detached' })
  await page.getByText('The payment is paid.').waitFor()
  await assertUsable(page, 'an order with charges')

  await page.getByRole('button', { name: `Void ${HOSTILE.slice(0, 100)}` }).press('Enter')
  await page.getByText('Nothing is charged besides the lines.').waitFor()
  await page.getByText('is void: €2.50').waitFor()
  const { rows } = await store.pool.query('select version, status_history -> -1 -> $2 as change from orders where id = $1', [
    order.id,
    'change',
  ])
  assert.deepEqual(rows, [{ version: 4, change: { type: 'adjustment_voided', adjustment: 2, amount: 250 } }])
  assert.match(await page.title(), /^Orders/)
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('support reads charges and payment and has no control for them', { skip: NO_CHROMIUM }, async (t) => {
  const { operator: admin } = await openConsoleOf(t, store)
  const order = await placeOrder()
  const body = { kind: 'shipping', label: 'Express', amount: { amount: 490, currency: 'EUR' } }
  await store.call('POST', `/admin/orders/${order.id}/adjustments`, { token: admin.token, body })
  await store.call('PUT', `/admin/orders/${order.id}/payment`, {
    ...{ token: admin.token, body: { provider: 'stripe', reference: 'pi_1', state: 'paid' } },
  })
  const { page, complaints, address } = await openConsoleOf(t, store, { role: 'support' })
  await page.goto(`${address}#orders?order=${order.id}`)
  await page.getByText('paid (stripe pi_1)').waitFor()
  await page.getByRole('region', { name: 'Adjustments' }).getByRole('row').filter({ hasText: 'Express' }).getByText('€4.90').waitFor()
  for (const name of ['Void Express', 'Add adjustment', 'Record payment…', 'Refund…'])
    assert.equal(await page.getByRole('button', { name }).count(), 0, name)
  await assertUsable(page, 'charges without controls')
  assert.deepEqual(complaints, [])
})

test('an operator refunds a part of a payment, and sees what is left before and after', { skip: NO_CHROMIUM }, async (t) => {
  const { operator, page, complaints, address } = await openConsoleOf(t, store, { view: NARROW })
  const order = await placeOrder()
  await page.goto(`${address}#orders?order=${order.id}`)
  await page.getByRole('button', { name: 'Record payment…' }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Refund…' }).count(), 0, 'nothing is paid')
  const body = { provider: 'stripe', reference: 'pi_1', state: 'paid' }
  await store.call('PUT', `/admin/orders/${order.id}/payment`, { token: operator.token, body })
  const dialog = page.getByRole('dialog')
  await page.getByRole('button', { name: 'Refund…' }).press('Enter')
  const amount = dialog.getByLabel('Amount')
  assert.equal(await amount.inputValue(), '')
  await dialog.getByText('€20.00 can be refunded.').waitFor()
  await amount.fill('20.01')
  await dialog.getByText('€20.00 can be refunded: this is €0.01 too much.').waitFor()
  await assertUsable(page, 'the dialog of a refund')
  await page.keyboard.press('Enter')
  await dialog.getByText('At most 20.00 EUR of the payment is left to refund.').waitFor()
  await amount.fill('7.50')
  await dialog.getByLabel('Reason').fill(HOSTILE.slice(0, 100))
  await dialog.getByLabel('Reference').fill('re_1')
  await page.keyboard.press('Enter')
  await dialog.waitFor({ state: 'detached' })
  await page.getByText('€7.50 of the order is refunded now.').waitFor()
  await page.getByText('€7.50 refunded: stripe pi_1').waitFor()
  await page.getByText('Left of stripe pi_1').waitFor()
  await assertUsable(page, 'an order with a refund')
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('nothing is charged for an order that has ended, and its payment still changes', { skip: NO_CHROMIUM }, async (t) => {
  const { operator, page, complaints, address } = await openConsoleOf(t, store)
  const order = await placeOrder()
  await store.call('POST', `/admin/orders/${order.id}/transitions`, { token: operator.token, body: { to: 'cancelled' } })
  await page.goto(`${address}#orders?order=${order.id}`)
  await page.getByRole('button', { name: 'Record payment…' }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Add adjustment' }).count(), 0)
  assert.deepEqual(complaints, [])
})
