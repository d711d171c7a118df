import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, HOSTILE, NARROW, openConsole } from './console-harness.ts'
import { eventually } from './eventually.ts'

const IMAGE = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"/>'

test('an operator adds, changes and removes the attributes of a product', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, address } = await openConsole(t, NARROW)
  const { id, sku } = await store.addProduct({ name: 'Lamp' })
  const attributesOf = async () => (await store.call('GET', `/products/${id}`)).json.attributes
  await page.goto(`${address}#products?product=${id}`)
  const field = page.getByRole('textbox', { name: 'Attributes' })
  const save = () => page.getByRole('button', { name: 'Save', exact: true }).press('Enter')
  await field.fill(`weight_g: 120\ndimmable: true\nvoltage: 12 V\ncode: "12"\nnote: ${HOSTILE}: x\n\nempty: ""`)
  await save()
  await page.getByText('Lamp is saved.').waitFor()
  const saved = { weight_g: 120, dimmable: true, voltage: '12 V', code: '12', note: `${HOSTILE}: x`, empty: '' }
  assert.deepEqual(await attributesOf(), saved)
  await assertUsable(page, 'a product with attributes')

  await page.reload()
  await field.waitFor()
  assert.match(await field.inputValue(), /^code: "12"$/m)
  await page.getByLabel('Name').fill('Lamp 2')
  await save()
  await page.getByText('Lamp 2 is saved.').waitFor()
  assert.deepEqual(await attributesOf(), saved, 'what is not touched stays')

  for (const [text, words] of [
    ['colour', '“colour” is no attribute'],
    ['a: 1\na: 2', 'The attribute a is there twice.'],
    ['1st: x', '“1st” is no name'],
  ] as const) {
    await field.fill(text)
    await save()
    await page.getByRole('alert').getByText(words).waitFor()
  }
  assert.deepEqual(await attributesOf(), saved)
  await field.fill('')
  await save()
  // The message of the save before is still there.
  await eventually(async () => (await attributesOf()) === undefined, { what: 'a product without attributes' })

  await page.goto(`${address}#orders?product_id=${id}`)
  const product = page.getByRole('textbox', { name: 'Product (SKU or id)' })
  await eventually(async () => (await product.inputValue()) === sku, { what: 'the SKU in the place of the id' })
  assert.deepEqual(
    complaints.filter((text) => !/status of 422/.test(text)),
    [],
  )
})

test('an operator fills the page of a product, and changes one part of it', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, address } = await openConsole(t)
  const { id } = await store.addProduct({ name: 'Lamp' })
  await page.route('https://images.example/**', (route) => route.fulfill({ contentType: 'image/svg+xml', body: IMAGE }))
  const pictures = () => page.evaluate(`[...document.querySelectorAll('img.picture')].map(({ src, naturalWidth }) => [src, naturalWidth])`)
  const pageOf = async () => (await store.call('GET', `/products/${id}`)).json
  const save = () => page.getByRole('button', { name: 'Save', exact: true }).press('Enter')
  await page.goto(`${address}#products?product=${id}`)
  await page.getByLabel('Brand').fill(HOSTILE)
  await page.getByLabel('Reduced from').fill('99.50')
  await page.getByLabel('Availability').fill('Ships in 3 days')
  await page.getByLabel('Slug').fill('The lamp')
  await page.getByLabel('SEO title').fill('Lamps')
  await page.getByRole('textbox', { name: 'Images' }).fill('https://images.example/a.jpg 800x600 A lamp\n\nhttps://images.example/b.jpg')
  await save()
  await page.getByText('Lamp is saved.').waitFor()
  const images = [
    { url: 'https://images.example/a.jpg', alt: 'A lamp', width: 800, height: 600 },
    { url: 'https://images.example/b.jpg', alt: '', width: null, height: null },
  ]
  const shown = [
    ['https://images.example/a.jpg', 40],
    ['https://images.example/b.jpg', 40],
  ]
  await eventually(async () => isDeepStrictEqual(await pictures(), shown), { what: 'both images' })
  const saved = await pageOf()
  const { brand, slug, compare_at_price, availability_text, seo } = saved
  assert.deepEqual(
    { brand, slug, compare_at_price, availability_text, seo, images: saved.images },
    {
      ...{ brand: HOSTILE, slug: 'the-lamp', compare_at_price: { amount: 9_950, currency: 'EUR' }, availability_text: 'Ships in 3 days' },
      ...{ seo: { title: 'Lamps', description: null }, images },
    },
  )
  await page.getByLabel('Reduced from').fill('0.01')
  await save()
  await page.getByRole('alert').getByText('compare_at_price must be above the price').waitFor()
  await page.getByLabel('Reduced from').fill('')
  await page.getByLabel('Brand').fill('')
  await save()
  await eventually(async () => (await pageOf()).brand === null, { what: 'a product without a brand' })
  const { updated_at: _, ...now } = await pageOf()
  const { updated_at: _before, ...before } = saved
  assert.deepEqual(now, { ...before, brand: null, compare_at_price: null, lowest_price_30_days: null })
  await page.goto(`${address}#products`)
  await eventually(async () => isDeepStrictEqual(await pictures(), shown.slice(0, 1)), { what: 'the first image in the list' })
  await assertUsable(page, 'a list with images')
  assert.deepEqual(
    complaints.filter((text) => !/status of 422|request to images.example/.test(text)),
    [],
  )
})
