import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, HOSTILE, NARROW, openConsole } from './console-harness.ts'
import { startSecondProcess } from './store.ts'

const row = (page: Page, text: string) =>
  page.getByRole('region', { name: 'Products', exact: true }).getByRole('row').filter({ hasText: text })
const without = (complaints: string[], status: number) => complaints.filter((complaint) => !complaint.includes(`status of ${status}`))
const csv = (...lines: string[]) => Buffer.from(['sku,name,category,price,currency,stock', ...lines].join('\n'))

test('an operator adds, finds, changes, counts and archives a product', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, complaints, show } = await openConsole(t, NARROW)
  await store.addProduct({ name: 'A vase', sku: 'VASE', stock: 0 })
  await store.addProduct({ name: 'Gift card', sku: 'GIFT', stock: null })
  await show('Products')
  await row(page, 'VASE').getByText('sold out').waitFor()
  await row(page, 'GIFT').getByText('not tracked').waitFor()
  await assertUsable(page, 'the list')
  await page.getByRole('link', { name: 'New product' }).press('Enter')
  await page.getByLabel('Name').fill('Blue mug')
  await page.getByLabel('SKU').fill('MUG-BLUE')
  await page.getByLabel('Categories').fill('Home > Kitchen')
  await page.getByRole('textbox', { name: /^Price In/ }).fill('12.505')
  await page.getByLabel('Stock').fill('40')
  await page.keyboard.press('Enter')
  await page.getByText('The price must be a number such as 12.50, with a point and at most 2 decimals for EUR.').waitFor()
  await assertUsable(page, 'the form with its error')
  await page.getByRole('textbox', { name: /^Price In/ }).fill('90071992547409.91')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Products: Blue mug' }).waitFor()
  await page.getByText('40 available').waitFor()
  await assertUsable(page, 'a product')
  const priceOf = async (sku: string) =>
    (await store.pool.query('select price_amount from products where sku = $1', [sku])).rows[0].price_amount
  assert.equal(await priceOf('MUG-BLUE'), Number.MAX_SAFE_INTEGER, 'exact, also above what a float of major units holds')

  await page.getByRole('textbox', { name: /^Price In/ }).fill('11.90')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Blue mug is saved.').waitFor()
  assert.equal(await priceOf('MUG-BLUE'), 1_190)
  await page.getByLabel('Set to').fill('38')
  await page.getByLabel('Reason of the count').fill('Two are broken')
  await page.getByRole('button', { name: 'Set stock' }).click()
  await page.getByText('The stock is 38.').waitFor()
  await page.getByLabel('Adjust by').fill('-3')
  await page.getByLabel('Reference').fill('delivery-1')
  await page.getByRole('button', { name: 'Adjust stock' }).click()
  await page.getByText('Removed 3: the stock is 35.').waitFor()
  await page.getByLabel('Adjust by').fill('-3')
  await page.getByLabel('Reference').fill('delivery-1')
  await page.getByRole('button', { name: 'Adjust stock' }).click()
  await page.getByText('This was booked before under the reference delivery-1. Nothing was changed.').waitFor()
  const changes = page.getByRole('region', { name: 'Changes of stock' })
  await changes.getByRole('row').filter({ hasText: 'delivery-1' }).getByText('-3', { exact: true }).waitFor()
  await changes.getByRole('row').filter({ hasText: 'Two are broken' }).getByText(operator.email).waitFor()

  await page.getByRole('button', { name: 'Archive…' }).click()
  await page.getByRole('dialog').getByText('can no longer be ordered').waitFor()
  await assertUsable(page, 'the confirmation')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Archive…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click()
  await row(page, 'VASE').waitFor()
  await row(page, 'MUG-BLUE').waitFor({ state: 'detached' })
  await page.getByLabel('Words or SKU').fill('vase')
  await page.keyboard.press('Enter')
  await row(page, 'GIFT').waitFor({ state: 'detached' })
  assert.match(page.url(), /#products\?q=vase$/)
  await page.reload()
  await row(page, 'VASE').waitFor()
  await page.getByLabel('Stock').selectOption('true')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.getByText('No product matches.').waitFor()
  // The page asks for the stock every three seconds: also between the archiving and its answer.
  assert.deepEqual(without(complaints, 404), [])
})

