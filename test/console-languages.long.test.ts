import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { addBuyer } from './buyers.ts'
import { NO_CHROMIUM, openBrowser, untilQuiet } from './chromium.ts'
import { assertFits, assertUsable, NARROW, signIn } from './console-harness.ts'
import { eventually } from './eventually.ts'
import { registerOperator } from './register-operator.ts'
import { startStore } from './store.ts'

const LANGUAGES = {
  de: { locale: 'de-DE', amount: /^2\.469,00\s€$/, count: '1 Bestellung', overview: 'Übersicht', account: 'Konto', signIn: 'Anmelden' },
  fr: { locale: 'fr-FR', amount: /^2\s469,00\s€$/, count: '1 commande', overview: 'Aperçu', account: 'Compte', signIn: 'Se connecter' },
  es: { locale: 'es-ES', amount: /^2469,00\s€$/, count: '1 pedido', overview: 'Resumen', account: 'Cuenta', signIn: 'Iniciar sesión' },
} as const
type Language = keyof typeof LANGUAGES

const tableOf = (language: Language): Record<string, string> =>
  JSON.parse(readFileSync(new URL(`../console/languages/${language}.json`, import.meta.url), 'utf8'))

const store = await startStore({ after })
const product = await store.addProduct({ name: 'A lamp', sku: 'LAMP', amount: 123_450, stock: 7 })
const buyer = await addBuyer(store)
const order = await store.call('POST', '/orders', { token: buyer.token, body: { items: [{ product_id: product.id, quantity: 2 }] } })
assert.equal(order.status, 201, order.text)
const address = `${store.localOrigin}/console`

const SCREENS = [
  ...['overview', 'overview?range=30_days', 'orders', `orders?order=${order.json.id}`, 'orders?q=nothing', 'products', 'products?new=1'],
  ...[`products?product=${product.id}`, 'products?import=1', 'products?categories=1', 'products?state=archived', 'customers'],
  ...[`customers?customer=${buyer.id}`, 'mails', 'mails?status=failed', 'pipeline', 'lake', 'lake?sql=select%201', 'changes'],
  ...['settings?section=operators', 'settings?section=keys', 'settings?section=webhooks', 'settings?section=templates', 'account'],
]

/** The texts of the page that people read or hear, except for names that are the same in every language. */
const READ_TEXTS = `(() => {
  const isName = (element) => element.closest('code, pre, [translate=no], script, style, noscript') !== null
  const texts = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) if (!isName(walker.currentNode.parentElement)) texts.push(walker.currentNode.data)
  for (const element of document.querySelectorAll('[aria-label], [placeholder], [title], [alt]'))
    if (!isName(element)) for (const name of ['aria-label', 'placeholder', 'title', 'alt']) texts.push(element.getAttribute(name) ?? '')
  return texts.map((text) => text.replace(/\\s+/g, ' ').trim())
})()`

async function assertTranslated(page: Page, language: Language, what: string): Promise<void> {
  const table = tableOf(language)
  // An English text that is also one of this language, such as "Note", says nothing.
  const own = new Set(Object.values(table))
  const texts = (await page.evaluate(READ_TEXTS)) as string[]
  assert.deepEqual(
    [...new Set(texts)].filter((text) => Object.hasOwn(table, text) && !own.has(text)),
    [],
    `${language}: English at ${what}`,
  )
}

/** Opens each dialog of the screen: its buttons end with "…". */
async function checkDialogs(page: Page, language: Language, what: string): Promise<void> {
  const buttons = page.locator('main button').filter({ hasText: '…' })
  for (let index = 0; index < (await buttons.count()); index++) {
    const button = buttons.nth(index)
    if (!(await button.isEnabled())) continue
    await page.evaluate(`document.querySelectorAll('main details.menu').forEach((menu) => { menu.open = true })`)
    await button.evaluate((element) => (element as unknown as { click(): void }).click())
    const dialog = page.locator('dialog[open]')
    await dialog.waitFor()
    await assertTranslated(page, language, `${what}, dialog ${index}`)
    await assertFits(page, `${language}: ${what}, dialog ${index}`)
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })
  }
}

for (const language of Object.keys(LANGUAGES) as Language[]) {
  test(`each screen is in ${language}, fits a narrow page and is accessible`, { skip: NO_CHROMIUM }, async (t) => {
    const { locale, amount, count, overview } = LANGUAGES[language]
    const operator = await registerOperator(store)
    const { page, complaints } = await (await openBrowser(t)).open({ ...NARROW, locale })
    await page.goto(address)
    await page.locator('[name=email]').fill(operator.email)
    await page.locator('[name=password]').fill(operator.password)
    await assertTranslated(page, language, 'the sign-in')
    await assertUsable(page, `${language}: the sign-in`)
    await page.locator('button.primary[type=submit]').click()
    await page.getByRole('heading', { level: 2, name: overview }).waitFor()
    assert.equal(await page.locator('html').getAttribute('lang'), language)
    for (const screen of SCREENS) {
      await page.goto(`${address}#${screen}`)
      await page.locator('main h2').first().waitFor()
      await untilQuiet(page)
      await page.evaluate(`document.querySelectorAll('main details:not(.menu)').forEach((each) => { each.open = true })`)
      await untilQuiet(page)
      await assertTranslated(page, language, screen)
      await assertUsable(page, `${language}: ${screen}`)
      await checkDialogs(page, language, screen)
    }
    await page.goto(`${address}#orders`)
    await page.getByRole('cell', { name: amount }).waitFor()
    assert.equal(await page.locator('main').getByRole('status').last().textContent(), count)
    assert.deepEqual(complaints, [])
  })
}

