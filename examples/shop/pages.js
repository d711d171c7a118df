import { byId } from './dom.js'
import { showProduct } from './product.js'

const TITLE = document.title

/**
 * Shows what the address names: the list, or a product at `/products/SLUG`. Links between them do not load the page again, so the list and its
 * place stay.
 */
export function startPages(shop, { catalogue, report }) {
  let abort = new AbortController()

  const show = async ({ isFirst = false } = {}) => {
    abort.abort()
    abort = new AbortController()
    const [, slug] = /^\/products\/([^/]+)$/.exec(location.pathname) ?? []
    const isProduct = slug !== undefined
    byId('catalogue').hidden = isProduct
    byId('product').hidden = true
    report('')
    for (const added of document.head.querySelectorAll('[data-of-product]')) added.remove()
    document.title = TITLE
    if (!isProduct) return catalogue.load()
    await showProduct(shop, slug, { signal: abort.signal, report, retry: show })
    // Readers of the screen hear that another page is there; at the first one they begin at its top.
    if (!isFirst && !abort.signal.aborted) byId('product-name').focus()
  }

  document.addEventListener('click', (event) => {
    const link = event.target.closest('a[data-page]')
    // Another tab or window, or a download.
    if (link === null || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    event.preventDefault()
    history.pushState(null, '', link.href)
    show().then(() => byId('product').hidden || scrollTo(0, 0))
  })
  addEventListener('popstate', () => show())
  return show({ isFirst: true })
}
