import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, openConsole, withoutRefusals } from './console-harness.ts'

test('one form changes what all variants share, shows who overrides it, and loses no change of others', {
  skip: NO_CHROMIUM,
}, async (t) => {
  const { store, operator, page, complaints, address } = await openConsole(t)
  const ids: string[] = []
  const change = async (path: string, body: object) => {
    const { status, text } = await store.call('PATCH', path, { token: operator.token, headers: { 'if-match': '*' }, body })
    assert.equal(status, 200, text)
  }
  for (const size of ['S', 'M', 'L']) {
    const { id } = await store.addProduct({ name: `Boot ${size}`, sku: `BOOT-${size}` })
    await change(`/admin/products/${id}`, {
      ...{ group: 'boot', options: { Size: size }, description: 'For mud.', brand: 'Fenwick' },
      ...{ attributes: { material: 'leather' }, translations: { de: { description: 'Für Matsch.' } } },
    })
    ids.push(id)
  }
  await change('/admin/groups/boot', { availability_text: 'Ships today' })
  await change(`/admin/products/${ids[2]}`, { brand: 'Ashby', attributes: { material: 'rubber' } })
  const read = async () =>
    (
      await store.pool.query(
        `select description, brand, attributes, translations from products where id = any($1) order by array_position($1, id)`,
        [ids],
      )
    ).rows

  await page.goto(`${address}#products?product=${ids[0]}`)
  await page.getByText('Texts, images and attributes').click()
  const form = page.locator('section', { has: page.getByRole('heading', { name: 'Shared by all variants' }) })
  await form.getByText('1 variant has values of its own, which stay:').waitFor()
  await form.getByText('BOOT-L: material, brand').waitFor()
  await assertUsable(page, 'what variants share')
  await form.locator('[name=description]').fill('For snow.')
  await form.getByLabel('Brand').fill('Barlow')
  await form.getByLabel('Value of material').fill('canvas')
  await form.getByRole('button', { name: 'German' }).click()
  await form.locator('[name="description:de"]').fill('')
  await form.getByRole('button', { name: 'Save for all variants' }).click()
  await page.getByText('All variants are saved that had the shared values.').waitFor()
  const followed = { description: 'For snow.', brand: 'Barlow', attributes: { material: 'canvas' }, translations: {} }
  assert.deepEqual(await read(), [followed, followed, { ...followed, brand: 'Ashby', attributes: { material: 'rubber' } }])
  // The form of the product shows its new state.
  await page.waitForFunction(`document.querySelector('.product-form [name=brand]')?.value === 'Barlow'`)

  await form.locator('[name=description]').fill('For rain.')
  await change('/admin/groups/boot', { brand: 'Cooper' })
  await form.getByRole('button', { name: 'Save for all variants' }).click()
  await form.getByText('Nothing was saved: what the variants share was changed meanwhile.').waitFor()
  assert.equal((await read())[0].description, 'For snow.')
  assert.equal(await form.getByLabel('Brand').inputValue(), 'Cooper')
  await form.getByRole('button', { name: 'Save for all variants' }).click()
  await page.getByText('All variants are saved that had the shared values.').first().waitFor()
  await form.getByRole('button', { name: 'Discard' }).waitFor({ state: 'detached' })
  assert.deepEqual(
    (await read()).map(({ description, brand }) => [description, brand]),
    [
      ['For rain.', 'Cooper'],
      ['For rain.', 'Cooper'],
      ['For rain.', 'Ashby'],
    ],
  )
  assert.deepEqual(withoutRefusals(complaints), [])
})
