import { byId, element } from './dom.js'
import { addressOf, priceOf } from './product.js'

const PAGE_SIZE = 24
const TYPING_MS = 250

/**
 * The list of products with search, filters and further pages as the end of the list comes into view. `load` of the answer loads the first
 * page, once.
 */
export function createCatalogue(shop, report) {
  const list = byId('products')
  const filters = byId('filters')
  let listing = { cursor: undefined, isLoading: false, hasMore: true, abort: new AbortController() }

  const load = async () => {
    const current = listing
    if (current.isLoading || !current.hasMore) return
    current.isLoading = true
    try {
      const page = await shop.productPage(
        { ...query(filters), collapse: 'group', limit: PAGE_SIZE, cursor: current.cursor },
        { signal: current.abort.signal },
      )
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
  // The first view of the page does not need the categories.
  filters.category.addEventListener('focus', () => fillCategories(shop, filters.category), { once: true })
  // The link of a product's page to one of its categories.
  const chosen = new URLSearchParams(location.search).get('category')
  if (chosen !== null) {
    filters.category.append(element('option', { value: chosen }, chosen))
    filters.category.value = chosen
    fillCategories(shop, filters.category)
  }
  let isLoaded = false
  return {
    load() {
      if (isLoaded) return undefined
      isLoaded = true
      return restart()
    },
  }
}

/** Whether the end of the list is near; false while another page is shown. */
const isNear = (end) => end.checkVisibility() && end.getBoundingClientRect().top < innerHeight + 600

function query(form) {
  const values = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ''))
  return values.in_stock === undefined ? values : { ...values, in_stock: true }
}

async function fillCategories(shop, select) {
  const { data } = await shop.categories().catch(() => ({ data: [] }))
  const chosen = select.value
  const options = data.map(({ slug, name, depth }) => element('option', { value: slug }, `${'\u00a0\u00a0'.repeat(depth)}${name}`))
  select.replaceChildren(select.options[0], ...options)
  select.value = chosen
}

function tile(product) {
  const link = element('a', { href: addressOf(product) }, product.name)
  link.dataset.page = ''
  const image =
    product.image_url === null ? [] : [element('img', { src: product.image_url, alt: '', loading: 'lazy', referrerPolicy: 'no-referrer' })]
  const { variants } = product
  const choice = variants === undefined || variants.count === 1 ? [] : [element('small', {}, `${variants.count} variants`)]
  return element('li', {}, ...image, element('h2', {}, link), ...choice, element('p', { className: 'price' }, ...priceOf(product)))
}
