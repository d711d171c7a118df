import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { UNBRANDED } from '../src/mail/templates.ts'
import { assertAccessible, NO_CHROMIUM, openBrowser } from './chromium.ts'
import type { Cleanup } from './cleanup.ts'
import { assertUsable, NARROW, WIDE } from './console-harness.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { createGuest, placeOrder } from './guests.ts'
import { registerOperator } from './register-operator.ts'
import { startSmtpServer, type TestSmtpServer } from './smtp-server.ts'
import { type StoreOverrides, startStore } from './store.ts'

const HOSTILE = `<img src=x onerror="document.title='broken'">`
const EMAIL = 'ada@example.com'

/** A store that mails, and a guest's order in it. */
async function startMailingStore(t: Cleanup, overrides: StoreOverrides = {}) {
  const port = await freePort()
  const smtp = await startSmtpServer(t)
  const origin = `http://localhost:${port}`
  const options = { port, baseUrl: origin, roles: ['api', 'stream', 'email'] as const, smtpUrl: smtp.url, ...overrides }
  const store = await startStore(t, { shop: { ...UNBRANDED, name: 'Tea House' }, ...options })
  const product = await store.addProduct({ name: `Lamp ${HOSTILE}`, amount: 1_250 })
  const { token: operator } = await registerOperator(store)
  const placed = async (language: string) => {
    const guest = await createGuest({ call: (...[method, path]) => store.call(method, path, { body: { email: EMAIL, language } }) }, EMAIL)
    const items = [{ product_id: product.id, quantity: 1, attributes: { engraving: HOSTILE } }]
    const order = await placeOrder(store, guest.token, product, { items })
    assert.equal(order.status, 201, order.text)
    return order.json
  }
  const change = async (id: string, call: string, body: object) => {
    const answer = await store.call('POST', `/admin/orders/${id}/${call}`, { token: operator, body })
    assert.ok(answer.status < 300, answer.text)
  }
  return { store, smtp, origin, placed, change }
}

/** The link of the newest mail about the order, by its text; its HTML has the same. */
async function linkOf(smtp: TestSmtpServer, number: string, count = 1): Promise<string> {
  const mails = await eventually(
    async () => {
      const found = smtp.mails.filter(({ subject }) => subject?.includes(number))
      return found.length >= count && found
    },
    { what: `${count} mails about the order` },
  )
  const { text = '', html } = mails.at(-1) ?? {}
  const [link = ''] = /^http\S+#\S+$/m.exec(text) ?? []
  assert.ok(String(html).includes(`href="${link.replaceAll('/', '&#x2F;').replaceAll('=', '&#x3D;')}"`), text)
  return link
}

const statusOf = (page: Page) => page.locator('.now').textContent()

