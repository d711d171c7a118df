import { call, poll, restartable, type Schemas, withQuery } from './api.ts'
import { showCategories } from './categories.ts'
import { actions, amountText, badge, create, keyedTable, link, picture } from './dom.ts'
import { choice, field, labelled, searchForm, sendForm, textInput } from './form.ts'
import { showImport } from './import.ts'
import { moreButton } from './paged-list.ts'
import { NO_TEXTS, productFields, readProduct } from './product-fields.ts'
import { showProduct } from './product-view.ts'
import type { Screen, ScreenContext } from './screen.ts'

export const products: Screen = {
  title: 'Products',
  scopes: ['products:write', 'stock:read'],
  open(root, context) {
    const productId = context.parameters.get('product')
    if (productId !== null) showProduct(root, productId, context)
    else if (!context.may('products:write')) showProductList(root, context)
    else if (context.parameters.has('categories')) showCategories(root, context)
    else if (context.parameters.has('new')) showNewProduct(root, context)
    else if (context.parameters.has('import')) showImport(root, context)
    else if (context.parameters.has('withheld')) showWithheld(root, context)
    else showProductList(root, context)
  },
}

type Product = Schemas['Product']

const NAMES = ['q', 'category', 'in_stock'] as const
const POLL_SECONDS = 10
/** At most 100, so that one request has the stock of a page. */
const PAGE_SIZE = 50
/** Selects the products' own texts, which operators know, instead of a translation into the browser's language. */
const OWN_TEXTS = 'und'

/** Products that are sold, with their stock. The first page and all stock keep themselves up to date. */
function showProductList(root: HTMLElement, { parameters, signal, may, report, tell }: ScreenContext): void {
  let filters = new URLSearchParams(NAMES.flatMap((name) => (parameters.get(name) ? [[name, parameters.get(name) ?? '']] : [])))
  let loading = signal
  let pages: (readonly Product[])[] = []
  let cursor: string | null = null
  const stock = new Map<string, number | null>()

  const count = create('p', { class: 'muted', attributes: { role: 'status' } })
  const hasStock = may('stock:read')
  const columns = ['Name', 'SKU', 'Category', { number: 'Price' }, ...(hasStock ? [{ number: 'Stock' }] : [])]
  const rows = keyedTable<{ product: Product; available: number | null | undefined }>('Products', columns, {
    keyOf: ({ product }) => product.id,
    cellsOf: ({ product, available }) => [
      create(
        'div',
        { class: 'pictured' },
        product.image_url !== null && picture(product.image_url),
        create('a', { href: `#products?${new URLSearchParams({ ...Object.fromEntries(filters), product: product.id })}` }, product.name),
      ),
      product.sku,
      product.category,
      amountText(product.price),
      ...(hasStock ? [stockText(available)] : []),
    ],
  })
  const more = moreButton('More products', loadMore, (error) => loading.aborted || report(error))
  root.append(
    create('h2', {}, 'Products'),
    ...(may('products:write') ? [changeLinks()] : []),
    filterForm(filters, (next) => {
      filters = next
      history.pushState(null, '', next.size === 0 ? '#products' : `#products?${next}`)
      tell('')
      start()
    }),
    rows.element,
    actions(more, count),
  )

  function show(): void {
    const products = new Map(pages.flat().map((product) => [product.id, product]))
    rows.show([...products.values()].map((product) => ({ product, available: stock.get(product.id) })))
    more.hidden = cursor === null
    count.textContent =
      products.size === 0
        ? 'No product matches.'
        : `${products.size === 1 ? '1 product' : `${products.size} products`}${cursor === null ? '' : ', and more'}`
  }

  const start = restartable(signal, (stopped) => {
    loading = stopped
    pages = []
    cursor = null
    const watchFirst = restartable(stopped, watchStock)
    void poll<Schemas['ProductPage']>(path(), {
      seconds: POLL_SECONDS,
      signal: stopped,
      onChange: (page) => {
        if (pages.length <= 1) cursor = page.next_cursor
        const isSame = idsOf(pages[0] ?? []) === idsOf(page.data)
        pages = [page.data, ...pages.slice(1)]
        show()
        if (!isSame) watchFirst(page.data)
      },
      onError: report,
      endsAt: [400],
    })
  })

  /** One request for the stock of a page. */
  function watchStock(stopped: AbortSignal, products: readonly Product[]): void {
    if (products.length === 0 || !hasStock) return
    void poll<Schemas['StockList']>(withQuery('/admin/stock', { ids: idsOf(products) }), {
      seconds: POLL_SECONDS,
      signal: stopped,
      onChange: ({ data }) => {
        for (const { product_id, available } of data) stock.set(product_id, available)
        show()
      },
      onError: report,
      endsAt: [400],
    })
  }

  function path(after?: string): string {
    return withQuery('/products', { ...Object.fromEntries(filters), lang: OWN_TEXTS, limit: PAGE_SIZE, cursor: after })
  }

  async function loadMore(): Promise<void> {
    const stopped = loading
    if (cursor === null) return
    const page = await call<Schemas['ProductPage']>('GET', path(cursor), { signal: stopped })
    if (stopped.aborted) return
    pages.push(page.data)
    cursor = page.next_cursor
    show()
    watchStock(stopped, page.data)
  }

  start()
}

