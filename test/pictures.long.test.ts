import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { type BrowserPage, NO_CHROMIUM, openBrowser } from './chromium.ts'
import { signIn } from './console-harness.ts'
import { makeDataFolder } from './data-folders.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { startShop } from './shop-process.ts'
import { runStorefront, serve } from './store-process.ts'
import { makeTestFolder } from './test-folder.ts'

// `npm run pictures` writes the pictures of the README; a test run takes them as well, and compares their names.
const DOCUMENTED = fileURLToPath(new URL('../docs/images', import.meta.url))
const ORDERS = 1_500
const SMALLEST_PICTURE_BYTES = 15_000

test('the pictures of the README show the store as it is after a demo', { skip: NO_CHROMIUM }, async (t) => {
  const [port, shopPort] = [await freePort(), await freePort()]
  const [origin, shop] = [`http://localhost:${port}`, `http://localhost:${shopPort}`]
  const folder = makeDataFolder(t)
  const env = { DATA_DIR: folder.path, LAKE_FLUSH_SECONDS: '1', PORT: String(port), BASE_URL: origin, CORS_ORIGINS: shop }
  await serve(t, { env })
  const demo = await runStorefront(t, ['demo', '--fast', '--orders', String(ORDERS)], { env })
  const [, email = '', password = ''] = /operator: (\S+)\npassword: (\S+)/.exec(demo.stdout) ?? []
  await startShop(t, shopPort, origin)
  const read = await openApi(origin, { email, password })
  await eventually(async () => (await read('/admin/mails?status=queued&limit=1')).data.length === 0, {
    what: 'the mails',
    timeoutMs: 300_000,
  })
  const settledAt = new Date().toISOString()
  // The figures are at most a minute behind.
  await eventually(async () => (await read('/admin/figures?range=week')).generated_at > settledAt, {
    what: 'the figures',
    timeoutMs: 180_000,
  })

  const pictures = pictureFolder(t)
  const browser = await openBrowser(t)
  const take = async ({ page }: BrowserPage, name: string) => void (await page.screenshot({ path: join(pictures, `${name}.png`) }))
  for (const isDark of [false, true]) {
    const view = await browser.open({ isDark })
    await view.page.goto(`${origin}/console#overview?range=7_days`)
    await signIn(view.page, { email, password })
    await view.page.locator('canvas').first().waitFor()
    await take(view, isDark ? 'console-dark' : 'console-light')
    if (isDark) continue
    await openOrder(view.page)
    await take(view, 'order')
    assert.deepEqual(view.complaints, [])
  }
  const reference = await browser.open()
  await reference.page.goto(`${origin}/docs`)
  await reference.page.locator('.opblock').first().waitFor()
  await take(reference, 'reference')
  const customer = await browser.open()
  await customer.page.goto(shop)
  await customer.page.getByRole('list', { name: 'Products' }).getByRole('listitem').first().waitFor()
  const unread = `[...document.images].filter((image) => image.getBoundingClientRect().top < innerHeight && image.naturalWidth === 0).length`
  await eventually(async () => (await customer.page.evaluate(unread)) === 0, { what: 'the pictures of the products in view' })
  await take(customer, 'shop')
  const mail = await browser.open({ width: 700 })
  const sent: { event_id: string; kind: string }[] = (await read('/admin/mails?status=sent&limit=100')).data
  const shipped = sent.find(({ kind }) => kind === 'shipped')
  await mail.page.setContent((await read(`/admin/mails/${shipped?.event_id}`)).rendered.html)
  await take(mail, 'mail')

  const taken = readdirSync(pictures)
  for (const name of taken) assert.ok(readFileSync(join(pictures, name)).length > SMALLEST_PICTURE_BYTES, `${name} is not blank`)
  assert.deepEqual(taken.sort(), readdirSync(DOCUMENTED).sort(), 'run npm run pictures')
})

function pictureFolder(t: TestContext): string {
  if (process.env.PICTURES === 'write') {
    mkdirSync(DOCUMENTED, { recursive: true })
    return DOCUMENTED
  }
  return makeTestFolder(t, 'storefront-pictures-')
}

/** Opens an order that has arrived, with its mails. */
async function openOrder(page: Page): Promise<void> {
  await page.evaluate("location.hash = '#orders?status=delivered'")
  await page.getByRole('row').nth(1).getByRole('link').first().click()
  await page.getByText('Mail “Order delivered”').first().waitFor()
}

/** Reads calls of operators. */
async function openApi(origin: string, operator: { email: string; password: string }) {
  const login = await fetch(`${origin}/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(operator),
  })
  const { access_token: token } = (await login.json()) as { access_token: string }
  // biome-ignore lint/suspicious/noExplicitAny: the test reads what it needs of several answers
  return async (path: string): Promise<any> => (await fetch(`${origin}${path}`, { headers: { authorization: `Bearer ${token}` } })).json()
}
