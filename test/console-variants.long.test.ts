import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, NARROW, openConsole, pasteInto, withoutRefusals } from './console-harness.ts'
import { eventually } from './eventually.ts'
import type { TestStore } from './store.ts'

/** What the store has of a group, by SKU. */
async function variantsOf(store: TestStore, group: string) {
  const { rows } = await store.pool.query(
    `select sku, name, options, price_amount as price, available as stock
     from products join inventory on product_id = id where variant_group = $1 order by sku collate "C"`,
    [group],
  )
  return rows
}

const grid = (page: Page) => page.getByRole('region', { name: 'Variants' })

test('a product of two options becomes six variants in a few clicks', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, address } = await openConsole(t, NARROW)
  const { id } = await store.addProduct({ name: 'Shirt', sku: 'SHIRT', amount: 2_000, stock: 5 })
  await page.goto(`${address}#products?product=${id}`)
  await page.getByLabel('Option 1', { exact: true }).fill('Size')
  await page.getByLabel('Values of option 1').fill('S, M, L')
  await page.getByRole('button', { name: 'Another option' }).click()
  await page.getByLabel('Option 2', { exact: true }).fill('Colour')
  await page.getByLabel('Values of option 2').fill('red, blue')
  await page.getByRole('button', { name: 'Make 6 rows' }).click()
  await page.getByText('6 changes', { exact: true }).waitFor()
  await assertUsable(page, 'the new variants')
  await page.getByLabel('Price EUR of variant 6', { exact: true }).fill('22,50')
  await pasteInto(page, 'Stock of variant 2', '1\n2\n3\n4\n5')
  await page.getByRole('button', { name: 'Save variants' }).click()
  await page.getByText('6 variants are saved.').waitFor()
  await page.getByText('6 changes', { exact: true }).waitFor({ state: 'detached' })
  const options = (Size: string, Colour: string) => ({ Size, Colour })
  assert.deepEqual(await variantsOf(store, 'shirt'), [
    { sku: 'SHIRT', name: 'Shirt', options: options('S', 'red'), price: 2_000, stock: 5 },
    { sku: 'SHIRT-L-BLUE', name: 'Shirt', options: options('L', 'blue'), price: 2_250, stock: 5 },
    { sku: 'SHIRT-L-RED', name: 'Shirt', options: options('L', 'red'), price: 2_000, stock: 4 },
    { sku: 'SHIRT-M-BLUE', name: 'Shirt', options: options('M', 'blue'), price: 2_000, stock: 3 },
    { sku: 'SHIRT-M-RED', name: 'Shirt', options: options('M', 'red'), price: 2_000, stock: 2 },
    { sku: 'SHIRT-S-BLUE', name: 'Shirt', options: options('S', 'blue'), price: 2_000, stock: 1 },
  ])
  // The product itself has changed with its variants: its form knows the new state.
  await page.getByLabel('Name', { exact: true }).fill('T-shirt')
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('T-shirt is saved.').waitFor()
  await grid(page).getByRole('link', { name: 'Open' }).first().click()
  await page.getByRole('heading', { level: 2, name: 'Shirt', exact: true }).waitFor()
  await page.getByText('this product').waitFor()
  await assertUsable(page, 'a variant')
  assert.deepEqual(complaints, [])
})

