import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_CHROMIUM } from './chromium.ts'
import { assertUsable, HOSTILE, openConsole, VIEWS } from './console-harness.ts'
import { eventually } from './eventually.ts'

for (const view of VIEWS) {
  test(`an operator adds, changes and removes the attributes of a product at ${view.width} px`, { skip: NO_CHROMIUM }, async (t) => {
    const { store, page, complaints, address } = await openConsole(t, view)
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
}
