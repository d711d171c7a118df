import { addressOf } from '../kit/address.ts'
import { api, isProblem, poll, read, restartable, type Schemas } from '../kit/api.ts'
import { badge, type Content, html, menu, money, nothing, picture, time } from '../kit/html.ts'
import { numberText, plural, t } from '../kit/language.ts'
import { type Filter, resourceList } from '../kit/resource-list.ts'
import type { Screen, ScreenContext } from '../kit/screen.ts'
import { categories } from './categories.ts'
import { importFile } from './import.ts'
import { newProduct } from './new-product.ts'
import { productAddress, saleBadge, saleState } from './parts.ts'
import { productView } from './product.ts'
import { bulkActions } from './product-bulk.ts'

type Product = Schemas['Product']
type AdminProduct = Schemas['AdminProduct']
export type ListedProduct = Product | AdminProduct

/** `#products` lists products, and `?product=ID` shows one. */
export const products: Screen = {
  title: t`Products`,
  scopes: ['products:write', 'stock:read'],
  open(context) {
    const { parameters, may } = context
    const id = parameters.get('product')
    if (id !== null) return productView(id, context)
    if (may('products:write')) {
      if (parameters.has('categories')) return categories(context)
      if (parameters.has('new')) return newProduct(context)
      if (parameters.has('import')) return importFile(context)
    }
    return productList(context)
  },
}

const SECONDS = 10
/** Selects the products' own texts, which operators know, and not translations into the browser's language. */
const OWN_TEXTS = 'und'
/** The filter value for the overview's products with little stock. */
const LOWEST = 'lowest'

function productList(context: ScreenContext): () => Content {
  const { parameters, may } = context
  const state = parameters.get('state')
  const isSold = state === null
  const stock = stockOfPage(context)
  const canChange = may('products:write')
  const levels = [['true', t`in stock`], ['false', t`sold out`], ...(may('figures:read') ? [[LOWEST, t`the ten with the least`]] : [])] as [
    string,
    string,
  ][]
  const filters: Filter[] = isSold
    ? [
        { name: 'category', label: t`Category` },
        { name: 'in_stock', label: t`Stock`, kind: 'choice', options: levels },
        { name: 'brand', label: t`Brand` },
        { name: 'group', label: t`Variants of` },
      ]
    : [
        { name: 'sku', label: t`SKU` },
        { name: 'group', label: t`Variants of` },
      ]
  const ask = async (query: Record<string, string>, init: { signal: AbortSignal; headers: Record<string, string> }) => {
    const answer = isSold ? await askForSold(query, init) : await api.GET('/admin/products', { ...init, params: { query } })
    if (isSold && answer.data !== undefined) stock.watch(answer.data.data.map(({ id }) => id))
    return answer as { data: { data: ListedProduct[]; next_cursor: string | null }; response: Response }
  }
  const list = resourceList<ListedProduct>(
    {
      title: t`Products`,
      screen: 'products',
      seconds: SECONDS,
      ask,
      keyOf: ({ id }) => id,
      hrefOf: ({ id }) => productAddress(id),
      ...(isSold ? { search: t`Words or SKU` } : {}),
      filters,
      tabs: canChange
        ? [
            { title: t`In the shop`, filters: {} },
            { title: t`Drafts and planned`, filters: { state: 'withheld' } },
            { title: t`Archived`, filters: { state: 'archived' } },
          ]
        : [],
      columns: [
        { title: t`Name`, cell: ({ image_url, name }) => html`<span class="pictured">${picture(image_url)}<span>${name}</span></span>` },
        { title: t`SKU`, cell: ({ sku }) => sku },
        { title: t`Options`, cell: ({ options }) => Object.values(options).join(', ') },
        { title: t`Category`, cell: ({ category }) => category },
        { title: t`Price`, number: true, cell: priceCell },
        ...(isSold && may('stock:read') ? [{ title: t`Stock`, number: true, cell: ({ id }: ListedProduct) => stock.cell(id) }] : []),
        ...(isSold ? [] : [{ title: t`State`, cell: stateCell }]),
      ],
      words: {
        count: (count) => plural(count, t`${count} product`, t`${count} products`),
        none: noneOf(state),
        noMatch: t`No product matches.`,
      },
      actions: () => (canChange ? links() : nothing),
      ...(canChange
        ? { selection: { nameOf: ({ name }: ListedProduct) => name, actions: bulkActions(context, () => list.refresh()) } }
        : {}),
    },
    context,
  )
  return list
}

/** A list of the catalogue, or of the products with the least stock. */
async function askForSold({ in_stock, ...query }: Record<string, string>, init: { signal: AbortSignal; headers: Record<string, string> }) {
  if (in_stock !== LOWEST) {
    const inStock = in_stock === undefined ? {} : { in_stock: in_stock === 'true' }
    return api.GET('/products', { ...init, params: { query: { ...query, ...inStock, lang: OWN_TEXTS } } })
  }
  const { low_stock: lowest } = await read(api.GET('/admin/figures', { signal: init.signal, params: { query: {} } }))
  // The API refuses an empty list of ids.
  if (lowest.length === 0) return { data: { data: [], next_cursor: null }, response: new Response() }
  const ids = lowest.map(({ product_id }) => product_id).join(',')
  return api.GET('/products', { ...init, params: { query: { ...query, lang: OWN_TEXTS, ids } } })
}

function noneOf(state: string | null): string {
  if (state === 'archived') return t`No archived products.`
  if (state === 'withheld') return t`No drafts, and no product waits for its time.`
  return t`No products yet. Make the first one, or import a file.`
}

function links(): Content {
  return html`${menu(
    t`More`,
    html`<a href=${addressOf('products', { import: 1 })}>Import a file</a>`,
    html`<a href=${addressOf('products', { categories: 1 })}>Categories</a>`,
  )}<a class="primary" href=${addressOf('products', { new: 1 })}>New product</a>`
}

function priceCell(product: ListedProduct): Content {
  const before = 'compare_at_price' in product ? product.compare_at_price : null
  return html`${money(product.price)}${before === null ? nothing : html` <s class="muted">${money(before)}</s>`}`
}

function stateCell(product: ListedProduct): Content {
  if (!('state' in product)) return nothing
  const { archived_at, published_at, unpublished_at } = product
  const [state] = saleState(product)
  const since: Readonly<Record<string, Content>> = {
    archived: time(archived_at),
    planned: html`from ${time(published_at)}`,
    ended: time(unpublished_at),
  }
  return html`${saleBadge(product)} <small class="muted">${since[state]}</small>`
}

/** The stock of all products of a page, in one request. */
function stockOfPage({ may, signal, update, report }: ScreenContext) {
  const levels = new Map<string, number | null>()
  let watched = ''
  const onChange = ({ data }: Schemas['StockList']) => {
    for (const { product_id, available } of data) levels.set(product_id, available)
    update()
  }
  const onError = (error: unknown) => isProblem(error, 'invalid_query') || report(error)
  const follow = restartable(signal, (until, ids: string) => {
    if (ids === '') return
    void poll((init) => api.GET('/admin/stock', { ...init, params: { query: { ids } } }), {
      seconds: SECONDS,
      signal: until,
      onChange,
      onError,
    })
  })
  return {
    watch(ids: readonly string[]): void {
      const next = ids.join(',')
      if (next === watched || !may('stock:read')) return
      watched = next
      follow(next)
    },
    cell(id: string): Content {
      const available = levels.get(id)
      if (available === undefined) return '…'
      if (available === null) return html`<span class="muted">not tracked</span>`
      return available === 0 ? badge(t`sold out`, 'bad') : numberText(available)
    },
  }
}