for (const { view, language, texts } of [
  {
    ...{ view: NARROW, language: 'de' },
    texts: {
      ...{
        received: 'Eingegangen',
        sent: 'Unterwegs',
        track: 'Sendung verfolgen: Paket 1',
        code: 'Postleitzahl',
        show: 'Adresse anzeigen',
      },
      wrong: 'Das ist nicht die Postleitzahl der Bestellung.',
    },
  },
  {
    ...{ view: WIDE, language: 'en' },
    texts: {
      ...{ received: 'Received', sent: 'On its way', track: 'Track the parcel: Parcel 1', code: 'Postal code', show: 'Show the address' },
      wrong: 'This is not the postal code of the order.',
    },
  },
]) {
  test(`a guest who has the mail alone sees status, parcel and tracking, in ${language} at ${view.width} px`, {
    skip: NO_CHROMIUM,
  }, async (t) => {
    const { smtp, origin, placed, change } = await startMailingStore(t)
    const order = await placed(language)
    const link = await linkOf(smtp, order.number)
    assert.match(link, new RegExp(`^${origin}/order#[\\w-]{64}$`))
    const { page, complaints } = await (await openBrowser(t)).open(view)
    const requests: string[] = []
    page.on('request', (request) => requests.push(`${request.url()} ${JSON.stringify(request.headers())}`))
    await page.goto(link)
    await page.locator('.now').waitFor()
    assert.equal(await statusOf(page), texts.received)
    assert.equal(await page.locator('html').getAttribute('lang'), language)
    assert.match(await page.title(), new RegExp(`${order.number} – Tea House$`))
    assert.equal(page.url(), `${origin}/order`, 'the token has left the address')
    assert.deepEqual(
      requests.filter((request) => request.includes(link.slice(-64))),
      [],
      'no address and no header has the token',
    )
    await assertUsable(page, 'order')

    await change(order.id, 'transitions', { to: 'confirmed' })
    const tracking = { carrier: 'DHL', number: 'JJD0001', url: 'https://track.example/p?id=JJD0001' }
    await change(order.id, 'shipments', { lines: [{ product_id: order.items[0].product_id, quantity: 1, line: 0 }], tracking })
    await page.reload()
    await page.locator('.parcels').waitFor()
    assert.equal(await statusOf(page), texts.sent)
    assert.equal(await page.getByRole('link', { name: texts.track }).getAttribute('href'), tracking.url)
    assert.ok((await page.locator('main').textContent())?.includes(`1 × Lamp ${HOSTILE}`))
    assert.doesNotMatch((await page.locator('main').textContent()) ?? '', /Ring 1|engraving/, 'no street and no engraving yet')

    // The keyboard suffices.
    const tries: string[] = []
    page.on('request', (request) => request.postData()?.includes('postal_code') && tries.push(request.url()))
    await page.getByLabel(texts.code).fill('1011')
    await page.keyboard.press('Enter')
    await page.getByText(texts.wrong).waitFor()
    await assertAccessible(page, 'wrong postal code')
    await Promise.all([page.waitForResponse(/by-link/), page.getByRole('button', { name: texts.show }).dblclick()])
    await page.locator('button:enabled', { hasText: texts.show }).waitFor()
    assert.equal(tries.length, 2, 'a double click tries once')
    await page.getByLabel(texts.code).fill('1010')
    await page.getByRole('button', { name: texts.show }).press('Enter')
    await page.getByText('Ring 1').waitFor()
    assert.equal(await page.getByText(`engraving: ${HOSTILE}`).count(), 2, 'the line and the parcel')
    assert.equal(await page.evaluate('document.activeElement.id'), 'address')
    await assertUsable(page, 'address')

    // The mail about the shipment has a link of its own. In the same tab it changes the fragment alone.
    await page.goto(await linkOf(smtp, order.number, 3))
    await page.locator('.now').waitFor()
    assert.equal(page.url(), `${origin}/order`)
    assert.deepEqual(
      complaints.filter((text) => !/status of 422/.test(text)),
      [],
    )
  })
}

test('a guest cancels with the link of the mail, where the shop allows it', { skip: NO_CHROMIUM }, async (t) => {
  const { store, smtp, placed, change } = await startMailingStore(t)
  const [order, packed] = [await placed('fr'), await placed('en')]
  const { page, complaints } = await (await openBrowser(t)).open(NARROW)
  await page.goto(await linkOf(smtp, order.number))
  await page.getByRole('button', { name: 'Annuler la commande' }).click()
  await assertAccessible(page, 'question')
  await page.getByRole('button', { name: 'Garder la commande' }).press('Enter')
  await page.getByRole('button', { name: 'Annuler la commande' }).press('Enter')
  await page.getByRole('button', { name: 'Oui, annuler' }).click()
  await page.locator('.now.cancelled').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Annuler la commande' }).count(), 0)
  await assertUsable(page, 'cancelled')
  assert.equal((await store.pool.query('select status from orders where id = $1', [order.id])).rows[0].status, 'cancelled')

  await page.goto(await linkOf(smtp, packed.number))
  await page.getByRole('button', { name: 'Cancel the order' }).click()
  await change(packed.id, 'transitions', { to: 'confirmed' })
  await page.getByRole('button', { name: 'Yes, cancel it' }).click()
  await page.getByText('The order can no longer be cancelled here. Ask the shop.').waitFor()
  await page.reload()
  await page.getByText('Confirmed').first().waitFor()
  assert.equal(await page.getByRole('button', { name: 'Cancel the order' }).count(), 0)
  assert.deepEqual(
    complaints.filter((text) => !/status of 409/.test(text)),
    [],
  )
})

