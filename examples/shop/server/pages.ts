import { AsyncLocalStorage } from 'node:async_hooks'
import { html } from 'lit-html'
import { createStorefront, isProblem, ProblemError } from '../store.ts'
import { addressOf, createView, isLanguage, LANGUAGES, type Language, type Text, type View } from '../view.ts'
import { layout, type Page, type Shop } from './layout.ts'
import { listPage } from './list-page.ts'
import { createMenu, NO_MENU } from './menu.ts'
import { productPage } from './product-page.ts'
import { createPathList, robots, sitemap } from './search-engines.ts'

export interface Answer {
  status: number
  headers: Record<string, string>
  body: string
}

/**
 * Browsers ask each time. A cache may keep a page for a minute, and longer while it revalidates the page or gets no
 * answer.
 */
const CACHED = {
  'cache-control': 'public, max-age=0, s-maxage=60',
  'cdn-cache-control': 'max-age=60, stale-while-revalidate=600, stale-if-error=86400',
}
const NOT_KEPT = { 'cache-control': 'no-store', 'cdn-cache-control': 'no-store' }
const UNAVAILABLE = { ...NOT_KEPT, 'retry-after': '5' }
const STORE_TIMEOUT_MS = 10_000
const NO_PRODUCT: Text = 'There is no such product, or it is no longer sold.'
/** The pages that the browser's script fills. They contain no customer's data, so caches may keep them. */
const FILLED: Readonly<Record<string, Text>> = {
  '/basket': 'Basket',
  '/checkout': 'Place your order',
  '/orders': 'Your orders',
  '/order': 'Your order',
}

