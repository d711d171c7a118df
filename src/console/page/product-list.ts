import { call, Refusal, type Schemas, withQuery } from './api.ts'
import { amountText, badge, create } from './dom.ts'
import { choice } from './form.ts'
import { keyedTable } from './keyed-table.ts'
import { poll } from './poll.ts'
import type { ScreenContext } from './screen.ts'

type Product = Schemas['Product']

const NAMES = ['q', 'category', 'in_stock'] as const
const POLL_SECONDS = 10
/** At most 100, so that one request has the stock of a page. */
const PAGE_SIZE = 50
/** Selects the products' own texts, which operators know, instead of a translation into the browser's language. */
const OWN_TEXTS = 'und'

/** Products that are sold, with their stock. The first page and all stock keep themselves up to date. */
export function showProductList(root: HTMLElement, { parameters, signal, may, report, tell }: ScreenContext): void {
  let filters = new URLSearchParams(NAMES.flatMap((name) => (parameters.get(name) ? [[name, parameters.get(name) ?? '']] : [])))
  let loading = new AbortController()
  let pages: (readonly Product[])[] = []
  let cursor: string | null = null
  const stock = new Map<string, number | null>()

  const count = create('p', { class: 'muted', attributes: { role: 'status' } })
  const hasStock = may('stock:read')
  const columns = ['Name', 'SKU', 'Category', { number: 'Price' }, ...(hasStock ? [{ number: 'Stock' }] : [])]
  const rows = keyedTable<{ product: Product; available: number | null | undefined }>('Products', columns, {
    keyOf: ({ product }) => product.id,
    cellsOf: ({ product, available }) => [
      create('a', { href: `#products?${new URLSearchParams({ ...Object.fromEntries(filters), product: product.id })}` }, product.name),
      product.sku,
      product.category,
      amountText(product.price),
      ...(hasStock ? [stockText(available)] : []),
    ],
  })
  const more = create('button', { type: 'button' }, 'More products')
  root.append(
    create('h2', {}, 'Products'),
    ...(may('products:write') ? [changeLinks()] : []),
    searchForm(filters, (next) => {
      filters = next
      history.pushState(null, '', next.size === 0 ? '#products' : `#products?${next}`)
      tell('')
      start()
    }),
    rows.element,
    create('div', { class: 'actions' }, more, count),
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

  function fail(error: Error | null): void {
    report(error)
    // Filters that are refused are refused again.
    if (error instanceof Refusal && error.problem.status === 400) loading.abort()
  }

  function start(): void {
    loading.abort()
    loading = new AbortController()
    const stopped = AbortSignal.any([signal, loading.signal])
    pages = []
    cursor = null
    let stockPolling = new AbortController()
    poll<Schemas['ProductPage']>(path(), {
      seconds: POLL_SECONDS,
      signal: stopped,
      onChange: (page) => {
        if (pages.length <= 1) cursor = page.next_cursor
        const isSame = idsOf(pages[0] ?? []) === idsOf(page.data)
        pages = [page.data, ...pages.slice(1)]
        show()
        if (isSame) return
        stockPolling.abort()
        stockPolling = new AbortController()
        watchStock(page.data, AbortSignal.any([stopped, stockPolling.signal]))
      },
      onError: fail,
    })
  }

  /** One request for the stock of a page. */
  function watchStock(products: readonly Product[], stopped: AbortSignal): void {
    if (products.length === 0 || !hasStock) return
    poll<Schemas['StockList']>(withQuery('/admin/stock', { ids: idsOf(products) }), {
      seconds: POLL_SECONDS,
      signal: stopped,
      onChange: ({ data }) => {
        for (const { product_id, available } of data) stock.set(product_id, available)
        show()
      },
      onError: fail,
    })
  }

  function path(after?: string): string {
    return withQuery('/products', { ...Object.fromEntries(filters), lang: OWN_TEXTS, limit: PAGE_SIZE, cursor: after })
  }

  more.addEventListener('click', async () => {
    const { signal: stopped } = loading
    if (cursor === null || more.disabled) return
    more.disabled = true
    try {
      const page = await call<Schemas['ProductPage']>('GET', path(cursor), { signal: stopped })
      if (stopped.aborted) return
      pages.push(page.data)
      cursor = page.next_cursor
      show()
      watchStock(page.data, AbortSignal.any([signal, stopped]))
    } catch (error) {
      if (!stopped.aborted) report(error)
    } finally {
      more.disabled = false
    }
  })
  start()
}

function changeLinks(): HTMLElement {
  const [add, addMany, categories] = [
    create('a', { href: '#products?new=1' }, 'New product'),
    create('a', { href: '#products?import=1' }, 'Import a file'),
    create('a', { href: '#products?categories=1' }, 'Categories'),
  ]
  return create('p', { class: 'actions' }, add, addMany, categories)
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

function searchForm(filters: URLSearchParams, onChange: (filters: URLSearchParams) => void): HTMLElement {
  const text = (name: string) =>
    create('input', { name, value: filters.get(name) ?? '', autocomplete: 'off', maxLength: name === 'q' ? 200 : 100 })
  const options = [
    ['', 'all'],
    ['true', 'in stock'],
    ['false', 'sold out'],
  ] as const
  const inStock = choice({ name: 'in_stock' }, options, filters.get('in_stock') ?? '')
  const form = create(
    'form',
    { class: 'filters', attributes: { role: 'search', 'aria-label': 'Products' } },
    create('label', {}, 'Words or SKU ', Object.assign(text('q'), { type: 'search' })),
    create('label', {}, 'Category ', text('category')),
    create('label', {}, 'Stock ', inStock),
    create('button', { type: 'submit', class: 'primary' }, 'Search'),
  )
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    const data = new FormData(form)
    const given = NAMES.map((name) => [name, String(data.get(name) ?? '').trim()]).filter(([, value]) => value !== '')
    onChange(new URLSearchParams(given))
  })
  return form
}