test('a link that has ended, and an address without a link, say what to do', { skip: NO_CHROMIUM }, async (t) => {
  const { store, smtp, origin, placed } = await startMailingStore(t)
  const order = await placed('es')
  const link = await linkOf(smtp, order.number)
  await store.pool.query(`update orders set shipping_address = shipping_address || '{"line1": "Ring 2"}' where id = $1`, [order.id])
  const { page } = await (await openBrowser(t)).open(NARROW)
  await page.goto(`${origin}/order/`)
  await page.getByText('Open this page with the link in a mail about your order.').waitFor()
  assert.equal(page.url(), `${origin}/order`)
  await page.goto(link)
  await page.getByText('This link is no longer valid.').waitFor()
  await assertUsable(page, 'ended')
})

test('the page survives lost, broken and outdated answers, and a browser that stores nothing', { skip: NO_CHROMIUM }, async (t) => {
  const { smtp, placed, change } = await startMailingStore(t)
  const [first, second] = [await placed('en'), await placed('en')]
  const links = [await linkOf(smtp, first.number), await linkOf(smtp, second.number)] as const
  await change(second.id, 'transitions', { to: 'confirmed' })
  const { page } = await (await openBrowser(t)).open(NARROW)
  await page.addInitScript(() => {
    const refuse = () => {
      throw new DOMException('no storage', 'SecurityError')
    }
    Object.assign(Storage.prototype, { getItem: refuse, setItem: refuse })
  })
  const title = (number: string) => page.getByRole('heading', { name: `Order ${number}` })

  // The answer for the first link comes when the page shows the second one.
  const [asked, shown, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const byLink = '**/orders/by-link'
  await page.route(
    byLink,
    async (route) => {
      asked.resolve()
      await shown.promise
      await route.continue()
      answered.resolve()
    },
    { times: 1 },
  )
  await page.goto(links[0])
  await asked.promise
  const late = page.waitForResponse(byLink)
  await page.goto(links[1])
  await title(second.number).waitFor()
  await late
  const outdated = page.waitForResponse(byLink)
  shown.resolve()
  await answered.promise
  await (await outdated).finished()
  await page.evaluate('new Promise(requestAnimationFrame)')
  assert.equal(await title(first.number).count(), 0)
  assert.equal(await title(second.number).count(), 1)

  await page.route(byLink, (route) => route.fulfill({ contentType: 'application/json', body: '{' }), { times: 1 })
  await page.goto(links[0])
  await page.getByRole('button', { name: 'Try again' }).click()
  await title(first.number).waitFor()

  await page.route('**/orders/by-link/cancel', async (route) => {
    await route.fetch()
    await route.abort()
  })
  await page.getByRole('button', { name: 'Cancel the order' }).click()
  await page.getByRole('button', { name: 'Yes, cancel it' }).click()
  await page.locator('.now.cancelled').waitFor()

  await page.route(byLink, async (route) => {
    const response = await route.fetch()
    const tracking = { carrier: 'DHL', number: 'JJD2', url: 'https://www.dhl.com@evil.example/' }
    const parcels = [{ version: 2, shipped_at: first.created_at, lines: [], tracking }]
    await route.fulfill({ response, json: { ...(await response.json()), parcels } })
  })
  await page.goto(links[1])
  await page.getByText('DHL, tracking number JJD2').waitFor()
  assert.equal(await page.locator('main a').count(), 0, 'no link with a user name')
})

test("with SHOP_ORDER_URL mails link to the shop's page, with the same fragment", async (t) => {
  const { store, smtp, placed } = await startMailingStore(t, { shopOrderUrl: 'https://shop.example/where?is=it' })
  const order = await placed('en')
  const link = await linkOf(smtp, order.number)
  assert.match(link, /^https:\/\/shop\.example\/where\?is=it#[\w-]{64}$/)
  const { json } = await store.call('POST', '/orders/by-link', { body: { token: link.slice(-64) } })
  assert.deepEqual([json.number, json.shop, json.language], [order.number, 'Tea House', 'en'])
})
