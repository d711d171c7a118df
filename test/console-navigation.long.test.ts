import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { addBuyer } from './buyers.ts'
import { NO_CHROMIUM } from './chromium.ts'
import { openConsoleOf } from './console-harness.ts'
import { startStore } from './store.ts'

const store = await startStore({ after }, { roles: ['api', 'lake'] })
const product = await store.addProduct({ name: 'A lamp', stock: 7 })
const buyer = await addBuyer(store)
const placed = await store.call('POST', '/orders', {
  token: buyer.token,
  body: { items: [{ product_id: product.id, quantity: 1 }] },
})
assert.equal(placed.status, 201, placed.text)

/** A slow link: each request takes so long before its answer begins. */
const LATENCY_MS = 400
/** The most bytes until the heading, with headers and compressed. */
const MOST_BYTES = 130_000

/** Notes when the heading is there. */
const MARK_HEADING = `new MutationObserver((_, observer) => {
  if (document.querySelector('main h2') === null) return
  observer.disconnect()
  performance.mark('heading')
}).observe(document, { childList: true, subtree: true })`

/**
 * The requests that had their answers when the heading came. A round is one more than the last one that had begun to
 * answer before.
 */
const REQUESTS = `{
  const heading = performance.getEntriesByName('heading')[0].startTime
  const entries = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  const rounds = new Map()
  for (const entry of entries.sort((a, b) => a.startTime - b.startTime)) {
    const before = entries.filter(({ responseStart }) => responseStart > 0 && responseStart <= entry.startTime)
    rounds.set(entry, 1 + Math.max(0, ...before.map((one) => rounds.get(one))))
  }
  entries
    .filter((entry) => entry.startTime + entry.duration <= heading || entry.entryType === 'navigation')
    .map((entry) => ({ path: new URL(entry.name).pathname, round: rounds.get(entry), bytes: entry.transferSize }))
}`

test('the heading is there after three rounds of requests, and waits for no data', { skip: NO_CHROMIUM }, async (t) => {
  const { page, address, complaints } = await openConsoleOf(t, store)
  await page.getByRole('heading', { level: 2, name: 'Overview' }).waitFor()
  await page.goto('about:blank')
  const session = await page.context().newCDPSession(page)
  await session.send('Network.enable')
  await session.send('Network.setCacheDisabled', { cacheDisabled: true })
  const unlimited = { offline: false, downloadThroughput: -1, uploadThroughput: -1 }
  await session.send('Network.emulateNetworkConditions', { ...unlimited, latency: LATENCY_MS })
  await page.addInitScript(MARK_HEADING)
  await page.goto(address)
  await page.getByRole('heading', { level: 2, name: 'Overview' }).waitFor()
  const loaded = (await page.evaluate(REQUESTS)) as { path: string; round: number; bytes: number }[]
  assert.deepEqual(loaded.map(({ path, round }) => `${round} ${path.replace(/-[^-.]+\./, '.')}`).sort(), [
    '1 /console',
    '2 /console/main.css',
    '2 /console/main.js',
    '3 /console/session/refresh',
  ])
  const bytes = loaded.reduce((sum, one) => sum + one.bytes, 0)
  t.diagnostic(`${bytes} bytes, ${await page.evaluate("Math.round(performance.getEntriesByName('heading')[0].startTime)")} ms`)
  assert.ok(bytes < MOST_BYTES, `${bytes} bytes until the heading`)
  assert.deepEqual(complaints, [])
})

const focused = (page: Page) => page.evaluate('document.activeElement.textContent.trim()')

test('with the keyboard each screen begins at its heading, and a link skips the navigation', { skip: NO_CHROMIUM }, async (t) => {
  const { page, address, complaints } = await openConsoleOf(t, store)
  const links = page.getByRole('navigation', { name: 'Screens' }).getByRole('link')
  for (const screen of await links.allTextContents()) {
    await links.filter({ hasText: screen }).press('Enter')
    const heading = page.getByRole('heading', { level: 2 }).first()
    await heading.and(page.locator(':focus')).waitFor()
    await page.waitForLoadState('networkidle')
    assert.equal(await focused(page), screen === 'Settings' ? 'Operators' : screen, 'the focus stays when the data comes')
  }
  await page.goto(`${address}#customers`)
  await page.getByRole('region', { name: 'Customers' }).getByRole('link').first().press('Enter')
  await page.getByRole('heading', { level: 2 }).and(page.locator(':focus')).waitFor()
  await page.getByRole('link', { name: '← All customers' }).waitFor()

  // The link also works before the screen has its heading.
  const { promise: isSkipped, resolve: answerCustomer } = Promise.withResolvers<void>()
  await page.route('**/admin/customers/*', async (route) => {
    await isSkipped
    await route.continue()
  })
  await page.reload()
  await page.getByRole('link', { name: '← All customers' }).waitFor()
  await page.keyboard.press('Tab')
  assert.equal(await focused(page), 'Skip to the content')
  const skip = page.getByRole('link', { name: 'Skip to the content' })
  assert.equal(((await skip.boundingBox())?.height ?? 0) > 20, true, 'it can be seen while it has the focus')
  const before = page.url()
  await page.keyboard.press('Enter')
  answerCustomer()
  await page.getByRole('heading', { level: 2 }).and(page.locator(':focus')).waitFor()
  assert.equal(page.url(), before)
  assert.deepEqual(complaints, [])
})