test('six variants are pasted from a spreadsheet, and what is refused stays in its row', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, complaints, address } = await openConsole(t)
  const { id } = await store.addProduct({ name: 'Mug', sku: 'MUG', amount: 900, stock: 5 })
  const taken = await store.addProduct({ sku: 'MUG-L' })
  await page.goto(`${address}#products?product=${id}`)
  const sheet = [
    'Size\tColour\tSKU\tPrice\tStock',
    'S\tred\tMUG\t9,00\t5',
    'S\tblue\tMUG-SB\t9,50\t10',
    'M\tred\tMUG-M\t1.010,00\t11',
    'M\tblue\tMUG-MB\t10.50\t12',
    'L\tred\tMUG-L\t11.00\t',
    'L\tblue\tMUG-LB\t11.50\tmany',
  ].join('\r\n')
  await pasteInto(page, 'SKU of variant 1', sheet)
  await page.getByText('6 changes', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Save variants' }).click()
  await page.getByText('2 variants were not saved: the reason is in the row.').waitFor()
  const row = (sku: string) =>
    grid(page)
      .getByRole('row')
      .filter({ has: page.locator(`td[data-column="2"] input`) })
      .filter({ hasText: sku })
  await row('A product with this sku exists already').waitFor()
  await row('The stock must be a whole number').waitFor()
  await assertUsable(page, 'the refused rows')
  await page.getByLabel('SKU of variant 5', { exact: true }).fill('MUG-LR')
  await page.getByLabel('Stock of variant 6', { exact: true }).fill('')
  await page.getByRole('button', { name: 'Save variants' }).click()
  await page.getByText('2 variants are saved.').waitFor()
  const all = await variantsOf(store, 'mug')
  assert.deepEqual(
    all.map(({ sku, price, stock }) => [sku, price, stock]),
    [
      ['MUG', 900, 5],
      ['MUG-LB', 1_150, null],
      ['MUG-LR', 1_100, null],
      ['MUG-M', 101_000, 11],
      ['MUG-MB', 1_050, 12],
      ['MUG-SB', 950, 10],
    ],
  )
  const { rows } = await store.pool.query('select variant_group from products where id = $1', [taken.id])
  assert.deepEqual(rows, [{ variant_group: null }])

  // A change by somebody else is not lost.
  const [other] = (await store.pool.query(`select id from products where sku = 'MUG-M'`)).rows
  const body = { price: { amount: 1_000, currency: 'EUR' } }
  const patched = await store.call('PATCH', `/admin/products/${other.id}`, { token: operator.token, headers: { 'if-match': '*' }, body })
  assert.equal(patched.status, 200, patched.text)
  const index = await page.evaluate(
    `[...document.querySelectorAll('.grid tbody tr')].findIndex((row) => row.cells[2].firstElementChild.value === 'MUG-M') + 1`,
  )
  await page.getByLabel(`Price EUR of variant ${index}`, { exact: true }).fill('9')
  await page.getByRole('button', { name: 'Save variants' }).click()
  await page.getByText('Changed meanwhile: Price EUR is 10.00 now. Look at it, and save again to replace that.').waitFor()
  assert.equal((await store.pool.query('select price_amount from products where id = $1', [other.id])).rows[0].price_amount, 1_000)
  await page.getByRole('button', { name: 'Save variants' }).click()
  await page.getByText('1 variant is saved.').waitFor()
  assert.equal((await store.pool.query('select price_amount from products where id = $1', [other.id])).rows[0].price_amount, 900)
  assert.deepEqual(withoutRefusals(complaints), [])
})

/** Changes a product as another operator does. */
async function changeElsewhere(store: TestStore, token: string, id: string, body: object): Promise<void> {
  const { status, text } = await store.call('PATCH', `/admin/products/${id}`, { token, headers: { 'if-match': '*' }, body })
  assert.equal(status, 200, text)
}

/** Two products of a group, in the sequence of the grid. */
async function addGroup(store: TestStore, token: string, group: string) {
  const [one, other] = [await store.addProduct({ stock: 10 }), await store.addProduct({ stock: 10 })]
  const [first, second] = one.id < other.id ? [one, other] : [other, one]
  await changeElsewhere(store, token, first.id, { group, options: { Colour: 'red' } })
  await changeElsewhere(store, token, second.id, { group, options: { Colour: 'blue' } })
  return [first, second] as const
}

