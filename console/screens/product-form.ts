import { api, isProblem, readTagged } from '../kit/api.ts'
import { createForm } from '../kit/form.ts'
import { type Content, html } from '../kit/html.ts'
import { t, word } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { type DescribedProduct, describeProduct, type Product, type ProductChange, productFields } from './product-fields.ts'

/** A product with the entity tag of this state. */
export interface ProductState {
  product: Product
  etag: string
}

export const readState = async (id: string): Promise<ProductState> => {
  const { data: product, etag } = await readTagged(api.GET('/admin/products/{id}', { params: { path: { id } } }))
  return { product, etag }
}

/** Changes a product if it still has the state of the entity tag. */
export async function changeProduct(id: string, etag: string, body: ProductChange): Promise<ProductState> {
  const params = { path: { id }, header: { 'if-match': etag } }
  const { data: product, etag: next } = await readTagged(api.PATCH('/admin/products/{id}', { params, body }))
  return { product, etag: next }
}

export interface ProductForm {
  view: () => Content
  /** Shows a state that was not saved with this form. */
  follow: (state: ProductState) => Promise<void>
  isChanged: () => boolean
}

/**
 * Edits a product from the state that the operator sees. When another operator was faster, nothing is saved: the form
 * takes the new state, keeps this operator's changes, and shows both values.
 */
export function productForm(current: () => ProductState, onState: (state: ProductState) => void, context: ScreenContext): ProductForm {
  const onChange = () => {
    context.update()
    setTimeout(form.recount)
  }
  const fields = productFields(() => current().product, { isNew: false, onChange, report: context.report, signal: context.signal })

  let isSaving = false
  /** The form accepts no input while it is sent, because the saved values replace all of its values. */
  async function save(data: FormData): Promise<void> {
    const focused = document.activeElement as HTMLElement | null
    isSaving = true
    try {
      await send(data)
    } finally {
      isSaving = false
      context.update()
      setTimeout(() => document.activeElement === document.body && focused?.focus())
    }
  }
  async function send(data: FormData): Promise<void> {
    const kept = form.changes()
    const { product, etag } = current()
    const body = fields.read(data, kept)
    if (Object.keys(body).length === 0) return context.tell(t`Nothing has changed.`)
    try {
      const saved = await changeProduct(product.id, etag, body)
      await form.follow(() => onState(saved), 'all')
      fields.discard()
      context.tell(t`${saved.product.name} is saved.`)
    } catch (error) {
      if (!isProblem(error, 'precondition_failed')) throw error
      const now = await readState(product.id)
      await form.follow(() => onState(now))
      throw new Error(explainConflict(product, now.product, { ...product, ...body } as DescribedProduct))
    }
  }
  const form = createForm(context, { edits: true, onSubmit: save })
  return {
    view: () => html`<div class="product-form" ?inert=${isSaving} @reset=${fields.discard}>${form(fields.view())}</div>`,
    follow: (state) => form.follow(() => onState(state)),
    isChanged: () => form.changes().length > 0,
  }
}

/** The stored values, and those that the operator has entered for them. */
function explainConflict(before: Product, now: Product, mine: DescribedProduct): string {
  const [old, stored, entered] = [before, now, mine].map(describeProduct)
  const news = Object.entries(stored ?? {})
    .filter(([name, text]) => text !== old?.[name])
    .map(([name, text]) => {
      const yours = entered?.[name] ?? ''
      return yours === old?.[name] ? t`${word(name)} is ${shorten(text)}` : t`${word(name)} is ${shorten(text)} (yours: ${shorten(yours)})`
    })
  const what = news.length === 0 ? [] : [t`Now ${news.join(', ')}.`]
  const said = [t`Nothing was saved: the product was changed meanwhile.`, ...what, t`Your input is kept; save again to replace that.`]
  return said.join(' ')
}

function shorten(text: string): string {
  return text.length > 60 ? `“${text.slice(0, 60)}…”` : `“${text}”`
}
