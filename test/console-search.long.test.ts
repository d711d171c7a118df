import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, HOSTILE, NARROW, openConsoleOf, WIDE } from './console-harness.ts'
import { eventually } from './eventually.ts'
import { type Account, startStore } from './store.ts'

const store = await startStore({ after }, { roles: ['api', 'stream', 'email'] })
const ADDRESS = { name: 'Zoë Silva', line1: '12 St James Square', city: 'London', postal_code: 'SW1Y 4JH', country: 'GB' }
const customer = await store.register({ email: 'zoe.silva@example.com', name: HOSTILE })
const lamp = await store.addProduct({ name: `Lamp ${HOSTILE}`, sku: 'LAMP-77', stock: 40 })
const order = await place(customer)

async function place({ token }: Account): Promise<{ id: string; number: string }> {
  const body = { items: [{ product_id: lamp.id, quantity: 1 }], shipping_address: ADDRESS }
  const { status, json, text } = await store.call('POST', '/orders', { token, body })
  assert.equal(status, 201, text)
  return json
}

const box = (page: Page) => page.getByRole('combobox', { name: 'Find anything' })
const found = (page: Page, group: string) =>
  page.getByRole('listbox', { name: 'Found' }).getByRole('group', { name: group }).getByRole('option')
const groups = (page: Page) =>
  page
    .getByRole('listbox', { name: 'Found' })
    .getByRole('group')
    .evaluateAll((shown) => shown.map((group) => (group as unknown as { ariaLabel: string }).ariaLabel))
const heading = (page: Page, name: string | RegExp) => page.getByRole('heading', { level: 2, name }).waitFor()
/** The box says how much there is when every answer is there. */
const untilFound = (page: Page) =>
  page
    .locator('.found')
    .getByText(/^(\d+ results?|Nothing found\.)$/)
    .waitFor()

test('finds orders, customers, products, mails and screens with the keyboard alone', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, operator } = await openConsoleOf(t, store, { view: NARROW })
  await heading(page, 'Overview')
  const sent = () => store.call('GET', `/admin/mails?order=${order.number}`, { token: operator.token })
  await eventually(async () => (await sent()).json.data.length > 0, { what: 'the mail' })

  await page.keyboard.press('/')
  await page.keyboard.type(order.number)
  await untilFound(page)
  assert.deepEqual(await groups(page), ['Orders', 'Customers', 'Mails'])
  assert.match((await found(page, 'Orders').textContent()) ?? '', new RegExp(`${order.number}.*Zoë Silva.*pending.*€12\\.50`, 's'))
  await assertUsable(page, 'with results')
  // Down and up lead round, and the box names the chosen one.
  await page.keyboard.press('ArrowUp')
  await found(page, 'Mails').and(page.locator('[aria-selected=true]')).waitFor()
  assert.equal(await box(page).getAttribute('aria-activedescendant'), await found(page, 'Mails').getAttribute('id'))
  await assertUsable(page, 'with a chosen result')
  await page.keyboard.press('ArrowDown')
  await found(page, 'Orders').and(page.locator('[aria-selected=true]')).waitFor()
  await page.keyboard.press('Enter')
  await heading(page, new RegExp(order.number))
  assert.equal(await box(page).inputValue(), '')
  assert.equal(await page.locator('.found').count(), 0)

  await page.keyboard.press('Control+k')
  await page.keyboard.type('silva@exam')
  await found(page, 'Customers').getByText(HOSTILE).waitFor()
  await page.keyboard.press('Escape')
  await page.locator('.found').waitFor({ state: 'detached' })
  assert.equal(await box(page).inputValue(), 'silva@exam', 'Escape keeps the text')
  await page.keyboard.press('ArrowDown')
  await untilFound(page)
  assert.deepEqual(await groups(page), ['Orders', 'Customers'])
  await found(page, 'Customers').click()
  await heading(page, HOSTILE)

  // A scanner types a SKU and Enter before the answer can be there.
  await page.keyboard.press('/')
  await page.keyboard.type('LAMP-77')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 2 }).getByText('Lamp').waitFor()

  for (const [text, screen] of [
    ['pipe', 'Pipeline'],
    ['web', 'Webhooks'],
  ] as const) {
    await page.keyboard.press('Control+k')
    await page.keyboard.type(text)
    await found(page, 'Screens').getByText(screen).waitFor()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await heading(page, screen)
  }
  await page.keyboard.press('/')
  await page.keyboard.type('xyzxyz nothing')
  await page.getByText('Nothing found.').waitFor()
  await assertUsable(page, 'nothing found')
  await page.keyboard.press('Tab')
  await page.locator('.found').waitFor({ state: 'detached' })
  assert.notEqual(await page.title(), 'taken')
  assert.deepEqual(complaints, [])
})

test('leads to all orders when there are more, and asks only for what is typed last', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints } = await openConsoleOf(t, store, { view: WIDE })
  const many = await store.register({ email: 'many@example.com' })
  const orders = await Promise.all(Array.from({ length: 6 }, () => place(many)))
  await heading(page, 'Overview')
  let asked = 0
  await page.route('**/admin/search*', (route) => {
    asked += 1
    return route.continue()
  })
  await box(page).pressSequentially('many@example.com')
  await untilFound(page)
  assert.ok(asked < 5, `${asked} requests for 16 keys`)
  await found(page, 'Orders').getByText('All orders with “many@example.com”').click()
  await page.getByText(orders[0]?.number ?? '').waitFor()
  assert.match(page.url(), /#orders\?q=many%40example\.com$/)
  await page.unrouteAll()

  // A key in a field or below a dialog is text.
  await page.goto(`${page.url().split('#')[0]}#customers`)
  const search = page.getByRole('main').getByRole('searchbox')
  await search.press('/')
  assert.equal(await search.inputValue(), '/')

  await page.route('**/admin/search*', (route) =>
    route.fulfill({
      status: 429,
      contentType: 'application/problem+json',
      body: JSON.stringify({ title: 'Refused', status: 429, detail: 'Too many searches.', code: 'rate_limited', request_id: '1' }),
    }),
  )
  await box(page).fill('lamp')
  await page.getByRole('alert').getByText('Too many searches.').waitFor()
  await page.unrouteAll()
  await box(page).fill('lamp-77')
  await found(page, 'Products').first().waitFor()
  assert.equal(await page.getByText('Too many searches.').count(), 0)
  assert.deepEqual(
    complaints.filter((text) => !text.includes('status of 429')),
    [],
  )
})

test('a role finds what it may read, and asks for nothing else', { skip: NO_CHROMIUM }, async (t) => {
  for (const [role, text, wanted] of [
    ['warehouse', 'zoe', ['Orders']],
    ['warehouse', 'lamp-77', ['Products', 'Orders']],
    ['support', 'zoe.silva', ['Orders', 'Customers']],
    ['catalogue', 'LAMP-77', ['Products']],
    ['catalogue', 'Zoë Silva', []],
    ['analyst', 'LAMP-77', []],
    ['analyst', 'lake', ['Screens']],
  ] as const) {
    const { page, complaints } = await openConsoleOf(t, store, { role })
    await page.getByRole('heading', { level: 2 }).first().waitFor()
    await box(page).fill(text)
    await untilFound(page)
    assert.deepEqual(wanted.length === 0 ? [] : await groups(page), wanted, `${role}: ${text}`)
    if (wanted.length === 0) await page.getByText('Nothing found.').waitFor()
    assert.deepEqual(complaints, [])
    await page.close()
  }
})
