import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, NARROW, openConsole } from './console-harness.ts'

test('an operator creates, moves, renames and deletes categories', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, show } = await openConsole(t, NARROW)
  await store.addProduct({ name: 'A vase', category: 'Vases' })
  await show('Products')
  await page.locator('summary').filter({ hasText: 'More' }).click()
  await page.getByRole('link', { name: 'Categories' }).click()
  const rows = page.getByRole('region', { name: 'Categories' }).getByRole('row')
  await rows.filter({ hasText: 'vases' }).waitFor()
  const dialog = page.getByRole('dialog')
  await page.getByRole('button', { name: 'New category' }).click()
  await dialog.getByLabel('Name').fill('Home')
  await dialog.getByRole('button', { name: 'Create' }).click()
  await page.getByText('Home is created.').waitFor()
  await assertUsable(page, 'the tree')
  await page.getByRole('button', { name: 'Edit: Vases' }).click()
  await dialog.getByLabel('Name').fill('Vases & bowls')
  await dialog.getByLabel('Below').selectOption({ label: 'Home' })
  await assertUsable(page, 'the dialog')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByText('Vases & bowls is saved.').waitFor()
  const { data } = (await store.call('GET', '/categories')).json
  assert.deepEqual(
    data.map(({ name, depth }: { name: string; depth: number }) => [name, depth]),
    [
      ['Home', 0],
      ['Vases & bowls', 1],
    ],
  )
  await page.getByRole('button', { name: 'Delete: Home' }).click()
  await dialog.getByRole('button', { name: 'Delete' }).click()
  await page.getByText('The category has others below it.').waitFor()
  assert.deepEqual(
    complaints.filter((complaint) => !complaint.includes('status of 409')),
    [],
  )
})

test('an operator orders the first products of a category by buttons, by number and by the keyboard', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, show } = await openConsole(t, NARROW)
  for (const name of ['Vase one', 'Vase two', 'Vase three']) await store.addProduct({ name, category: 'Vases' })
  await show('Products')
  await page.goto(new URL('#products?categories=1', page.url()).href)
  const dialog = page.getByRole('dialog')
  const open = () => page.getByRole('button', { name: 'Arrange the products: Vases' }).click()
  const placed = async () => (await dialog.locator('.placed li > span:nth-of-type(2)').allTextContents()).map((text) => text.split(' ')[1])
  const listed = async () =>
    (await store.call('GET', '/products?category=vases&sort=position')).json.data.map(({ name }: { name: string }) => name.split(' ')[1])
  /** The numbers in the boxes, which are those of the rows. */
  const boxes = async () => Promise.all((await dialog.getByRole('spinbutton').all()).map((box) => box.inputValue()))
  await open()
  await dialog.getByText('No product is placed').waitFor()
  await dialog.getByLabel('Find a product of the category').fill('vase')
  await page.keyboard.press('Enter')
  for (const name of ['one', 'three', 'two']) await dialog.getByRole('button', { name: `Place Vase ${name}` }).click()
  await assertUsable(page, 'the order')
  await dialog.getByRole('button', { name: 'Move Vase two forward' }).focus()
  await page.keyboard.press('Enter')
  await page.waitForFunction(`document.activeElement.ariaLabel === 'Move Vase two forward'`)
  await page.keyboard.press('Enter')
  await page.waitForFunction(`document.activeElement.ariaLabel === 'Move Vase two back'`)
  assert.deepEqual(await placed(), ['two', 'one', 'three'])
  assert.deepEqual(await boxes(), ['1', '2', '3'])
  const number = async (name: string, text: string, key: 'Tab' | 'Enter') => {
    await dialog.getByLabel(`Place of Vase ${name}`).fill(text)
    await page.keyboard.press(key)
    if (text !== '') await dialog.locator(`[aria-label="Place of Vase ${name}"]:focus`).waitFor()
    assert.deepEqual(await boxes(), ['1', '2', '3'], `after ${text} and ${key}`)
    return placed()
  }
  assert.deepEqual(await number('three', '1', 'Tab'), ['three', 'two', 'one'])
  assert.deepEqual(await number('three', '9', 'Tab'), ['two', 'one', 'three'], 'the last place')
  assert.deepEqual(await number('one', '', 'Tab'), ['two', 'one', 'three'], 'an emptied box moves nothing')
  assert.deepEqual(await number('three', '1', 'Enter'), ['three', 'two', 'one'])
  assert.ok(await dialog.isVisible(), 'Enter sends nothing')
  await dialog.getByRole('button', { name: 'Remove Vase one' }).click()
  assert.deepEqual(
    [await placed(), await boxes()],
    [
      ['three', 'two'],
      ['1', '2'],
    ],
  )
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByText('The order of Vases is saved.').waitFor()
  assert.deepEqual(await listed(), ['three', 'two', 'one'])

  await open()
  await dialog.getByText('Vase three').waitFor()
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })

  await open()
  await dialog.getByRole('button', { name: 'Move Vase two forward' }).click()
  const { id } = (await store.call('GET', '/categories')).json.data[0]
  await store.pool.query(`update product_rankings set product_ids = product_ids[2:] where category_id = $1 and replaced_at is null`, [id])
  await dialog.getByRole('button', { name: 'Save' }).click()
  await dialog.getByText('the order was changed meanwhile').waitFor()
  assert.deepEqual(
    [await placed(), await boxes()],
    [
      ['two', 'three'],
      ['1', '2'],
    ],
  )
  await dialog.getByRole('button', { name: 'Save' }).click()
  // The message of the first time may still be shown.
  await dialog.waitFor({ state: 'detached' })
  assert.deepEqual(await listed(), ['two', 'three', 'one'])
  assert.deepEqual(
    complaints.filter((complaint) => !complaint.includes('status of 412')),
    [],
  )
})

test('an order whose answer was lost is saved, and a second variant of a group cannot be placed', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, show } = await openConsole(t, NARROW)
  for (const name of ['Cup red', 'Cup blue', 'Cup plain']) await store.addProduct({ name, category: 'Cups' })
  await store.pool.query(`update products set variant_group = 'cup' where name <> 'Cup plain'`)
  await show('Products')
  await page.goto(new URL('#products?categories=1', page.url()).href)
  const dialog = page.getByRole('dialog')
  await page.getByRole('button', { name: 'Arrange the products: Cups' }).click()
  await dialog.getByLabel('Find a product of the category').fill('cup')
  await page.keyboard.press('Enter')
  await dialog.getByRole('button', { name: 'Place Cup red' }).click()
  await dialog.getByRole('button', { name: 'Place Cup plain' }).click()
  assert.ok(await dialog.getByRole('button', { name: 'Place Cup blue' }).isDisabled())
  const { id } = (await store.call('GET', '/categories')).json.data[0]
  await store.pool.query(
    `insert into product_rankings (sort, category_id, product_ids)
     select 'position', $1, array_agg(id order by name desc) from products where name in ('Cup red', 'Cup plain')`,
    [id],
  )
  await dialog.getByRole('button', { name: 'Save' }).click()
  await page.getByText('The order of Cups is saved.').waitFor()
  assert.deepEqual(
    complaints.filter((complaint) => !complaint.includes('status of 412')),
    [],
  )
})
