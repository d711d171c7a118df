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
  const save = () => page.getByRole('button', { name: 'Save', exact: true }).press('Enter')
  let count = 0
  const add = async (name: string, value: string, kind = 'text') => {
    await page.getByRole('button', { name: 'Add an attribute' }).click()
    await page.getByLabel(`Name of attribute ${++count}`, { exact: true }).fill(name)
    await page.getByLabel(`Kind of ${name}`, { exact: true }).selectOption({ label: kind })
    const control = page.getByLabel(`Value of ${name}`, { exact: true })
    if (kind === 'yes or no') await control.selectOption({ label: value })
    else await control.fill(value)
  }
  await add('weight_g', '120,5', 'number')
  await add('dimmable', 'yes', 'yes or no')
  await add('voltage', '12 V')
  await add('code', '12')
  await add('note', `${HOSTILE}: x`)
  await add('empty', '')
  await add('lines', 'a\nb')
  await add('colours', 'red\n["blue"]\n', 'list')
  await save()
  await page.getByText('Lamp is saved.').waitFor()
  const saved = {
    ...{ weight_g: 120.5, dimmable: true, voltage: '12 V', code: '12', note: `${HOSTILE}: x`, empty: '', lines: 'a\nb' },
    colours: ['red', '["blue"]'],
  }
  assert.deepEqual(await attributesOf(), saved)
  await assertUsable(page, 'a product with attributes')

  await page.reload()
  await page.getByLabel('Value of code').waitFor()
  assert.equal(await page.getByLabel('Kind of code').inputValue(), 'text')
  await page.getByLabel('Name', { exact: true }).fill('Lamp 2')
  await save()
  await page.getByText('Lamp 2 is saved.').waitFor()
  assert.deepEqual(await attributesOf(), saved, 'what is not touched stays')

  const last = `Name of attribute ${++count}`
  await page.getByRole('button', { name: 'Add an attribute' }).click()
  for (const [name, words] of [
    ['code', 'The attribute code is there twice.'],
    ['1st', '“1st” is no name'],
  ] as const) {
    await page.getByLabel(last, { exact: true }).fill(name)
    await save()
    await page.getByRole('alert').getByText(words).waitFor()
  }
  await page.getByLabel(last, { exact: true }).fill('depth')
  await page.getByLabel('Kind of depth').selectOption({ label: 'number' })
  await page.getByLabel('Value of depth').fill('deep')
  await save()
  await page.getByRole('alert').getByText('The attribute depth must be a number.').waitFor()
  assert.deepEqual(await attributesOf(), saved)
  for (const name of [...Object.keys(saved), 'depth']) await page.getByRole('button', { name: `Remove ${name}`, exact: true }).click()
  await save()
  // The message of the save before is still there.
  await eventually(async () => (await attributesOf()) === undefined, { what: 'a product without attributes' })

  await page.locator('.save-bar').waitFor({ state: 'detached' })
  await page.goto(`${address}#orders?product_id=${id}`)
  await page.getByText(`Product (SKU or id): ${sku} ×`).waitFor()
  assert.deepEqual(
    complaints.filter((text) => !/status of 422/.test(text)),
    [],
  )
})