test('a change by another operator meanwhile is explained, and what was entered is kept', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, complaints, address } = await openConsole(t)
  const product = await store.addProduct({ name: 'A lamp', amount: 1_000 })
  await page.goto(`${address}#products?product=${product.id}`)
  await page.getByLabel('Name').fill('A blue lamp')
  await page.getByRole('textbox', { name: /^Price In/ }).fill('9.50')
  const patch = async (body: object) => {
    const headers = { 'if-match': '*' }
    assert.equal((await store.call('PATCH', `/admin/products/${product.id}`, { token: operator.token, body, headers })).status, 200)
  }
  await patch({ price: { amount: 800, currency: 'EUR' }, description: 'By another operator' })
  await page.getByRole('button', { name: 'Save' }).click()
  await page
    .getByText(
      'Nothing was saved: the product was changed meanwhile. Now price is “8.00” (yours: “9.50”), description is “By another operator”.',
    )
    .waitFor()
  await assertUsable(page, 'the explanation')
  assert.equal(await page.getByLabel('Name').inputValue(), 'A blue lamp')
  assert.equal(await page.getByLabel('Description').inputValue(), 'By another operator')
  const read = async () =>
    (await store.pool.query('select name, price_amount, description, archived_at is not null as archived from products')).rows[0]
  assert.equal((await read()).price_amount, 800)
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('A blue lamp is saved.').waitFor()
  assert.deepEqual(await read(), { name: 'A blue lamp', price_amount: 950, description: 'By another operator', archived: false })

  await patch({ name: 'Not a lamp' })
  await page.getByRole('button', { name: 'Archive…' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click()
  await page.getByText('Nothing was archived: the product was changed meanwhile. It is Not a lamp now.').waitFor()
  assert.equal((await read()).archived, false)
  await page.getByRole('dialog').getByRole('button', { name: 'Archive' }).click()
  await page.getByRole('heading', { name: 'Products', exact: true }).waitFor()
  assert.equal((await read()).archived, true)
  assert.deepEqual(without(complaints, 412), [])
})

test('a count does not overwrite a sale that was made while it was entered', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, address } = await openConsole(t)
  const product = await store.addProduct({ stock: 10 })
  const customer = await store.register()
  await page.goto(`${address}#products?product=${product.id}`)
  await page.getByText('10 available').waitFor()
  await page.getByLabel('Set to').fill('10')
  const order = { items: [{ product_id: product.id, quantity: 3 }] }
  assert.equal((await store.call('POST', '/orders', { token: customer.token, body: order })).status, 201)
  // The page may show the new number already.
  await page.getByText('7 available').waitFor()
  await page.getByRole('button', { name: 'Set stock' }).click()
  await page.getByText('Nothing was set: the stock was 10 when you began and is 7 now.').waitFor()
  assert.deepEqual(await store.readStock(product), [7])
  assert.equal(await page.getByLabel('Set to').inputValue(), '10')
  await page.getByLabel('Set to').fill('8')
  await page.getByRole('button', { name: 'Set stock' }).click()
  await page.getByText('The stock is 8.').waitFor()
  assert.deepEqual(await store.readStock(product), [8])
  assert.deepEqual(without(complaints, 412), [])
})

