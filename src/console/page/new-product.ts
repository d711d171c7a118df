import { call, type Schemas } from './api.ts'
import { create } from './dom.ts'
import { field, sendForm } from './form.ts'
import { readAttributes } from './product-attributes.ts'
import { productFields, readPrice } from './product-fields.ts'
import type { ScreenContext } from './screen.ts'

/** The form for a product that does not exist yet. Its SKU is unique, so sending it twice makes one product. */
export function showNewProduct(root: HTMLElement, { signal }: ScreenContext): void {
  const fields = productFields({ sku: '', name: '', category: '', price: '', currency: 'EUR', description: '', attributes: '' })
  const stock = create('input', { name: 'stock', type: 'number', min: '0', step: '1', autocomplete: 'off' })
  const form = sendForm(
    {
      submit: 'Create product',
      signal,
      onSubmit: async () => {
        const texts = fields.read()
        const { sku, name, category, description } = texts
        const attributes = readAttributes(texts.attributes)
        const body = {
          ...{ sku, name, category, description, attributes },
          price: readPrice(texts),
          ...(stock.value === '' ? {} : { stock: Number(stock.value) }),
        }
        const { id } = await call<Schemas['Product']>('POST', '/admin/products', { body })
        location.hash = `products?product=${id}`
      },
    },
    ...fields.elements,
    field('Stock', stock, 'Empty: not tracked, it never sells out.'),
  )
  root.append(
    create('a', { href: '#products' }, '← All products'),
    create('h2', {}, 'Products: new'),
    create('section', { class: 'card' }, form),
  )
  // Text of 300 characters is not lost by a click beside it, and the first field is ready.
  form.querySelector('input')?.focus()
}
