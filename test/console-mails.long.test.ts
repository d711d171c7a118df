import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { mailLanguages } from '../src/mail/mail-languages.ts'
import { readMailTemplates } from '../src/mail/mail-templates.ts'
import { NO_CHROMIUM, openBrowser } from './chromium.ts'
import { onCleanup } from './cleanup.ts'
import { assertUsable, filterBy, NARROW, openConsole, WIDE } from './console-harness.ts'
import { eventually } from './eventually.ts'
import { startSmtpServer } from './smtp-server.ts'
import type { Account, StoreOverrides, TestStore } from './store.ts'
import { makeTestFolder } from './test-folder.ts'

const HOSTILE = `"><img src=x onerror=alert(1)><script>alert(2)</script>`

/** A console whose store mails, with three customers: one whose mails arrive, one refused and one deferred at first. */
async function openMailingConsole(t: TestContext, view: { width: number; isDark: boolean }, overrides: StoreOverrides = {}) {
  const smtp = await startSmtpServer(t)
  const customers: Account[] = []
  let mug = { id: '' }
  const prepare = async (store: TestStore) => {
    mug = await store.addProduct({ name: `Mug ${HOSTILE}`, stock: 1_000 })
    for (let count = 0; count < 3; count++) customers.push(await store.register())
    await store.pool.query('update users set name = $1, email_verified_at = now()', [`Ada ${HOSTILE}`])
    const [, refused, deferred] = customers
    smtp.refuse(String(refused?.email), { code: 550, text: `no ${HOSTILE}`, times: 2 })
    smtp.refuse(String(deferred?.email), { code: 451, text: `later ${HOSTILE}` })
    for (const customer of customers) await placeOrder(store, customer)
    await untilStatuses(store, ['failed', 'queued', 'sent'])
  }
  const placeOrder = async (store: TestStore, { token }: Account) => {
    const { status, text, json } = await store.call('POST', '/orders', {
      token,
      body: { items: [{ product_id: mug.id, quantity: 2 }], note: HOSTILE },
    })
    assert.equal(status, 201, text)
    return json
  }
  const opened = await openConsole(t, view, { roles: ['api', 'stream', 'email'], smtpUrl: smtp.url, ...overrides, prepare })
  // The deferred mail would wait for its next attempt at the end.
  onCleanup(t, async () => void (await opened.store.pool.query(`update email_deliveries set status = 'failed' where status = 'queued'`)))
  return { ...opened, smtp, customers, placeOrder: (customer: Account) => placeOrder(opened.store, customer) }
}

const untilStatuses = (store: TestStore, statuses: string[]) =>
  eventually(
    async () => {
      const { rows } = await store.pool.query('select status from email_deliveries where attempts > 0 order by status')
      return JSON.stringify(rows.map(({ status }) => status)) === JSON.stringify(statuses)
    },
    { what: `mails that are ${statuses}` },
  )

const cells = (page: Page, column: number) => page.getByRole('table').locator(`tbody td:nth-child(${column})`)
const countForeign = (page: Page) => page.locator('main :is(img, script)').count()

