import { formatMoney } from '@storefront/client'
import { addToBasket } from './basket.js'
import { byId, element } from './dom.js'

const PAGE_SIZE = 24
const TYPING_MS = 250

/** The list of products with search, filters and further pages as the end of the list comes into view. */
export function showCatalogue(shop, report) {
  const list = byId('products')
  const filters = byId('filters')
  let listing = { cursor: undefined, isLoading: false, hasMore: true, abort: new AbortController() }

  const load = async () => {
    const current = listing
    if (current.isLoading || !current.hasMore) return
    current.isLoading = true
    try {
      const page = await shop.productPage({ ...query(filters), limit: PAGE_SIZE, cursor: current.cursor }, { signal: current.abort.signal })
      if (current.cursor === undefined) list.replaceChildren()
      list.append(...page.data.map(tile))
      current.cursor = page.next_cursor ?? undefined
      current.hasMore = page.has_more
      report(list.childElementCount === 0 ? 'Nothing matches.' : '')
    } catch {
      if (current.abort.signal.aborted) return
      report('The products could not be loaded.', load)
    } finally {
      current.isLoading = false
    }
    // The page may be longer than what was loaded.
    if (current === listing && current.hasMore && isNear(byId('end-of-list'))) await load()
  }

  const restart = () => {
    listing.abort.abort()
    listing = { cursor: undefined, isLoading: false, hasMore: true, abort: new AbortController() }
    return load()
  }
  let typing
  filters.addEventListener('input', () => {
    clearTimeout(typing)
    typing = setTimeout(restart, TYPING_MS)
  })
  filters.addEventListener('submit', (event) => event.preventDefault())
  new IntersectionObserver((entries) => entries.some(({ isIntersecting }) => isIntersecting) && listing.cursor !== undefined && load(), {
    rootMargin: '600px',
  }).observe(byId('end-of-list'))
  restart()
  // Not needed for the first sight of the page.
  filters.category.addEventListener('focus', () => fillCategories(shop, filters.category), { once: true })
}

const isNear = (end) => end.getBoundingClientRect().top < innerHeight + 600

function query(form) {
  const values = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ''))
  return values.in_stock === undefined ? values : { ...values, in_stock: true }
}

async function fillCategories(shop, select) {
  const { categories } = await shop.facets().catch(() => ({ categories: [] }))
  select.append(...categories.map(({ category, count }) => element('option', { value: category }, `${category} (${count})`)))
}

function tile(product) {
  const open = element('button', { type: 'button', onclick: () => showProduct(product) }, product.name)
  const image =
    product.image_url === null ? [] : [element('img', { src: product.image_url, alt: '', loading: 'lazy', referrerPolicy: 'no-referrer' })]
  return element('li', {}, ...image, element('h2', {}, open), element('p', { className: 'price' }, formatMoney(product.price)))
}

function showProduct(product) {
  byId('product-name').textContent = product.name
  byId('product-description').textContent = product.description
  byId('product-price').textContent = formatMoney(product.price)
  byId('product-stock').textContent = product.in_stock ? 'In stock' : 'Sold out'
  const add = byId('add-to-basket')
  add.disabled = !product.in_stock
  add.onclick = () => {
    addToBasket(product)
    byId('product').close()
  }
  byId('product').showModal()
}
