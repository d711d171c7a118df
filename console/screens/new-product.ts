import { api, read, type Schemas } from '../kit/api.ts'
import { createForm, field } from '../kit/form.ts'
import { type Content, card, html, loading } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { productAddress } from './parts.ts'
import { type Product, productFields } from './product-fields.ts'

type NewProduct = Schemas['NewProduct']

const EMPTY = {
  ...{ sku: '', name: '', slug: '', description: '', brand: null, availability_text: null, group: null, options: {} },
  ...{ categories: [], images: [], seo: { title: null, description: null }, translations: {}, prices: [], sale_prices: [] },
  ...{ compare_at_price: null, lowest_price_30_days: null, status: 'active', published_at: null, unpublished_at: null },
}

/** `#products?new=1`: creates a product. Its SKU is unique, so sending it twice makes one product. */
export function newProduct(context: ScreenContext): () => Content {
  const { report, signal, update, title } = context
  title(t`New product`)
  let stored: Product | null = null
  // The currency of the newest product is proposed.
  read(api.GET('/products', { params: { query: { limit: 1 } }, signal })).then(({ data }) => {
    stored = { ...EMPTY, price: { amount: 0, currency: data[0]?.price.currency ?? 'EUR' } } as unknown as Product
    update()
  }, report)
  const onChange = () => {
    update()
    setTimeout(form.recount)
  }
  const fields = productFields(() => stored as Product, { isNew: true, onChange, report, signal })
  const create = async (data: FormData, element: HTMLFormElement) => {
    const body = fields.read(data, form.changes())
    if (body.categories === undefined) throw new Error(t`Choose at least one category.`)
    const stock = String(data.get('stock') ?? '').trim()
    const created = await read(
      api.POST('/admin/products', { body: { ...body, ...(stock === '' ? {} : { stock: Number(stock) }) } as NewProduct }),
    )
    // All entered values are saved.
    element.reset()
    await form.follow(update, 'all')
    location.hash = productAddress(created.id)
  }
  const form = createForm(context, { edits: true, submit: t`Create product`, onSubmit: create })
  const side = card(
    t`Stock`,
    field(t`Stock`, html`<input name="stock" type="number" min="0" step="1">`, t`Empty: not tracked, it never sells out.`),
  )
  return () => html`<a href="#products">← All products</a><h2>New product</h2>
    ${stored === null ? loading() : html`<div class="product-form" @reset=${fields.discard}>${form(fields.view({ side }))}</div>`}`
}
