import { call, type Schemas } from './api.ts'
import { create } from './dom.ts'
import { field, sendForm } from './form.ts'
import { NO_TEXTS, productFields, readProduct } from './product-fields.ts'
import type { ScreenContext } from './screen.ts'

/** The form for a product that does not exist yet. Its SKU is unique, so sending it twice makes one product. */
export function showNewProduct(root: HTMLElement, { signal }: ScreenContext): void {
  const fields = productFields({ ...NO_TEXTS, currency: 'EUR' })
  const stock = create('input', { name: 'stock', type: 'number', min: '0', step: '1', autocomplete: 'off' })
  const form = sendForm(
    {
      submit: 'Create product',
      signal,
      onSubmit: async () => {
        const body = { ...readProduct(fields.read()), ...(stock.value === '' ? {} : { stock: Number(stock.value) }) }
        const { id } = await call<Schemas['EditedProduct']>('POST', '/admin/products', { body })
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
