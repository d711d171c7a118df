import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { rollUpOrders } from '../src/figures/roll-up-orders.ts'
import { addBuyers } from './buyers.ts'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, NARROW, openConsole } from './console-harness.ts'
import { eventually } from './eventually.ts'
import type { TestStore } from './store.ts'

const HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'

/** Two orders in two currencies, one of them of a product with a hostile name. */
async function sell(store: TestStore, quantity: number): Promise<void> {
  const [buyer = { id: '', token: '' }] = await addBuyers(store, 1)
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
  await rollUpOrders(store.pool)
}

interface Image {
  data: Uint8ClampedArray
}

const plotOf = (page: Page, title: string) =>
  page.locator('section.plot').filter({ has: page.getByRole('heading', { name: title, exact: true }) })
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
  await page.getByText('No figures have been collected yet.').or(page.getByText('Collected at')).waitFor()
  await plotOf(page, 'Orders per minute').getByText('No order was placed in the last hour.').waitFor()
  await assertUsable(page, 'empty')

  await sell(store, 4)
  await page.clock.runFor(11_000)
  await page.getByRole('region', { name: 'Best sellers' }).getByText(HOSTILE).waitFor()
  for (const title of ['Orders per minute', 'Revenue in EUR per minute', 'Revenue in JPY per minute']) {
    assert.equal(await isDrawn(page, title), true, title)
  }
  await page.getByRole('region', { name: 'Stock running out' }).getByText('sold out').waitFor()
  await page.getByText('€50.00').first().waitFor()
  await assertUsable(page, 'with figures')
  const { scroll, client } = (await page.evaluate(
    '({ scroll: document.documentElement.scrollWidth, client: document.documentElement.clientWidth })',
  )) as Record<string, number>
  assert.equal(scroll, client, 'nothing is wider than the screen')

  // The keyboard opens the same figures as a table, which a poll updates in place.
  const orders = plotOf(page, 'Orders per minute')
  await orders.getByText('As a table').focus()
  await page.keyboard.press('Enter')
  const region = orders.getByRole('region', { name: 'Orders per minute, as a table' })
  await region.focus()
  const ones = region.getByRole('cell', { name: '1', exact: true })
  assert.equal(await ones.count(), 2)
  await assertUsable(page, 'with a table')
  const before = await orders.locator('canvas').elementHandle()
  await sell(store, 7)
  await page.clock.runFor(11_000)
  await region.getByRole('cell', { name: '2', exact: true }).first().or(ones.nth(2)).waitFor()
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

  await page.setViewportSize({ width: 500, height: 900 })
  const fits = 'document.querySelector(".plot .uplot").clientWidth <= document.querySelector(".plot .canvas").clientWidth'
  await eventually(() => page.evaluate(fits), { what: 'a plot as wide as its place' })
  await page.emulateMedia({ colorScheme: 'light' })
  assert.equal(await isDrawn(page, 'Orders per minute'), true, 'in the other colours')

  for (const name of ['Last day', 'Today', 'Last week']) {
    await page.getByRole('link', { name }).click()
    await page.locator('a[aria-current="true"]', { hasText: name }).waitFor()
    await page.getByText(HOSTILE).first().waitFor()
  }
  assert.match(page.url(), /#overview\?range=week$/)
  await page.reload()
  await page.getByRole('heading', { name: 'Revenue in EUR per hour' }).waitFor()
  await assertUsable(page, 'week')
  assert.deepEqual(complaints, [])
})