test('finds a failed mail, reads it and sends it again', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, show, smtp, customers, placeOrder } = await openMailingConsole(t, NARROW)
  await show('Mails')
  await cells(page, 1).nth(2).waitFor()
  assert.deepEqual((await cells(page, 2).allTextContents()).toSorted(), ['failed', 'queued', 'sent'])
  await assertUsable(page, 'list')
  assert.equal(await countForeign(page), 0)

  // A new mail appears by itself.
  await placeOrder(customers[0] as Account)
  await cells(page, 2).nth(3).waitFor()

  // The keyboard reaches the filter, and the mail.
  await page.getByRole('link', { name: 'Failed', exact: true }).press('Enter')
  await page.waitForURL(/status=failed/)
  await filterBy(page, { Address: String(customers[1]?.email) })
  await page.waitForURL(/email=/)
  await page.reload()
  await cells(page, 2).first().waitFor()
  assert.deepEqual(await cells(page, 2).allTextContents(), ['failed'])
  assert.match(String(await cells(page, 8).textContent()), /550.*<img src=x/)
  const order = await page.getByRole('table').getByRole('link', { name: /^\d+$/ }).getAttribute('href')
  assert.match(String(order), /^#orders\?order=[0-9a-f-]{36}$/)
  await page.getByRole('link', { name: 'Order placed' }).focus()
  await page.keyboard.press('Enter')

  // The mail in its frame: hostile text is text, and nothing runs.
  const frame = page.frameLocator('.mail-content iframe')
  await frame.getByText(`Hello Ada ${HOSTILE},`).waitFor()
  assert.equal(await frame.locator('img, script').count(), 0)
  assert.equal(await page.locator('.mail-content iframe').getAttribute('sandbox'), '')
  await page.getByText('As text').click()
  assert.match(String(await page.getByRole('region', { name: 'Text of the mail' }).textContent()), /2 × Mug "><img src=x/)
  assert.equal(await countForeign(page), 0)
  await assertUsable(page, 'mail')

  // Escape sends nothing.
  await page.getByRole('button', { name: 'Retry this mail' }).click()
  await assertUsable(page, 'dialog')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  assert.equal((await store.pool.query(`select count(*) from email_deliveries where status = 'failed'`)).rows[0].count, 1)
  const retry = async () => {
    await page.getByRole('button', { name: 'Retry this mail' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Retry' }).click()
    await page.getByText('The mail is queued again.').waitFor()
  }
  await retry()
  await page.locator('.badge', { hasText: 'failed' }).waitFor()
  await page.goBack()
  await page.waitForURL(/status=failed/)
  await page.getByRole('button', { name: 'Retry all failed mails' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Retry all' }).click()
  await page.getByText('1 mail is queued again.').waitFor()
  await page.getByText('No mail matches.').waitFor()
  await page.getByRole('button', { name: 'Retry all failed mails' }).waitFor({ state: 'detached' })
  const received = () => smtp.mails.filter(({ to }) => to !== undefined && 'text' in to && to.text.includes(String(customers[1]?.email)))
  await eventually(async () => received().length === 1)

  // A sent mail is sent again, as a copy.
  await page.getByRole('link', { name: 'Clear', exact: true }).click()
  await page
    .getByRole('row')
    .filter({ hasText: String(customers[1]?.email) })
    .getByRole('link', { name: 'Order placed' })
    .click()
  await page.getByRole('button', { name: 'Send this mail again' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Send again' }).click()
  await page.getByText('A copy of the mail is queued.').waitFor()
  await eventually(async () => received().length === 2)
  assert.match(String(received()[1]?.subject), /^Copy: /)
  await page.getByRole('link', { name: 'All mails' }).click()
  await page.getByRole('link', { name: 'Order placed (copy)' }).waitFor()
  // One that came back is among what was not received.
  await store.pool.query(`update email_deliveries set bounced_at = now(), bounce_reason = $1 where event_id like '%.copy1'`, [HOSTILE])
  await page.getByRole('link', { name: 'Not received' }).click()
  await page.waitForURL(/undelivered=true/)
  await page.getByText('came back').first().waitFor()
  await page.getByRole('link', { name: 'Order placed (copy)' }).click()
  await page.getByText(HOSTILE).first().waitFor()
  assert.equal(await countForeign(page), 0)
  await page.getByRole('link', { name: 'All mails' }).click()
  await cells(page, 2).nth(3).waitFor()
  await page.getByRole('link', { name: '100', exact: false }).first().waitFor()
  assert.deepEqual(complaints, [])
})

test('previews each template, in each language and in other locales', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, show } = await openConsole(t, NARROW)
  await show('Mails')
  await page.getByText('No mails yet').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Retry all failed mails' }).count(), 0, 'none has failed')
  await page.getByRole('link', { name: 'Settings' }).click()
  await page.getByRole('link', { name: 'Mail templates' }).click()
  const templates = page.getByRole('navigation', { name: 'Templates' }).getByRole('link')
  const names = await eventually(async () => {
    const found = await templates.allTextContents()
    return found.length === 30 && found
  })
  const frame = page.frameLocator('.mail-content iframe')
  for (const name of names) {
    await page.getByRole('link', { name, exact: true }).click()
    await page.getByRole('heading', { name: `${name} in English (en)` }).waitFor()
    await frame.locator('h1').waitFor()
  }
  await page.getByRole('link', { name: 'shipped', exact: true }).click()
  await frame.getByText('€1,234.50').waitFor()
  const { y = Infinity } = (await page.locator('.mail-content iframe').boundingBox()) ?? {}
  assert.ok(y < 900, `the preview is in sight, at ${y}`)
  await assertUsable(page, 'templates')
  await page.getByLabel('Amounts as in').fill('de')
  await page.getByLabel('Amounts as in').press('Enter')
  await frame.getByText('1.234,50\u00a0€').waitFor()
  await page.getByLabel('Amounts as in').fill('')
  for (const [language, heading] of [
    ['de', 'Ihre Bestellung ist unterwegs'],
    ['fr', 'Votre commande est en route'],
    ['es', 'Su pedido está en camino'],
    ['en', 'Your order is on its way'],
  ] as const) {
    await page.getByLabel('Language').selectOption(language)
    await page.getByRole('button', { name: 'Preview' }).click()
    await frame.getByRole('heading', { name: heading }).waitFor()
  }
  await page.reload()
  await frame.getByText('€1,234.50').waitFor()
  await page.getByLabel('Amounts as in').fill('en-u-nu-arab')
  await page.getByLabel('Amounts as in').press('Enter')
  await page.getByRole('heading', { name: 'amounts in English (en-u-nu-arab)' }).waitFor()
  await frame.locator('h1').waitFor()
  assert.deepEqual(complaints, [])
  await page.getByLabel('Amounts as in').fill('not a language')
  await page.getByRole('button', { name: 'Preview' }).click()
  await page.getByRole('alert').getByText('is not the tag of a known language').waitFor()
  await assertUsable(page, 'refusal')
})

test('a failed mail is sent again from the story of its order', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, address, customers } = await openMailingConsole(t, { width: 1_280, isDark: false })
  const { rows } = await store.pool.query('select id from orders where user_id = $1', [customers[1]?.id])
  await page.goto(`${address}#orders?order=${rows[0].id}`)
  const again = page.getByRole('button', { name: 'Retry the mail “Order placed”' })
  await again.press('Enter')
  await assertUsable(page, 'the question before a mail is sent again')
  await page.getByRole('dialog', { name: 'Retry this mail?' }).getByRole('button', { name: 'Retry' }).press('Enter')
  await page.getByText('The mail is queued again.').waitFor()
  const retried = async () =>
    (await store.pool.query(`select count(*)::int as count from activities where action = 'retryMail'`)).rows[0].count === 1
  await eventually(retried, { what: 'the activity' })
  await page.goto(
    `${address}#orders?order=${(await store.pool.query('select id from orders where user_id = $1', [customers[0]?.id])).rows[0].id}`,
  )
  await page.getByRole('button', { name: 'Show the mail “Order placed”' }).waitFor()
  assert.equal(await again.count(), 0, 'a mail that was sent is not')
  await page.getByRole('button', { name: 'Send again the mail “Order placed”' }).press('Enter')
  await page.getByRole('dialog', { name: 'Send this mail again?' }).getByRole('button', { name: 'Send again' }).press('Enter')
  await page.getByText('A copy of the mail is queued.').waitFor()
  await page.getByText('Mail “Order placed (copy)”').waitFor()
})

test('walks through older mails, and back', { skip: NO_CHROMIUM }, async (t) => {
  const prepare = async ({ pool }: TestStore) =>
    void (await pool.query(
      `insert into email_deliveries (event_id, order_id, user_id, event_type, status, queued_at)
       select id || '.1', id, gen_random_uuid(), 'storefront.order.created', 'sent', '2026-03-01T10:00:00Z'
       from (select gen_random_uuid() as id from generate_series(1, 120)) as made`,
    ))
  const { page, complaints, show } = await openConsole(t, WIDE, { prepare })
  await show('Mails')
  const read = async (count: number) => {
    await eventually(async () => (await cells(page, 1).count()) === count)
    return page
      .getByRole('table')
      .locator('tbody td:first-child a')
      .evaluateAll((links) => links.map((link) => String(link.getAttribute('href'))))
  }
  const seen = await read(50)
  for (const count of [50, 20]) {
    await page.getByRole('link', { name: 'Next page' }).click()
    await page.getByRole('link', { name: 'First page' }).waitFor()
    await eventually(async () => !seen.includes((await read(count))[0] ?? ''))
    seen.push(...(await read(count)))
  }
  assert.equal(new Set(seen).size, 120)
  assert.equal(await page.getByRole('link', { name: 'Next page' }).count(), 0)
  await page.getByRole('link', { name: 'First page' }).click()
  assert.deepEqual(
    await eventually(async () => (await page.getByRole('link', { name: 'First page' }).count()) === 0 && read(50)),
    seen.slice(0, 50),
  )
  assert.deepEqual(complaints, [])
})

test('every built-in mail is readable and fits: 390 and 600 px, light and dark, with the longest link', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { page } = await (await openBrowser(t)).open({ width: 600 })
  const shop = { name: 'Tea & House', logoUrl: null, color: '#ffd400', contact: 'help@shop.example, +43 1 23456' }
  const pages = {
    accountUrl: 'https://a.example/',
    orderUrl: `https://a.example/order?${'a'.repeat(900)}`,
    consoleUrl: 'https://a.example/console',
  }
  const templates = readMailTemplates({ directory: null, shop, languages: mailLanguages('de', null), currency: 'EUR', ...pages })
  for (const { name } of templates.list) {
    await page.setContent(templates.preview(name)?.html ?? '')
    for (const isDark of [false, true]) {
      await page.setViewportSize({ width: 600, height: 900 })
      await page.emulateMedia({ colorScheme: isDark ? 'dark' : 'light' })
      await assertUsable(page, name)
    }
  }
})

test('a template of the shop with scripts and pictures of other hosts runs and loads nothing in the console', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const mailTemplates = makeTestFolder(t, 'storefront-templates-')
  writeFileSync(
    join(mailTemplates, 'created.html.mustache'),
    `<p>Order {{number}}</p><script>top.document.title = 'taken'; alert(1)</script><img src="https://tracker.example/a.gif" onerror="alert(1)">
    <link rel="stylesheet" href="https://tracker.example/a.css"><meta http-equiv="refresh" content="0; url=https://tracker.example/">
    <form action="https://tracker.example/" target="_top"><button>Send</button></form><a href="https://tracker.example/" target="_top">Away</a>`,
  )
  const { page, complaints } = await openConsole(t, WIDE, { mailTemplates })
  await page.goto(`${page.url()}#settings?section=templates`)
  await page.getByText("the shop's own").first().waitFor()
  const frame = page.frameLocator('.mail-content iframe')
  await frame.getByText('Order 100042').waitFor()
  await frame.getByRole('button', { name: 'Send' }).click()
  await frame.getByRole('link', { name: 'Away' }).click()
  await frame.getByText('Order 100042').waitFor()
  assert.equal(await page.title(), 'Mail template created – Storefront console')
  assert.match(page.url(), /\/console#settings\?section=templates$/)
  // The browser reports what it has refused.
  assert.deepEqual(
    complaints.filter((text) => !/Content Security Policy|sandbox/i.test(text)),
    [],
  )
  assert.ok(complaints.length >= 3, complaints.join('\n'))
})

test('an id in the address stays one part of the path', { skip: NO_CHROMIUM }, async (t) => {
  const { page, address } = await openConsole(t)
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  const ids = ['../orders/1', '..', '.', 'a/retry', 'a?b=1', 'a#b']
  for (const [screen, parameter, parent] of [
    ['mails', 'mail', '/admin/mails/'],
    ['orders', 'order', '/admin/orders/'],
    ['products', 'product', '/admin/products/'],
    ['pipeline', 'run', '/admin/audits/'],
    ['settings?section=webhooks', 'webhook', '/admin/webhooks/'],
  ] as const) {
    for (const id of ids) {
      const request = page.waitForRequest((sent) => {
        const { pathname, search } = new URL(sent.url())
        const rest = pathname.startsWith(parent) ? pathname.slice(parent.length).replace(/\/deliveries$/, '') : ''
        return (
          !search.includes('b=1') &&
          !rest.includes('/') &&
          [id, encodeURIComponent(id)].includes(decodeURIComponent(decodeURIComponent(rest)))
        )
      })
      await page.goto(`${address}#${screen}${screen.includes('?') ? '&' : '?'}${new URLSearchParams({ [parameter]: id })}`)
      await request
    }
  }
})
