import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import type { OperatorRole } from '../src/http/scopes.ts'
import { addBuyer } from './buyers.ts'
import { NO_CHROMIUM, openBrowser, untilQuiet } from './chromium.ts'
import { assertUsable, NARROW, signIn } from './console-harness.ts'
import { registerOperator } from './register-operator.ts'
import { startStore } from './store.ts'

/** What an operator of a role sees: the screens, and of what some roles have and others lack, what this one has. */
const SEES: Record<
  OperatorRole,
  {
    screens: string[]
    orders: string[]
    order: string[]
    product: string[]
    products: string[]
    mails: string[]
    pipeline: string[]
    settings: string[]
  }
> = {
  support: {
    screens: ['Overview', 'Orders', 'Products', 'Customers', 'Mails', 'Settings'],
    orders: ['New order…'],
    order: ['Confirm…', 'Cancel units…', 'Cancel the order…', 'Amend…', 'Add note', 'What happened'],
    product: ['Stock', 'Orders with this product'],
    products: ['Stock of each'],
    mails: [],
    pipeline: [],
    settings: ['Mail templates'],
  },
  warehouse: {
    screens: ['Overview', 'Orders', 'Products'],
    orders: [],
    order: ['Confirm…', 'Cancel units…', 'Cancel the order…', 'Add note', 'What happened'],
    product: ['Stock', 'Set stock', 'Orders with this product'],
    products: ['Stock of each'],
    mails: [],
    pipeline: [],
    settings: [],
  },
  catalogue: {
    screens: ['Overview', 'Products'],
    orders: [],
    order: [],
    product: ['Stock', 'Set stock', 'Save', 'More'],
    products: ['Stock of each', 'New product', 'More'],
    mails: [],
    pipeline: [],
    settings: [],
  },
  analyst: {
    screens: ['Overview', 'Pipeline', 'Lake'],
    orders: [],
    order: [],
    product: [],
    products: [],
    mails: [],
    pipeline: [],
    settings: [],
  },
  admin: {
    screens: ['Overview', 'Orders', 'Products', 'Customers', 'Mails', 'Pipeline', 'Lake', 'Changes', 'Settings'],
    orders: ['New order…'],
    order: [
      ...['Confirm…', 'Cancel units…', 'Cancel the order…', 'Amend…', 'Add note', 'What happened'],
      ...['Add a charge…', 'Record payment…'],
    ],
    product: ['Stock', 'Set stock', 'Save', 'More', 'Orders with this product'],
    products: ['Stock of each', 'New product', 'More'],
    mails: [],
    pipeline: ['Run verify', 'Run replay'],
    settings: ['Operators', 'API keys', 'Webhooks', 'Mail templates'],
  },
}
const ROLES = Object.keys(SEES) as OperatorRole[]

const store = await startStore({ after }, { roles: ['api', 'lake'] })
const product = await store.addProduct({ name: 'A lamp', stock: 7 })
const buyer = await addBuyer(store)
const order = await store.call('POST', '/orders', { token: buyer.token, body: { items: [{ product_id: product.id, quantity: 1 }] } })
assert.equal(order.status, 201, order.text)
const address = `${store.localOrigin}/console`

/** The names that a control or a heading on the page has. */
async function seen(page: Page, names: readonly string[]): Promise<string[]> {
  const shown = []
  for (const name of names) {
    const counts = await Promise.all([
      page.getByRole('button', { name, exact: true }).count(),
      page.getByRole('link', { name, exact: true }).count(),
      page.getByRole('heading', { level: 3, name, exact: true }).count(),
      page.locator('main summary').filter({ hasText: name }).count(),
      name === 'Stock of each' ? page.getByRole('columnheader', { name: 'Stock', exact: true }).count() : 0,
    ])
    if (counts.some((count) => count > 0)) shown.push(name)
  }
  return shown
}

const everyName = (part: 'orders' | 'order' | 'product' | 'products' | 'mails' | 'pipeline' | 'settings') => [
  ...new Set(ROLES.flatMap((role) => SEES[role][part])),
]

for (const role of ROLES) {
  const title = `the role ${role} sees its screens and buttons, and no request of the page is refused`
  test(title, { skip: NO_CHROMIUM }, async (t) => {
    const sees = SEES[role]
    const operator = await registerOperator(store, role)
    const { page, complaints } = await (await openBrowser(t)).open(NARROW)
    const refused: string[] = []
    page.on('response', (answer) => {
      if (answer.status() >= 400) refused.push(`${answer.status()} ${answer.request().method()} ${answer.url()}`)
    })
    const check = async (what: string) => {
      await untilQuiet(page)
      await assertUsable(page, `${role}: ${what}`)
    }
    const open = async (hash: string, heading: string | RegExp) => {
      await page.goto(`${address}${hash}`)
      await page.getByRole('heading', { level: 2, name: heading }).waitFor()
    }
    await page.goto(address)
    await signIn(page, operator)

    assert.deepEqual(await page.getByRole('navigation', { name: 'Screens' }).getByRole('link').allTextContents(), sees.screens)
    assert.equal(await page.locator('#account span').textContent(), role)
    for (const screen of sees.screens) {
      await page.getByRole('navigation', { name: 'Screens' }).getByRole('link', { name: screen, exact: true }).click()
      await page.getByRole('heading', { level: 2, name: screen === 'Settings' ? sees.settings[0] : screen, exact: true }).waitFor()
      await check(screen)
      const part = screen.toLowerCase()
      if (part === 'orders' || part === 'products' || part === 'mails' || part === 'pipeline' || part === 'settings')
        assert.deepEqual(
          await seen(page, everyName(part)),
          everyName(part).filter((name) => sees[part].includes(name)),
          screen,
        )
    }
    if (sees.screens.includes('Orders')) {
      await open(`#orders?order=${order.json.id}`, `Order ${order.json.number}`)
      await check('an order')
      await page.getByText('More', { exact: true }).click()
      assert.deepEqual(
        await seen(page, everyName('order')),
        everyName('order').filter((name) => sees.order.includes(name)),
      )
    }
    if (sees.screens.includes('Products')) {
      await open(`#products?product=${product.id}`, 'A lamp')
      await page.getByText('available').first().waitFor()
      await check('a product')
      assert.deepEqual(
        await seen(page, everyName('product')),
        everyName('product').filter((name) => sees.product.includes(name)),
      )
      const canCreate = sees.products.includes('New product')
      for (const form of ['new', 'import']) {
        await open(`#products?${form}=1`, /^(?:Products|New product|Import products)$/)
        assert.equal(await page.getByRole('search', { name: 'Products' }).count(), canCreate ? 0 : 1, form)
        await untilQuiet(page)
      }
    }
    await open('#account', 'Account')
    await check('account')
    // A link that a colleague of another role has sent shows the first screen of one's own.
    for (const name of SEES.admin.screens.filter((screen) => !sees.screens.includes(screen))) {
      await open(`#${name.toLowerCase()}?order=${order.json.id}&template=created&sql=select+1`, sees.screens[0] ?? '')
      await untilQuiet(page)
    }
    await page.reload()
    await page.getByRole('navigation', { name: 'Screens' }).waitFor()
    assert.deepEqual(refused, [])
    assert.deepEqual(complaints, [])
  })
}