test('each language of a product has a tab', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, complaints, address } = await openConsole(t, NARROW)
  const { id } = await store.addProduct({ name: 'Lamp' })
  const read = async () => (await store.call('GET', `/admin/products/${id}`, { token: operator.token })).json.translations
  const save = () => page.getByRole('button', { name: 'Save', exact: true }).press('Enter')
  await page.goto(`${address}#products?product=${id}`)
  await page.getByText('Add a language', { exact: true }).click()
  await page.getByLabel('Language', { exact: true }).fill('pt-BR')
  await page.keyboard.press('Enter')
  const name = page.getByLabel('Name (Brazilian Portuguese)')
  await name.fill(HOSTILE)
  assert.equal(await page.getByLabel('Name', { exact: true }).isVisible(), false)
  await page.getByLabel('SEO text (Brazilian Portuguese)').fill('Uma lâmpada')
  await page.getByText('2 changes', { exact: true }).waitFor()
  await assertUsable(page, 'a language')
  await save()
  await page.getByText('Lamp is saved.').waitFor()
  assert.deepEqual(await read(), { 'pt-BR': { name: HOSTILE, seo_description: 'Uma lâmpada' } })
  assert.equal(await name.inputValue(), HOSTILE)

  // What the browser refuses is shown, also in a tab that is hidden.
  await page.getByRole('button', { name: "Shop's language" }).click()
  await page.getByLabel('Name', { exact: true }).fill('')
  await page.getByRole('button', { name: 'Brazilian Portuguese', exact: true }).click()
  await save()
  await page.getByLabel('Name', { exact: true }).waitFor()
  await page.getByLabel('Name', { exact: true }).fill('Lamp 2')
  await page.getByRole('button', { name: 'Brazilian Portuguese', exact: true }).click()
  await page.getByRole('button', { name: 'Remove Brazilian Portuguese' }).click()
  await page.getByText('3 changes', { exact: true }).waitFor()
  await save()
  await page.getByText('Lamp 2 is saved.').waitFor()
  assert.deepEqual(await read(), {})
  await page.getByRole('button', { name: 'Brazilian Portuguese', exact: true }).waitFor({ state: 'detached' })
  assert.deepEqual(complaints, [])
})

test('an operator fills the page of a product, and changes one part of it', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, address } = await openConsole(t)
  const { id } = await store.addProduct({ name: 'Lamp' })
  await page.route('https://images.example/**', (route) => route.fulfill({ contentType: 'image/svg+xml', body: IMAGE }))
  const pictures = () =>
    page.evaluate(
      `[...document.querySelectorAll('.tiles img.picture, .list img.picture')].map(({ src, naturalWidth }) => [src, naturalWidth])`,
    )
  const pageOf = async () => (await store.call('GET', `/products/${id}`)).json
  const save = () => page.getByRole('button', { name: 'Save', exact: true }).press('Enter')
  await page.goto(`${address}#products?product=${id}`)
  await page.getByLabel('Brand').fill(HOSTILE)
  await page.getByLabel('Reduced from').fill('99.50')
  await page.getByLabel('Availability').fill('Ships in 3 days')
  await page.getByLabel('Slug').fill('The lamp')
  await page.getByLabel('SEO title').fill('Lamps')
  const imageAddress = page.getByLabel('Address of an image')
  await imageAddress.fill('https://images.example/b.jpg')
  await page.keyboard.press('Enter')
  await page.getByText('40 × 30').waitFor()
  await imageAddress.fill('https://images.example/a.jpg  https://images.example/c.jpg')
  await page.getByRole('button', { name: 'Add the image' }).click()
  await page.getByText('40 × 30').nth(2).waitFor()
  await page.getByRole('button', { name: 'Remove image 3' }).click()
  await page.getByLabel('What image 2 shows').fill('A lamp')
  await page.getByRole('button', { name: 'Move image 2 forward' }).click()
  await assertUsable(page, 'images')
  await save()
  await page.getByText('Lamp is saved.').waitFor()
  const images = [
    { url: 'https://images.example/a.jpg', alt: 'A lamp', width: 40, height: 30 },
    { url: 'https://images.example/b.jpg', alt: '', width: 40, height: 30 },
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
  await page.locator('.save-bar').waitFor({ state: 'detached' })
  await page.goto(`${address}#products`)
  await eventually(async () => isDeepStrictEqual(await pictures(), shown.slice(0, 1)), { what: 'the first image in the list' })
  await assertUsable(page, 'a list with images')
  assert.deepEqual(
    complaints.filter((text) => !/status of 422|request to images.example/.test(text)),
    [],
  )
})