function changeLinks(): HTMLElement {
  const links = [
    link('#products?new=1', 'New product'),
    link('#products?withheld=1', 'Drafts and planned products'),
    link('#products?import=1', 'Import a file'),
    link('#products?categories=1', 'Categories'),
  ]
  return create('p', { class: 'actions' }, ...links)
}

function idsOf(products: readonly Product[]): string {
  return products.map(({ id }) => id).join(',')
}

/** `undefined`: not known yet. */
function stockText(available: number | null | undefined): HTMLElement | string {
  if (available === undefined) return '…'
  if (available === null) return create('span', { class: 'muted' }, 'not tracked')
  return available === 0 ? badge('sold out', 'bad') : available.toLocaleString()
}

function filterForm(filters: URLSearchParams, onChange: (filters: URLSearchParams) => void): HTMLElement {
  const text = (name: string, maxLength: number) => textInput(name, { value: filters.get(name) ?? '', maxLength })
  const options = [
    ['', 'all'],
    ['true', 'in stock'],
    ['false', 'sold out'],
  ] as const
  const inStock = choice({ name: 'in_stock' }, options, filters.get('in_stock') ?? '')
  return searchForm(
    'Products',
    (entered) => onChange(new URLSearchParams(Object.entries(entered).filter(([, value]) => value !== ''))),
    labelled('Words or SKU', Object.assign(text('q', 200), { type: 'search' })),
    labelled('Category', text('category', 100)),
    labelled('Stock', inStock),
    create('button', { type: 'submit', class: 'primary' }, 'Search'),
  )
}

/** The products that are neither in the shop nor archived. */
function showWithheld(root: HTMLElement, { signal, report }: ScreenContext): void {
  let cursor: string | null = null
  const found: Schemas['WithheldProduct'][] = []
  const rows = keyedTable<Schemas['WithheldProduct']>('Products', ['Name', 'SKU', 'Category', 'Status', 'From', 'Until'], {
    keyOf: ({ id }) => id,
    cellsOf: ({ id, name, sku, category, status, published_at, unpublished_at }) => [
      link(`#products?product=${id}`, name),
      ...[sku, category, status, published_at ?? '–', unpublished_at ?? '–'],
    ],
  })
  const more = moreButton('More products', load, (error) => signal.aborted || report(error))
  root.append(link('#products', '← All products'), create('h2', {}, 'Products: not in the shop'), rows.element, actions(more))

  async function load(): Promise<void> {
    const page: Schemas['WithheldProductPage'] = await call(
      'GET',
      withQuery('/admin/products', { limit: 100, cursor: cursor ?? undefined }),
      {
        signal,
      },
    )
    found.push(...page.data)
    cursor = page.next_cursor
    more.hidden = cursor === null
    rows.show(found)
  }
  load().catch((error: unknown) => signal.aborted || report(error))
}

/** The form for a product that does not exist yet. Its SKU is unique, so sending it twice makes one product. */
function showNewProduct(root: HTMLElement, { signal }: ScreenContext): void {
  const fields = productFields({ ...NO_TEXTS, currency: 'EUR' })
  const stock = textInput('stock', { type: 'number', min: '0', step: '1' })
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
  root.append(link('#products', '← All products'), create('h2', {}, 'Products: new'), create('section', { class: 'card' }, form))
  // Text of 300 characters is not lost by a click beside it, and the first field is ready.
  form.querySelector('input')?.focus()
}