test('a refused row that is saved again changes only what was typed: no sold units, no price of others', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { store, operator, page, complaints, address } = await openConsole(t)
  const [red, blue] = await addGroup(store, operator.token, 'cup')
  await page.goto(`${address}#products?product=${red.id}`)
  await page.getByLabel('SKU of variant 2', { exact: true }).fill('CUP-BLUE')
  await page.getByText('1 change', { exact: true }).waitFor()
  const { token } = await store.register()
  const sold = await store.call('POST', '/orders', { token, body: { items: [{ product_id: blue.id, quantity: 3 }] } })
  assert.equal(sold.status, 201, sold.text)
  await changeElsewhere(store, operator.token, blue.id, { price: { amount: 1_500, currency: 'EUR' }, options: { Colour: 'navy' } })
  await page.getByRole('button', { name: 'Save variants' }).click()
  await page.getByText('Changed meanwhile: Colour is navy now, Price EUR is 15.00 now, Stock is 7 now.').waitFor()
  assert.equal(await page.getByLabel('Stock of variant 2', { exact: true }).inputValue(), '7')
  await page.getByRole('button', { name: 'Save variants' }).click()
  await page.getByText('1 variant is saved.').waitFor()
  const saved = (await variantsOf(store, 'cup')).find(({ sku }) => sku === 'CUP-BLUE')
  assert.deepEqual([saved.sku, saved.options, saved.price, saved.stock], ['CUP-BLUE', { Colour: 'navy' }, 1_500, 7])
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('what is typed while variants are saved stays, as a change of what was saved', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, complaints, address } = await openConsole(t)
  const [red] = await addGroup(store, operator.token, 'sock')
  await page.goto(`${address}#products?product=${red.id}`)
  await page.getByLabel('SKU of variant 2', { exact: true }).fill('SOCK-BLUE')
  await pasteInto(page, 'SKU of variant 2', 'Colour\tSKU\ngreen\tSOCK-GREEN')
  await page.getByText('2 changes', { exact: true }).waitFor()
  let isTyping = true
  await page.route(/\/admin\/products(?:\/[^/?]+)?$/, async (route) => {
    const method = route.request().method()
    if (isTyping && method === 'PATCH') await page.getByLabel('Price EUR of variant 2', { exact: true }).fill('14.00')
    if (isTyping && method === 'POST') await page.getByLabel('Price EUR of variant 3', { exact: true }).fill('13.00')
    await route.continue()
  })
  await page.getByRole('button', { name: 'Save variants' }).click()
  await page.getByText('2 variants are saved.').waitFor()
  const saved = async () => (await variantsOf(store, 'sock')).map(({ sku, price }) => [sku, price])
  const shown = await page.evaluate(
    `[...document.querySelectorAll('.grid tbody tr')].map((row) => [...row.querySelectorAll('input')].slice(1, 3).map(({ value }) => value).join(' '))`,
  )
  assert.deepEqual((shown as string[]).filter((row) => row.startsWith('SOCK')).toSorted(), ['SOCK-BLUE 14.00', 'SOCK-GREEN 13.00'])
  assert.deepEqual((await saved()).slice(-2), [
    ['SOCK-BLUE', 1_250],
    ['SOCK-GREEN', 1_250],
  ])
  isTyping = false
  await page.getByText('2 changes', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Save variants' }).click()
  await page.getByText('2 changes', { exact: true }).waitFor({ state: 'detached' })
  assert.deepEqual((await saved()).slice(-2), [
    ['SOCK-BLUE', 1_400],
    ['SOCK-GREEN', 1_300],
  ])
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('new variants of a planned product are planned, too, and pasted ones join a product without a group', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { store, operator, page, complaints, address } = await openConsole(t)
  const { id } = await store.addProduct({ sku: 'SCARF', name: 'Scarf' })
  const [published_at, unpublished_at] = ['2126-01-01T00:00:00.000Z', '2126-02-01T00:00:00.000Z']
  await changeElsewhere(store, operator.token, id, { published_at, unpublished_at })
  await page.goto(`${address}#products?product=${id}`)
  await pasteInto(page, 'SKU of variant 1', 'Size\tSKU\nS\tSCARF-S\nL\tSCARF-L')
  await page.getByText('2 changes', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Save variants' }).click()
  await page.getByText('2 variants are saved.').waitFor()
  await page.getByLabel('SKU of variant 3', { exact: true }).waitFor()
  const { rows } = await store.pool.query(
    'select sku, published_at, unpublished_at from products where variant_group is not null order by sku collate "C"',
  )
  assert.deepEqual(
    rows,
    ['SCARF', 'SCARF-L', 'SCARF-S'].map((sku) => ({
      ...{ sku, published_at: new Date(published_at), unpublished_at: new Date(unpublished_at) },
    })),
  )
  assert.equal(await grid(page).getByText('new', { exact: true }).count(), 0)
  assert.deepEqual(withoutRefusals(complaints), [])
})

test('saving variants takes no change of others into the form of the product', { skip: NO_CHROMIUM }, async (t) => {
  const { store, operator, page, complaints, address } = await openConsole(t)
  const [{ id }] = await addGroup(store, operator.token, 'hat')
  await page.goto(`${address}#products?product=${id}`)
  await page.getByLabel('SKU of variant 2', { exact: true }).fill('HAT-XL')
  await page.getByLabel('Name', { exact: true }).fill('My hat')
  await changeElsewhere(store, operator.token, id, { name: 'Their hat' })
  await page.getByRole('button', { name: 'Save variants' }).click()
  await page.getByText('1 variant is saved.').waitFor()
  await page.getByLabel('SKU of variant 1', { exact: true }).fill('HAT-S')
  await page.getByRole('button', { name: 'Save variants' }).click()
  await page.getByText('The product was changed meanwhile. Save its form first').waitFor()
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('Nothing was saved: the product was changed meanwhile. Now Name is “Their hat” (yours: “My hat”).').waitFor()
  await page.getByRole('button', { name: 'Save variants' }).click()
  const stored = async () => (await store.pool.query('select sku, name from products where id = $1', [id])).rows[0]
  await eventually(async () => (await stored()).sku === 'HAT-S', { what: 'the saved variant' })
  assert.equal((await stored()).name, 'Their hat')
  assert.deepEqual(withoutRefusals(complaints), [])
})
