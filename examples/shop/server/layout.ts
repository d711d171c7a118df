import { html, nothing, type TemplateResult } from 'lit-html'
import { LANGUAGES, type View } from '../view.ts'
import type { Bundle } from './bundle.ts'
import type { Menu } from './menu.ts'
import { JsonText, toText } from './to-text.ts'

/** What distinguishes one page from the others. */
export interface Page {
  status: number
  title: string
  description?: string
  /** The path without a query under which search engines list the page. They should not list it when this is absent. */
  canonical?: string
  image?: string | undefined
  /** Type of the page in Open Graph, with its properties. */
  type?: string
  properties?: Readonly<Record<string, string>>
  data?: object
  /** The name by which the browser's script recognizes the page. */
  script?: string
  main: TemplateResult
  /** A part is missing because the store refused it, so no cache keeps the page. */
  isPartial?: boolean
}

export interface Shop {
  name: string
  /** The shop's address as visitors see it. */
  origin: string
  /** The store's address for this server, and its address for browsers. */
  api: string
  publicApi: string
  bundle: Bundle
}

const MOST_CATEGORIES = 12

/** The whole document. The links to other languages and currencies keep the request's path and query. */
export function layout(shop: Shop, view: View, menu: Menu, page: Page, { pathname, searchParams }: URL): string {
  const { t, href } = view
  const title = page.title === shop.name ? shop.name : page.title
  const here = (changed: Readonly<Record<string, string | null>>) => {
    const query = new URLSearchParams(searchParams)
    query.delete('cursor')
    for (const [name, value] of Object.entries(changed)) value === null ? query.delete(name) : query.set(name, value)
    return query.size === 0 ? pathname : `${pathname}?${query}`
  }
  return toText(html`<!doctype html>
<html lang=${view.lang} data-store=${shop.publicApi}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
${head(shop, view, page)}
<link rel="icon" href="data:,">
<link rel="stylesheet" href=${shop.bundle.style}>
<script type="module" src=${shop.bundle.script}></script>
</head>
<body data-page=${page.script ?? nothing}>
<header>
<p id="name"><a href=${href('/')}>${shop.name}</a></p>
<search><form action="/">
<input type="search" name="q" maxlength="200" aria-label=${t('Search')} placeholder=${t('Search')} value=${searchParams.get('q') ?? nothing}>
${kept(view)}<button>${t('Search')}</button>
</form></search>
<nav aria-label=${t('Your shop')}>
<button type="button" id="open-account">${t('Sign in')}</button>
<button type="button" id="open-own-account" hidden>${t('Account')}</button>
<a href=${href('/orders')}>${t('Orders')}</a>
<a href=${href('/basket')}>${t('Basket')} (<span id="basket-count">0</span>)</a>
</nav>
</header>
<nav id="categories" aria-label=${t('Categories')}>${menu.categories
    .filter(({ depth }) => depth === 0)
    .slice(0, MOST_CATEGORIES)
    .map((category) => {
      const path = `/categories/${encodeURIComponent(category.slug)}`
      return html`<a href=${href(path)} aria-current=${path === pathname ? 'page' : nothing}>${view.nameOf(category)}</a> `
    })}</nav>
<main>
<p id="message" role="status"></p>
<noscript><p>${t('Ordering needs JavaScript.')}</p></noscript>
${page.main}
</main>
<footer>
<nav aria-label=${t('Language')}>${Object.entries(LANGUAGES).map(
    ([tag, name]) =>
      html`<a href=${here({ lang: tag })} lang=${tag} hreflang=${tag} aria-current=${tag === view.lang ? 'true' : nothing}>${name}</a> `,
  )}</nav>
${menu.currencies.length < 2 ? nothing : currencies(view, menu.currencies, here)}
</footer>
</body>
</html>
`)
}

/** A choice of currencies. The first one is the currency of the products' own prices. */
function currencies(
  { t, currency }: View,
  all: readonly string[],
  here: (changed: Record<string, string | null>) => string,
): TemplateResult {
  return html`<nav aria-label=${t('Currency')}>${all.map((one, index) => {
    const isCurrent = one === (currency ?? all[0])
    return html`<a href=${here({ currency: index === 0 ? null : one })} rel="nofollow" aria-current=${isCurrent ? 'true' : nothing}>${one}</a> `
  })}</nav>`
}

/** Hidden inputs for the choices in the address that a form must keep. */
export function kept({ href }: View): TemplateResult[] {
  const query = new URLSearchParams(href('').slice(1))
  return [...query].map(([name, value]) => html`<input type="hidden" name=${name} value=${value}>`)
}

/** The data for search engines and link previews. */
function head(shop: Shop, view: View, page: Page): TemplateResult {
  const { title, description, canonical, image, type = 'website', properties = {}, data } = page
  if (canonical === undefined) return html`<meta name="robots" content="noindex">`
  const [plain, url] = [shop.origin + canonical, shop.origin + view.href(canonical, { currency: null })]
  const inLanguage = (lang: string) => `${plain}?lang=${lang}`
  const graph = {
    ...{ 'og:site_name': shop.name, 'og:type': type, 'og:title': title, 'og:url': url, 'og:locale': view.lang },
    ...(description === undefined ? {} : { 'og:description': description }),
    ...(image === undefined ? {} : { 'og:image': image }),
    ...properties,
  }
  return html`
${description === undefined ? nothing : html`<meta name="description" content=${description}>`}
<link rel="canonical" href=${url}>
${Object.keys(LANGUAGES).map((lang) => html`<link rel="alternate" hreflang=${lang} href=${inLanguage(lang)}>`)}
<link rel="alternate" hreflang="x-default" href=${plain}>
${Object.entries(graph).map(([property, content]) => html`<meta property=${property} content=${content}>`)}
${data === undefined ? nothing : html`<script type="application/ld+json">${new JsonText(data)}</script>`}`
}
