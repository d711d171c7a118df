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
  await page.getByRole('heading', { name: 'Notes' }).waitFor()
  assert.equal(await page.locator('.notes p').first().textContent(), HOSTILE)
  await page
    .getByRole('definition')
    .filter({ hasText: HOSTILE.split('\n')[0] ?? '' })
    .waitFor()
  await page.getByLabel('New note').fill('Second')
  await page.getByRole('button', { name: 'Add note' }).press('Enter')
  await page.getByText('The note is saved.').waitFor()
  await page.locator('.notes li').nth(1).waitFor()
  assert.deepEqual(await page.locator('.notes p').allTextContents(), ['Second', HOSTILE])
  await assertUsable(page, 'an order with notes')
  assert.notEqual(await page.title(), 'taken')
  assert.deepEqual(complaints, [])
})
