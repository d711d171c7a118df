import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, HOSTILE, loseFirstAnswer, NARROW, openConsoleOf, withoutRefusals } from './console-harness.ts'
import { startStore } from './store.ts'

const store = await startStore({ after })

async function placeOrder(): Promise<{ id: string; number: string }> {
  const [customer, product] = [await store.register(), await store.addProduct({ amount: 1_000 })]
  const body = { items: [{ product_id: product.id, quantity: 2 }] }
  return (await store.call('POST', '/orders', { token: customer.token, body })).json
}

/** The amount beside a label of the sums. */
const sum = (page: Page, label: string) =>
  page
    .getByRole('table', { name: 'Sums' })
    .getByRole('row')
    .filter({ has: page.getByRole('rowheader', { name: label, exact: true }) })
    .getByRole('cell')

test('an operator adds and voids an adjustment and records a payment', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, address } = await openConsoleOf(t, store, { view: NARROW })
  const order = await placeOrder()
  const dialog = page.getByRole('dialog')
  await page.goto(`${address}#orders?order=${order.id}`)
  await page.getByRole('button', { name: 'Add a charge…' }).press('Enter')
  await dialog.getByLabel('Kind').selectOption('discount')
  await dialog.getByLabel('Label').fill(HOSTILE.slice(0, 100))
  const amount = dialog.getByRole('textbox', { name: 'Amount' })
  await amount.fill('30')
  await assertUsable(page, 'the dialog of a charge')
  await dialog.getByRole('button', { name: 'Add charge' }).press('Enter')
  await page.getByText('would be negative').waitFor()
  await amount.fill('2,50')
  await dialog.getByRole('button', { name: 'Add charge' }).press('Enter')
  await page.getByText('The total is €17.50 now.').waitFor()
  await sum(page, 'Total').getByText('€17.50').waitFor()

  await page.getByRole('button', { name: 'Record payment…' }).press('Enter')
  await dialog.getByLabel(/^Provider/).fill('bank')
  await dialog.getByLabel('Reference').fill('<i>1</i>')
  await assertUsable(page, 'the dialog of a payment')
  await page.keyboard.press('Enter')
  await page.getByText('The payment is paid.').waitFor()
  await page.getByText('paid (bank <i>1</i>)').waitFor()
  await sum(page, 'Paid').getByText('€17.50').waitFor()
  // A payment goes forward only: the store keeps it, and the page shows what it is.
  await page.getByRole('button', { name: 'Record payment…' }).press('Enter')
  assert.equal(await dialog.getByLabel('Reference').inputValue(), '<i>1</i>')
  await dialog.getByLabel('State').selectOption('authorized')
  await dialog.getByRole('button', { name: 'Record payment' }).press('Enter')
  await dialog.waitFor({ state: 'detached' })
  await page.getByText('The payment is paid.').waitFor()
  await assertUsable(page, 'an order with charges')

  await page.getByRole('button', { name: `Void ${HOSTILE.slice(0, 100)}` }).press('Enter')
  await page.getByText('is void: €2.50').waitFor()
  await sum(page, 'Still to pay').getByText('€2.50').waitFor()
  assert.equal(await page.getByRole('button', { name: /^Void/ }).count(), 0)
  const { rows } = await store.pool.query('select version, status_history -> -1 -> $2 as change from orders where id = $1', [
    order.id,
    'change',
  ])
  assert.deepEqual(rows, [{ version: 4, change: { type: 'adjustment_voided', adjustment: 2, amount: 250 } }])
  assert.match(await page.title(), /^Order \d/)
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
  await sum(page, 'Express (shipping)').getByText('€4.90').waitFor()
  for (const name of ['Void Express', 'Add a charge…', 'Record payment…', 'Refund…'])
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
  await sum(page, 'Paid back').getByText('-€7.50').waitFor()
  await sum(page, 'Still to pay').getByText('€7.50').waitFor()
  await assertUsable(page, 'an order with a refund')
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('nothing is charged for an order that has ended, and its payment still changes', { skip: NO_CHROMIUM }, async (t) => {
  const { operator, page, complaints, address } = await openConsoleOf(t, store)
  const order = await placeOrder()
  await store.call('POST', `/admin/orders/${order.id}/transitions`, { token: operator.token, body: { to: 'cancelled' } })
  await page.goto(`${address}#orders?order=${order.id}`)
  await page.getByRole('button', { name: 'Record payment…' }).waitFor()
  assert.equal(await page.getByRole('button', { name: 'Add a charge…' }).count(), 0)
  assert.deepEqual(complaints, [])
})

test('a return is paid back in one dialog, which computes the sum; a lost answer makes neither twice', { skip: NO_CHROMIUM }, async (t) => {
  const { operator, page, complaints, address } = await openConsoleOf(t, store, { view: NARROW })
  const order = await placeOrder()
  const post = (path: string, body: object) => store.call('POST', `/admin/orders/${order.id}/${path}`, { token: operator.token, body })
  await post('adjustments', { kind: 'shipping', label: 'Express', amount: { amount: 490, currency: 'EUR' } })
  const payment = { provider: 'stripe', reference: 'pi_2', state: 'paid' }
  await store.call('PUT', `/admin/orders/${order.id}/payment`, { token: operator.token, body: payment })
  for (const to of ['confirmed', 'shipped']) await post('transitions', { to })
  await page.goto(`${address}#orders?order=${order.id}`)
  const dialog = page.getByRole('dialog')
  await page.getByRole('button', { name: 'Return and refund…' }).press('Enter')
  const back = dialog.getByLabel('Paid back')
  assert.equal(await back.inputValue(), '')
  await dialog.getByRole('spinbutton').fill('1')
  assert.equal(await back.inputValue(), '10.00')
  await dialog.getByLabel('Pay Express back, too: €4.90').check()
  assert.equal(await back.inputValue(), '14.90')
  await dialog.getByLabel('Pay Express back, too: €4.90').uncheck()
  await assertUsable(page, 'the dialog of a return')
  await loseFirstAnswer(page, '**/refunds')
  const send = dialog.getByRole('button', { name: 'Return', exact: true })
  await send.press('Enter')
  await dialog.getByText('Nothing you have entered is lost').waitFor()
  await send.press('Enter')
  await page.getByText('1 unit was returned. €10.00 is recorded as paid back.').waitFor()
  await sum(page, 'Paid').getByText('€24.90').waitFor()
  await sum(page, 'Paid back').getByText('-€10.00').waitFor()
  assert.equal(await sum(page, 'Still to pay back').count(), 0)
  // What comes back without a refund is owed.
  await post('returns', { lines: [{ product_id: (await readItems(order.id))[0]?.product_id, quantity: 1 }], restock: false })
  await sum(page, 'Still to pay back').getByText('€14.90').waitFor()
  const { rows } = await store.pool.query('select jsonb_array_length(status_history) as changes from orders where id = $1', [order.id])
  assert.deepEqual(rows, [{ changes: 8 }])
  assert.deepEqual(
    withoutRefusals(complaints).filter((text) => !text.includes('ERR_CONNECTION_RESET')),
    [],
  )
})

async function readItems(id: string): Promise<{ product_id: string }[]> {
  return (await store.pool.query('select items from orders where id = $1', [id])).rows[0].items
}
