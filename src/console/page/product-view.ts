import { call, isRefusal, pathOf, type Schemas, send, withQuery } from './api.ts'
import { changesFoldOut } from './changes.ts'
import { openFormDialog } from './dialog.ts'
import { amountText, button, create, facts, link, note, picture, replaceChildren, table, timeElement } from './dom.ts'
import type { Names } from './names.ts'
import { moreButton } from './paged-list.ts'
import { productForm, readTagged, type TaggedProduct } from './product-form.ts'
import { formatImages } from './product-images.ts'
import { priceHistory } from './product-prices.ts'
import type { ScreenContext } from './screen.ts'
import { stockForms } from './stock-form.ts'

type Adjustment = Schemas['StockAdjustment']

const RETRY_MS = 2_000

/** One product: its texts and price, its stock with the changes of it, and its end. */
export function showProduct(root: HTMLElement, productId: string, context: ScreenContext): void {
  const { parameters, signal, may, report, tell } = context
  const filters = new URLSearchParams(parameters)
  filters.delete('product')
  const title = create('h2', {}, 'Products')
  const head = create('div', { class: 'actions' })
  const pictures = create('div', { class: 'actions' })
  const content = create('div', { class: 'cards' })
  replaceChildren(
    root,
    link(filters.size === 0 ? '#products' : `#products?${filters}`, '← All products'),
    title,
    head,
    pictures,
    content,
    changesFoldOut({ type: 'product', id: productId }, context),
  )

  async function load(): Promise<void> {
    try {
      let state = await readTagged(
        await send('GET', may('products:write') ? pathOf`/admin/products/${productId}` : pathOf`/products/${productId}`, { signal }),
      )
      const adjustments = adjustmentList(productId, context)
      const prices = priceHistory(productId, context)
      const onState = (next: TaggedProduct) => {
        state = next
        if (may('stock:read')) prices.load()
        const { name, sku, images } = next.product
        title.textContent = `Products: ${name}`
        replaceChildren(pictures, ...images.map(({ url }) => picture(url)))
        replaceChildren(
          head,
          create('span', { class: 'muted' }, sku),
          may('orders:read') && link(ordersAddress, 'Orders with this product'),
          may('products:write') && archive,
        )
      }
      const ordersAddress = `#orders?${new URLSearchParams({ product_id: productId })}`
      const archive = button('Archive…', () => confirmArchive(state, { signal, onOvertaken: onState }))
      onState(state)
      replaceChildren(
        content,
        create('section', { class: 'card' }, may('products:write') ? productForm(state, { signal, tell, onState }) : productFacts(state)),
        may('stock:read') && stockForms(productId, { signal, may, report, tell, onChanged: adjustments.load }),
        may('stock:read') && adjustments.element,
        may('stock:read') && prices.element,
      )
    } catch (error) {
      if (signal.aborted) return
      report(error)
      // The store does not answer: it is asked again until it does.
      if (error instanceof TypeError) setTimeout(() => signal.aborted || load(), RETRY_MS)
    }
  }
  load()
}

/** For an operator who changes no products. */
function productFacts({ product }: TaggedProduct): HTMLElement {
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
  return create(
    'div',
    {},
    create('h3', {}, 'Product'),
    facts(
      ...([
        ['Name', name],
        ['SKU', sku],
        ['Category', category],
        ['Brand', brand ?? '–'],
        ['Price', amountText(price)],
      ] as const),
      ...([
        ['Reduced from', before === null ? '–' : amountText(before)],
        ['Description', description],
      ] as const),
      ...([
        ['Availability', availability_text ?? '–'],
        ['Images', formatImages(images) || '–'],
        ['Slug', slug],
      ] as const),
      ...([
        ['SEO title', seo.title ?? '–'],
        ['SEO text', seo.description ?? '–'],
      ] as const),
    ),
    Object.keys(attributes).length > 0 && create('h3', {}, 'Attributes'),
    facts(...Object.entries(attributes).map(([name, value]) => [name, String(value)] as const)),
  )
}

/** Archives the product as the operator sees it, not one that became something else meanwhile. */
function confirmArchive(
  { product, etag }: TaggedProduct,
  { signal, onOvertaken }: Pick<ScreenContext, 'signal'> & { onOvertaken: (state: TaggedProduct) => void },
): void {
  let ifMatch = etag
  const onSubmit = async () => {
    try {
      await send('DELETE', `/admin/products/${product.id}`, { ifMatch })
      location.hash = 'products'
    } catch (error) {
      if (!isRefusal(error, 'precondition_failed')) throw error
      const now = await readTagged(await send('GET', `/admin/products/${product.id}`))
      ifMatch = now.etag
      onOvertaken(now)
      throw new Error(`Nothing was archived: the product was changed meanwhile. It is ${now.product.name} now. Archive it all the same?`)
    }
  }
  openFormDialog(
    { title: `Archive ${product.name}`, submit: 'Archive', signal, onSubmit },
    create(
      'p',
      {},
      'The product leaves every list and can no longer be ordered. Orders keep it. Importing a file with its SKU puts it back into the shop.',
    ),
  )
}

/** The changes of stock other than sales, newest first. */
function adjustmentList(productId: string, { signal, names, report }: ScreenContext): { element: HTMLElement; load: () => void } {
  const list = create('div')
  const older = moreButton('Older changes', () => add(cursor), report)
  let entries: readonly Adjustment[] = []
  let cursor: string | null = null
  let isLoading = false

  async function add(after: string | null): Promise<void> {
    if (isLoading) return
    isLoading = true
    try {
      const path = withQuery(pathOf`/admin/products/${productId}/stock/adjustments`, { limit: 20, cursor: after })
      const page = await call<Schemas['StockAdjustmentPage']>('GET', path, { signal })
      entries = after === null ? page.data : [...entries, ...page.data]
      cursor = page.next_cursor
      older.hidden = cursor === null
      replaceChildren(list, entries.length === 0 ? note('None yet.') : adjustmentTable(entries, names))
    } catch (error) {
      if (!signal.aborted) report(error)
    } finally {
      isLoading = false
    }
  }
  const element = create('section', { class: 'card wide' }, create('h3', {}, 'Changes of stock, without sales'), list, older)
  return { element, load: () => void add(null) }
}

function adjustmentTable(entries: readonly Adjustment[], names: Names): HTMLElement {
  const text = (number: number | null) => (number === null ? 'not tracked' : number.toLocaleString())
  const rows = entries.map(({ created_at, kind, before, after, delta, reference, reason, actor }) => [
    timeElement(created_at),
    kind,
    text(before),
    text(after),
    delta === null ? '–' : `${delta > 0 ? '+' : ''}${delta.toLocaleString()}`,
    reference ?? '–',
    reason ?? '–',
    names.actorElement(actor),
  ])
  return table(
    'Changes of stock',
    ['When', 'Kind', { number: 'Before' }, { number: 'After' }, { number: 'Difference' }, 'Reference', 'Reason', 'Who'],
    rows,
  )
}
