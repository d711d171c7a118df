import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { refillFigures, rollUpOrders } from '../src/figures/roll-up-orders.ts'
import { addBuyer } from './buyers.ts'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, NARROW, openConsole } from './console-harness.ts'
import { eventually } from './eventually.ts'
import { registerOperator } from './register-operator.ts'
import type { TestStore } from './store.ts'

const HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'

/** Two orders in two currencies, one of them of a product with a hostile name. */
async function sell(store: TestStore, quantity: number): Promise<void> {
  const buyer = await addBuyer(store)
  const lamp = await store.addProduct({ name: HOSTILE, sku: `<b>${crypto.randomUUID()}`, stock: quantity })
  const tea = await store.addProduct({ name: 'Tea', amount: 900, currency: 'JPY', stock: 5 })
  for (const [product, count] of [
    [lamp, quantity],
    [tea, 1],
  ] as const) {
    const body = { items: [{ product_id: product.id, quantity: count }] }
    assert.equal((await store.call('POST', '/orders', { token: buyer.token, body })).status, 201)
  }
  // The orders were placed a minute and a half ago, so that they are in a step that is over.
  await store.pool.query(`update orders set created_at = created_at - interval '90 seconds'`)
  // The figures may already have them at their former times.
  await refillFigures(store.pool)
  await rollUpOrders(store.pool)
}

interface Image {
  data: Uint8ClampedArray
}

const plotOf = (page: Page, title: string) =>
  page.locator('section.card').filter({ has: page.getByRole('heading', { name: title, exact: true }) })
/** Whether the canvas has pixels of a colour other than those of axes and grid. */
const isDrawn = (page: Page, title: string) =>
  plotOf(page, title)
    .locator('canvas')
    .evaluate((canvas) => {
      // Reads a copy: Chromium warns when a visible canvas is read repeatedly.
      const { width, height } = canvas as unknown as { width: number; height: number }
      const copy = canvas.ownerDocument.createElement('canvas') as unknown as {
        getContext: (
          kind: '2d',
          settings: object,
        ) => { drawImage: (...from: unknown[]) => void } & Record<'getImageData', (...area: number[]) => Image>
        width: number
        height: number
      }
      Object.assign(copy, { width, height })
      const context = copy.getContext('2d', { willReadFrequently: true })
      context.drawImage(canvas, 0, 0)
      const { data } = context.getImageData(0, 0, width, height)
      let coloured = 0
      for (let at = 0; at < data.length; at += 4) {
        const [r = 0, g = 0, b = 0, a = 0] = data.subarray(at, at + 4)
        if (a > 100 && Math.max(r, g, b) - Math.min(r, g, b) > 40) coloured += 1
      }
      return coloured > 20
    })