test('a file is imported; its refused lines are shown, downloaded, corrected and sent again', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, show } = await openConsole(t, NARROW)
  await show('Products')
  await page.getByRole('link', { name: 'Import a file' }).click()
  await assertUsable(page, 'the import')
  const good = Array.from({ length: 600 }, (_, index) => `S-${index},Product ${index},things,${index}.50,EUR,5`)
  const bad = [`BAD-1,"A name\n\nof lines",things,1.00,EUR,5`, `BAD-2,"${HOSTILE.replaceAll('"', '""')}",things,1.005,EUR,5`]
  await page
    .getByLabel('File')
    .setInputFiles({ name: 'spring.csv', mimeType: 'text/csv', buffer: csv(...good, ...bad, 'S-last,Last,things,1,EUR,5') })
  await page.getByRole('button', { name: 'Import' }).click()
  await page.getByText('spring.csv: 601 created, 0 updated, 0 unchanged, 2 refused.').waitFor()
  await assertUsable(page, 'the results')
  const refused = page.getByRole('region', { name: 'Refused lines' })
  await refused.getByRole('row').filter({ hasText: '602' }).getByText('name must have no control characters').waitFor()
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download the refused lines' }).click(),
  ])
  assert.equal(download.suggestedFilename(), 'refused-spring.csv')
  const chunks = await (await download.createReadStream()).toArray()
  const text = Buffer.concat(chunks).toString()
  assert.equal(text, `${csv(bad[0]?.replace('\n\n', '\n') ?? '', bad[1] ?? '')}\n`)
  const corrected = text.replace('"A name\nof lines"', 'A name').replace('1.005', '1.05')
  await page.getByLabel('File').setInputFiles({ name: 'again.csv', mimeType: 'text/csv', buffer: Buffer.from(corrected) })
  await page.getByRole('button', { name: 'Import' }).click()
  await page.getByText('again.csv: 2 created, 0 updated, 0 unchanged, 0 refused.').waitFor()
  const line = JSON.stringify({ sku: 'S-0', name: 'Changed', category: 'things', price: { amount: 1, currency: 'EUR' } })
  await page.getByLabel('File').setInputFiles({ name: 'a.ndjson', mimeType: '', buffer: Buffer.from(`${line}\nnot json\n`) })
  await page.getByRole('button', { name: 'Import' }).click()
  await page.getByText('a.ndjson: 0 created, 1 updated, 0 unchanged, 1 refused.').waitFor()
  await refused.getByText('the line is not valid JSON').waitFor()
  const { rows } = await store.pool.query('select count(*)::int from products')
  assert.equal(rows[0].count, 603)
  await page.getByRole('link', { name: '← All products' }).click()
  await page.getByText(HOSTILE).waitFor()
  await assertUsable(page, 'the list')
  await page.getByRole('link', { name: HOSTILE }).click()
  await page.getByRole('heading', { name: HOSTILE }).waitFor()
  await page.getByText('5 available').waitFor()
  await assertUsable(page, 'the product')
  assert.match(await page.title(), /^Products/)
  assert.equal(await page.locator('main script, main img').count(), 0)
  assert.deepEqual(complaints, [])
})

test('the wrong file is recognised before anything is sent', { skip: NO_CHROMIUM }, async (t) => {
  const { page, complaints, address } = await openConsole(t)
  await page.goto(`${address}#products?import=1`)
  let requests = 0
  page.on('request', (request) => {
    if (request.url().endsWith('/import')) requests++
  })
  const png = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex')
  for (const [name, buffer, message] of [
    ['photo.png', png, 'photo.png is no text in UTF-8 (image/png).'],
    ['empty.csv', Buffer.alloc(0), 'empty.csv is empty.'],
    ['letter.txt', Buffer.from('Dear Ada,\n\nthank you.'), 'letter.txt is no catalogue: its first line is neither'],
    ['array.json', Buffer.from('[\n  {"sku": "A"}\n]'), 'array.json is one JSON array.'],
    ['latin.csv', Buffer.from('sku;name;category;price\nA;Größe;C;1\n', 'latin1'), 'latin.csv is no text in UTF-8'],
  ] as const) {
    const mimeType = name.endsWith('.png') ? 'image/png' : 'text/plain'
    await page.getByLabel('File').setInputFiles({ name, mimeType, buffer })
    await page.getByRole('button', { name: 'Import' }).click()
    await page.getByText(message).waitFor()
  }
  // A file of 1 GB that has its size only: nothing of it is read.
  await page.evaluate(`{
    const file = new File(['{}'], 'huge.ndjson')
    Object.defineProperty(file, 'size', { value: 2 ** 30 })
    Object.defineProperty(document.querySelector('input[type=file]'), 'files', { value: [file], configurable: true })
  }`)
  await page.getByRole('button', { name: 'Import' }).click()
  await page.getByText('huge.ndjson has 1.0 GB; at most 32.0 MB are sent from here.').waitFor()
  assert.equal(requests, 0)
  assert.deepEqual(complaints, [])
})

test('an import that loses the store explains what is stored, and the list comes back by itself', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, address, show } = await openConsole(t)
  await store.addProduct({ name: 'A lamp', sku: 'LAMP' })
  await page.goto(`${address}#products?import=1`)
  await page.getByLabel('File').setInputFiles({ name: 'a.csv', mimeType: 'text/csv', buffer: csv('A,A,things,1,EUR,5') })
  await store.app.stop()
  await page.getByRole('button', { name: 'Import' }).click()
  await page.getByText('The connection to the store was lost during the import.').waitFor()
  await page.getByRole('link', { name: 'Products', exact: true }).click()
  await page.getByText('The store does not answer. This page retries').waitFor()
  await startSecondProcess(t, store, { port: Number(new URL(address).port) })
  await row(page, 'LAMP').getByText('100').waitFor({ timeout: 20_000 })
  await page.getByText('The store does not answer.').waitFor({ state: 'detached' })
  await show('Products')
})