for (const language of Object.keys(LANGUAGES) as Language[]) {
  test(`what is typed in ${language} arrives: a product, its price and a code of six digits`, { skip: NO_CHROMIUM }, async (t) => {
    const { locale } = LANGUAGES[language]
    const operator = await registerOperator(store)
    const { page, complaints } = await (await openBrowser(t)).open({ locale })
    const type = (name: string, text: string) => page.locator(`main [name=${name}]`).first().fill(text)
    const inStore = async (sku: string) =>
      (await store.pool.query('select price_amount as price, price_currency as currency from products where sku = $1', [sku])).rows[0]
    await page.goto(`${address}#products?new=1`)
    await page.locator('[name=email]').fill(operator.email)
    await page.locator('[name=password]').fill(operator.password)
    await page.locator('button.primary[type=submit]').click()
    const sku = `IN-${language.toUpperCase()}`
    await page.locator('main [name=sku]').waitFor()
    await type('sku', sku)
    await type('name', 'A vase')
    const { 'New category': newCategory = '', 'Name of the new category': nameOfCategory = '', ...table } = tableOf(language)
    await page.getByText(newCategory, { exact: true }).click()
    await page.getByLabel(nameOfCategory).fill('Home')
    await page.keyboard.press('Enter')
    await type('price', '1,50')
    await type('currency', 'EUR')
    await page.keyboard.press('Enter')
    await eventually(async () => (await inStore(sku)) !== undefined, { what: 'the product' })
    assert.deepEqual(await inStore(sku), { price: 150, currency: 'EUR' })
    await page.getByRole('heading', { level: 2, name: 'A vase' }).waitFor()
    await type('price', '2.75')
    await page.keyboard.press('Enter')
    await eventually(async () => (await inStore(sku))?.price === 275, { what: 'the new price' })
    await page.getByText((table['{0} is saved.'] ?? '').replace('{0}', 'A vase')).waitFor()

    await page.goto(`${address}#account`)
    await page.getByRole('button', { name: table['Set up an authenticator app'] ?? '' }).click()
    const code = page.locator('dialog [name=code]')
    await code.fill('123456')
    assert.equal(await code.evaluate((input) => (input as unknown as { checkValidity(): boolean }).checkValidity()), true)
    assert.deepEqual(complaints, [])
  })
}

test('the chosen language survives a reload, another tab and the sign-out', { skip: NO_CHROMIUM }, async (t) => {
  const operator = await registerOperator(store)
  const { page, complaints } = await (await openBrowser(t)).open()
  const tables: string[] = []
  page.on('request', (request) => {
    if (/\/(?:de|fr|es)-[A-Z0-9]+\.js$/.test(request.url())) tables.push(request.url())
  })
  await page.goto(address)
  await signIn(page, operator)
  await page.goto(`${address}#account`)
  assert.equal(await page.locator('html').getAttribute('lang'), 'en')
  assert.deepEqual(tables, [], 'a table was loaded for English')
  await page.getByLabel('Language').selectOption('de')
  const { account, overview, signIn: heading } = LANGUAGES.de
  await page.getByRole('heading', { level: 2, name: account }).waitFor()
  assert.equal(tables.length, 1)
  await page.reload()
  await page.getByRole('heading', { level: 2, name: account }).waitFor()

  const tab = await page.context().newPage()
  await tab.goto(address)
  await tab.getByRole('heading', { level: 2, name: overview }).waitFor()
  assert.equal(await tab.locator('html').getAttribute('lang'), 'de')
  await tab.close()

  await page.getByRole('button', { name: 'Abmelden' }).click()
  await page.getByRole('heading', { level: 2, name: heading }).waitFor()
  await page.reload()
  await page.getByRole('heading', { level: 2, name: heading }).waitFor()
  await page.locator('[name=email]').fill(operator.email)
  await page.locator('[name=password]').fill(operator.password)
  await page.locator('button.primary[type=submit]').click()
  await page.getByRole('heading', { level: 2, name: account }).waitFor()
  await page.getByLabel('Sprache').selectOption('en')
  await page.getByRole('heading', { level: 2, name: 'Account' }).waitFor()
  assert.deepEqual(complaints, [])
})

test('a table that does not come leaves the console in English', { skip: NO_CHROMIUM }, async (t) => {
  const operator = await registerOperator(store)
  const { page } = await (await openBrowser(t)).open({ locale: 'de-DE' })
  await page.route(/\/de-[A-Z0-9]+\.js$/, (route) => route.abort())
  await page.goto(address)
  await signIn(page, operator)
  await page.getByRole('heading', { level: 2, name: 'Overview' }).waitFor()
})