test('the overview explains that it is empty, then shows figures in place', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints } = await openConsole(t, NARROW)
  await page.clock.install()
  await page.getByText('No figures have been collected yet.').or(page.getByText('Collected')).waitFor()
  await page.getByText('No order was placed, neither in this time nor in yesterday until now.').waitFor()
  await page.getByRole('link', { name: '7 days', exact: true }).click()
  await page.getByText('No order was placed, neither in this time nor in the 7 days before.').waitFor()
  await assertUsable(page, 'empty')

  await sell(store, 4)
  // On a busy machine a slow reading is kept for longer than the page's pause.
  const polled = (shown: Locator) =>
    eventually(
      async () => {
        await page.clock.runFor(11_000)
        return shown.isVisible()
      },
      { what: String(shown) },
    )
  await polled(page.getByRole('region', { name: 'Best sellers' }).getByText(HOSTILE))
  for (const title of ['Revenue in EUR by day', 'Revenue in JPY by day']) {
    await eventually(() => isDrawn(page, title), { what: title })
    assert.equal(await plotOf(page, title).getByText('Time: –').count(), 0, 'the legend has values before the mouse comes')
  }
  const tile = (name: string) => page.locator('.tile').filter({ has: page.getByRole('heading', { name, exact: true }) })
  await tile('Revenue').locator('.figure').getByText('€50.00, ¥900').waitFor()
  await tile('Orders').getByText('2', { exact: true }).waitFor()
  const low = page.getByRole('region', { name: 'Stock running out' })
  await polled(low.getByText('sold out'))
  await low.getByText('lasts 28 days').waitFor()
  const toDo = page.locator('.to-do')
  await toDo.getByRole('link', { name: '2 to confirm' }).waitFor()
  await toDo.getByRole('link', { name: '2 unpaid' }).waitFor()
  await toDo.getByRole('link', { name: '1 sold out' }).waitFor()
  await assertUsable(page, 'with figures')
  const { scroll, client } = (await page.evaluate(
    '({ scroll: document.documentElement.scrollWidth, client: document.documentElement.clientWidth })',
  )) as Record<string, number>
  assert.equal(scroll, client, 'nothing is wider than the screen')

  // Cards keep their distance.
  for (const width of [390, 1_280]) {
    await page.setViewportSize({ width, height: 900 })
    assert.deepEqual(await page.evaluate(COLLISIONS), [], `at ${width} px`)
  }

  // The keyboard opens the same figures as a table, which a poll updates in place.
  const revenue = plotOf(page, 'Revenue in EUR by day')
  await revenue.getByText('As a table', { exact: false }).first().focus()
  await page.keyboard.press('Enter')
  const region = revenue.getByRole('region', { name: 'Revenue in EUR by day, as a table' })
  await region.focus()
  await region.getByRole('cell', { name: '€50.00' }).waitFor()
  await assertUsable(page, 'with a table')
  const before = await revenue.locator('canvas').elementHandle()
  await sell(store, 7)
  await polled(tile('Revenue').locator('.figure').getByText('€137.50'))
  assert.equal(
    await before?.evaluate((canvas) => (canvas as unknown as { isConnected: boolean }).isConnected),
    true,
    'the plot is the same',
  )
  assert.equal(
    await region.evaluate(
      (element) => element === (element as unknown as { ownerDocument: { activeElement: unknown } }).ownerDocument.activeElement,
    ),
    true,
    'focus stays',
  )

  // A cancelled order stays in the revenue that is compared, and is worth nothing now.
  const { rows } = await store.pool.query(`select id from orders where total_amount = 5000`)
  const operator = await registerOperator(store)
  const cancel = await store.call('POST', `/admin/orders/${rows[0].id}/transitions`, {
    token: operator.token,
    body: { to: 'cancelled' },
  })
  assert.equal(cancel.status, 200, cancel.text)
  await rollUpOrders(store.pool)
  await polled(tile('Revenue').getByText(/€87\.50.* now/))
  await tile('Revenue').locator('.figure').getByText('€137.50').waitFor()
  assert.equal(await tile('Returns').getByText('against').count(), 0, 'the period before had longer for returns')

  await page.emulateMedia({ colorScheme: 'light' })
  await eventually(() => isDrawn(page, 'Revenue in EUR by day'), { what: 'the plot in the other colours' })
  for (const name of ['Today', 'Yesterday', '30 days']) {
    await page.getByRole('link', { name, exact: true }).click()
    await page.locator('a[aria-current="true"]', { hasText: name }).waitFor()
  }
  assert.match(page.url(), /#overview\?range=30_days$/)
  await page.reload()
  await page.getByRole('heading', { name: 'Revenue in EUR by day' }).waitFor()
  await assertUsable(page, '30 days')
  assert.deepEqual(complaints, [])
})

/** Cards that are nearer to each other than their grid's gap, by their titles. */
const COLLISIONS = `{
  const boxes = [...document.querySelectorAll('main .card')].map((card) => [card.querySelector('h3')?.textContent, card.getBoundingClientRect()])
  boxes.flatMap(([title, a], index) => boxes.slice(index + 1).flatMap(([other, b]) => {
    const [x, y] = [Math.max(b.left - a.right, a.left - b.right), Math.max(b.top - a.bottom, a.top - b.bottom)]
    return Math.max(x, y) < 12 ? [title + ' and ' + other] : []
  }))
}`