/** Handles every address of the shop except its files. */
export function createPages(shop: Shop, currencies: readonly string[]) {
  const visitors = new AsyncLocalStorage<string | null>()
  const fetchForVisitor = (request: Request) => {
    const visitor = visitors.getStore() ?? null
    if (visitor !== null) request.headers.set('x-forwarded-for', visitor)
    return fetchInTime(request)
  }
  const store = createStorefront({ baseUrl: shop.api, maxAttempts: 2, maxDelayMs: 1_000, fetch: fetchForVisitor })
  const readMenu = createMenu(store, currencies)
  const readPaths = createPathList(createStorefront({ baseUrl: shop.api, maxAttempts: 8, maxDelayMs: 60_000, fetch: fetchInTime }))
  const policy = [
    ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' http: https: data:"],
    ...[`connect-src 'self' ${new URL(shop.publicApi).origin}`, "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'"],
  ].join('; ')

  /** `visitor` is the visitor's address for `X-Forwarded-For`, because the store limits requests by network. */
  return (address: string, acceptLanguage: string, visitor: string | null) => visitors.run(visitor, () => answer(address, acceptLanguage))

  async function answer(address: string, acceptLanguage: string): Promise<Answer> {
    const url = URL.parse(address, shop.origin) ?? new URL('/malformed', shop.origin)
    const asked = url.searchParams.get('lang')
    const view = createView(isLanguage(asked) ? asked : preferred(acceptLanguage), url.searchParams)
    try {
      return (await plainText(url)) ?? (await page(url, view))
    } catch (error) {
      if (error instanceof ProblemError && error.status === 400 && url.search !== '') return redirect(302, beginningOf(url))
      const main = html`<h1>${view.t('The store cannot be reached.')}</h1><p>${view.t('Try again in a moment.')}</p>`
      const answer = await show(url, view, { status: 503, title: shop.name, main })
      return { ...answer, headers: { ...answer.headers, ...UNAVAILABLE } }
    }
  }

  async function plainText({ pathname }: URL): Promise<Answer | null> {
    if (pathname === '/robots.txt') return { status: 200, headers: headersOf('text/plain; charset=utf-8'), body: robots(shop.origin) }
    const [, part] = /^\/sitemap(?:-([1-9]\d{0,4}))?\.xml$/.exec(pathname) ?? [null, null]
    if (part === null) return null
    const paths = readPaths()
    if (paths === null) {
      const headers = { ...headersOf('text/plain; charset=utf-8'), ...UNAVAILABLE, 'retry-after': '60' }
      return { status: 503, headers, body: 'The addresses of the shop are not read yet. Try again in a minute.\n' }
    }
    const body = sitemap(paths, shop.origin, part === undefined ? null : Number(part))
    return body === null ? null : { status: 200, headers: headersOf('application/xml; charset=utf-8'), body }
  }

  async function page(url: URL, view: View): Promise<Answer> {
    const { pathname } = url
    const [, kind, encoded = ''] = /^\/(products|categories)\/([^/]+)$/.exec(pathname) ?? []
    const slug = decoded(encoded)
    const filled = Object.hasOwn(FILLED, pathname) ? FILLED[pathname] : undefined
    if (filled !== undefined) return show(url, view, filledPage(view, pathname.slice(1), filled))
    if (kind === 'products') return slug === null ? notFound(url, view, NO_PRODUCT) : showProduct(url, view, slug)
    const isList = pathname === '/' || kind === 'categories'
    const category = kind === 'categories' && slug !== null ? await findCategory(slug) : null
    if (!isList || (kind === 'categories' && category === null)) return notFound(url, view, 'There is nothing at this address.')
    return show(url, view, await listPage(store, view, await readMenu(), { category, url, shopName: shop.name }))
  }

  async function findCategory(slug: string) {
    const find = (menu: Awaited<ReturnType<typeof readMenu>>) => menu.categories.find((category) => category.slug === slug)
    return find(await readMenu()) ?? find(await readMenu({ mustBeMs: 5_000 })) ?? null
  }

  async function showProduct(url: URL, view: View, slug: string): Promise<Answer> {
    try {
      const product = await readProduct(view, slug)
      // The slug is outdated. The redirect tells search engines and bookmarks the current one.
      if (product.slug !== slug) return redirect(301, view.href(addressOf(product)))
      return await show(url, view, productPage(view, shop.origin, product))
    } catch (error) {
      if (!(error instanceof ProblemError) || ![400, 404].includes(error.status)) throw error
      return notFound(url, view, NO_PRODUCT)
    }
  }

  async function readProduct({ lang, currency }: View, slug: string) {
    try {
      return await store.productBySlug(slug, { lang, include: 'variants', ...(currency === null ? {} : { currency }) })
    } catch (error) {
      if (!isProblem(error, 'currency_not_available')) throw error
      return store.productBySlug(slug, { lang, include: 'variants' })
    }
  }

  function notFound(url: URL, view: View, text: Text): Promise<Answer> {
    const main = html`<h1>${view.t('Not found')}</h1><p>${view.t(text)}</p><p><a href=${view.href('/')}>${view.t('All products')}</a></p>`
    return show(url, view, { status: 404, title: shop.name, main })
  }

  async function show(url: URL, view: View, shown: Page): Promise<Answer> {
    const menu = await readMenu().catch(() => null)
    const headers: Record<string, string> = {
      ...headersOf('text/html; charset=utf-8'),
      ...((shown.isPartial || menu === null) && NOT_KEPT),
      'content-security-policy': policy,
      'referrer-policy': 'no-referrer',
    }
    if (!isLanguage(url.searchParams.get('lang'))) headers.vary = 'accept-language'
    return { status: shown.status, headers, body: layout(shop, view, menu ?? NO_MENU, shown, url) }
  }
}

const fetchInTime = (request: Request) => fetch(request, { signal: AbortSignal.timeout(STORE_TIMEOUT_MS) })

function filledPage({ t }: View, script: string, title: Text): Page {
  return { status: 200, title: t(title), script, main: html`<h1>${t(title)}</h1><div id="app"></div>` }
}

function redirect(status: number, location: string): Answer {
  return { status, headers: { location, ...CACHED }, body: '' }
}

function headersOf(type: string): Record<string, string> {
  return { 'content-type': type, ...CACHED, 'x-content-type-options': 'nosniff' }
}

/**
 * The address of the list without the refused part, for an address that names no list, such as one with an old cursor.
 */
function beginningOf({ pathname, searchParams }: URL): string {
  const query = new URLSearchParams(searchParams)
  query.delete('cursor')
  return query.size === 0 || !searchParams.has('cursor') ? pathname : `${pathname}?${query}`
}

/** The decoded text of a part of an address, or null when it is not valid. */
function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text)
  } catch (error) {
    if (error instanceof URIError) return null
    throw error
  }
}

/** The first language of `Accept-Language` that the shop has. Browsers send their languages by preference. */
function preferred(header: string): Language {
  const tags = header.split(',').map((entry) => entry.trim().slice(0, 2).toLowerCase())
  return (tags.find((tag) => Object.hasOwn(LANGUAGES, tag)) ?? 'en') as Language
}
