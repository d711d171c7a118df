import { addressOf } from '../kit/address.ts'
import { api, isProblem, NoAnswer, read, type Schemas } from '../kit/api.ts'
import { confirmAction } from '../kit/dialog.ts'
import { unsentChanges } from '../kit/form.ts'
import { type Content, card, facts, html, loading, menu, money, nothing, picture, time } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { changes } from './changes.ts'
import { saleBadge } from './parts.ts'
import { priceHistory } from './price-history.ts'
import { type ProductState, productForm, readState } from './product-form.ts'
import { stockCards } from './stock.ts'
import { variantGrid } from './variants.ts'

type Details = Schemas['ProductDetails']

const RETRY_MS = 2_000

/** A product: its texts, prices and stock, and the history of prices and stock. */
export function productView(id: string, context: ScreenContext): () => Content {
  return context.may('products:write') ? editedProduct(id, context) : shownProduct(id, context)
}

/** Asks until the store answers. */
function load<T>(ask: () => Promise<T>, show: (state: T) => void, context: ScreenContext): void {
  const { signal, report } = context
  ask().then(
    (state) => signal.aborted || show(state),
    (error: unknown) => {
      if (signal.aborted) return
      report(error)
      if (error instanceof NoAnswer) setTimeout(() => signal.aborted || load(ask, show, context), RETRY_MS)
    },
  )
}

function editedProduct(id: string, context: ScreenContext): () => Content {
  const { may, tell, act, update, title, signal } = context
  const params = { path: { id } }
  const mayRead = may('stock:read')
  const prices = priceHistory(id, context)
  const changed = changes({ type: 'product', id }, context)
  // Archiving a product makes its stock `not_found`, which is no error here.
  const quiet = { ...context, report: (error: unknown) => isProblem(error, 'not_found') || context.report(error) }
  let state: ProductState | null = null
  let stock: () => Content = () => nothing
  const show = (next: ProductState) => {
    const isArchived = next.product.archived_at !== null
    if (mayRead && !isArchived && (state === null || state.product.archived_at !== null)) stock = stockCards(id, quiet)
    if (mayRead) prices.load()
    state = next
    title(t`Product ${next.product.name}`)
    if (!isArchived) variants.refresh()
    update()
  }
  const form = productForm(() => state as ProductState, show, context)
  const variants = variantGrid(() => state as ProductState, form, context)
  load(() => readState(id), show, context)

  /** Changes the product only in the shown state. */
  const change = async (call: (etag: string) => Promise<unknown>, done: string) => {
    if (state === null) return
    try {
      await call(state.etag)
    } catch (error) {
      if (!isProblem(error, 'precondition_failed')) throw error
      await form.follow(await readState(id))
      throw new Error(t`Nothing was ${done}: the product was changed meanwhile. It is ${state.product.name} now.`)
    }
    await form.follow(await readState(id))
  }
  const restore = async () => {
    await change((etag) => api.POST('/admin/products/{id}/restore', { params: { ...params, header: { 'if-match': etag } } }), t`restored`)
    tell(t`${state?.product.name} is restored.`)
  }
  const archive = async () => {
    const text = [t`What you entered on this page is not saved.`]
    const question = { title: t`Archive without saving?`, text, action: t`Archive`, danger: true }
    if (unsentChanges(document) > 0 && !(await confirmAction(question, signal))) return
    await change((etag) => api.DELETE('/admin/products/{id}', { params: { ...params, header: { 'if-match': etag } } }), t`archived`)
    tell(t`${state?.product.name} is archived.`, [t`Undo`, restore])
  }

  const priceCard = () => (mayRead ? card(t`Prices over time`, prices.view(), { wide: true }) : nothing)
  const head = ({ product }: ProductState) => html`<div class="title">
    <div class="pictured">${picture(product.image_url)}<h2>${product.name}</h2></div>
    <div class="actions">${saleBadge(product)} <span class="muted">${product.sku}</span>
      ${ordersLink(id, context)}
      ${product.archived_at === null ? menu(t`More`, html`<button type="button" class="danger" @click=${act(archive)}>Archive</button>`) : html`<button type="button" class="primary" @click=${act(restore)}>Restore</button>`}
    </div></div>`
  const body = (shown: ProductState) =>
    shown.product.archived_at === null
      ? html`${form.view()}${variants.view()}<div class="cards">${stock()}${priceCard()}</div>`
      : html`<p>Archived ${time(shown.product.archived_at)}: it is in no list and cannot be ordered. Orders keep it.</p><div class="cards">${card(t`Product`, productFacts(shown.product))}${priceCard()}</div>`
  return () => html`<a href="#products">← All products</a>
    ${state === null ? loading() : html`${head(state)}${body(state)}`}
    ${changed()}`
}

/** The view for operators who may not change products. */
function shownProduct(id: string, context: ScreenContext): () => Content {
  const { may, title, update } = context
  let product: Details | null = null
  const stock = may('stock:read') ? stockCards(id, context) : () => nothing
  const prices = priceHistory(id, context)
  const changed = changes({ type: 'product', id }, context)
  load(
    () => read(api.GET('/products/{id}', { params: { path: { id } } })),
    (shown: Details) => {
      product = shown
      if (may('stock:read')) prices.load()
      title(t`Product ${shown.name}`)
      update()
    },
    context,
  )
  const shown = (
    product: Details,
  ) => html`<div class="title"><div class="pictured">${picture(product.image_url)}<h2>${product.name}</h2></div>
    <div class="actions"><span class="muted">${product.sku}</span>
      ${ordersLink(id, context)}</div></div>
    <div class="cards">${card(t`Product`, productFacts(product))}${stock()}
      ${may('stock:read') ? card(t`Prices over time`, prices.view(), { wide: true }) : nothing}</div>`
  return () => html`<a href="#products">← All products</a>${product === null ? loading() : shown(product)}${changed()}`
}

function ordersLink(id: string, { may }: ScreenContext): Content {
  return may('orders:read') ? html`<a href=${addressOf('orders', { product_id: id })}>Orders with this product</a>` : nothing
}

function productFacts(product: Details): Content {
  const {
    name,
    sku,
    slug,
    category,
    brand,
    price,
    compare_at_price: before,
    description,
    images,
    seo,
    availability_text,
    attributes = {},
  } = product
  return html`${facts(
    [t`Name`, name],
    [t`SKU`, sku],
    [t`Category`, category],
    [t`Brand`, brand ?? '–'],
    [t`Price`, money(price)],
    [t`Reduced from`, before === null ? '–' : money(before)],
    [t`Description`, description],
    [t`Availability`, availability_text ?? '–'],
    [t`Images`, images.length === 0 ? '–' : html`<span class="actions">${images.map(({ url }) => picture(url))}</span>`],
    [t`Slug`, slug],
    [t`SEO title`, seo.title ?? '–'],
    [t`SEO text`, seo.description ?? '–'],
  )}${Object.keys(attributes).length === 0 ? nothing : html`<h3>Attributes</h3>`}${facts(...Object.entries(attributes).map(([key, value]) => [key, String(value)] as const))}`
}
