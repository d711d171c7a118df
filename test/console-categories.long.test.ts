import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, NARROW, openConsole } from './console-harness.ts'

test('an operator creates, moves, renames and deletes categories', { skip: NO_CHROMIUM }, async (t) => {
  const { store, page, complaints, show } = await openConsole(t, NARROW)
  await store.addProduct({ name: 'A vase', category: 'Vases' })
  await show('Products')
  await page.getByRole('link', { name: 'Categories' }).click()
  const rows = page.getByRole('region', { name: 'Categories' }).getByRole('row')
  await rows.filter({ hasText: 'vases' }).waitFor()
  const dialog = page.getByRole('dialog')
  await page.getByRole('button', { name: 'New category…' }).click()
  await dialog.getByLabel('Name').fill('Home')
  await dialog.getByRole('button', { name: 'Create' }).click()
  await page.getByText('Home is created.').waitFor()
  await assertUsable(page, 'the tree')
  await page.getByRole('button', { name: 'Edit…: Vases' }).click()
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
  await page.getByRole('button', { name: 'Delete…: Home' }).click()
  await dialog.getByRole('button', { name: 'Delete' }).click()
  await page.getByText('The category has others below it.').waitFor()
  assert.deepEqual(
    complaints.filter((complaint) => !complaint.includes('status of 409')),
    [],
  )
})
