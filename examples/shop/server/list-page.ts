import { html, nothing, type TemplateResult } from 'lit-html'
import type { Product, ProductQuery, Schemas, Storefront } from '../store.ts'
import { addressOf, type Text, type View } from '../view.ts'
import { kept, type Page } from './layout.ts'
import type { Menu } from './menu.ts'
import { priceOf, trail, words } from './parts.ts'

const PAGE_SIZE = 24
/** The pictures of the first rows load at once, and the others when they become visible. */
const FIRST_ROWS = 6
const MOST_ATTRIBUTES = 3
const SORTS: Readonly<Record<string, Text>> = {
  '': 'Best match, then newest',
  best_selling: 'Best sellers',
  price: 'Lowest price',
  '-price': 'Highest price',
  name: 'Name',
}

/** A list of products: all products, a category, or the results of a search. The address has all choices. */
export async function listPage(
  store: Storefront,
  view: View,
  menu: Menu,
  { category, url, shopName }: { category: Schemas['Category'] | null; url: URL; shopName: string },
): Promise<Page> {
  const { t } = view
  const query = queryOf(url.searchParams, view, category)
  const [{ data, has_more, next_cursor }, facets] = await Promise.all([
    store.productPage(query),
    // The other brands and attributes stay available when one is chosen. An overloaded store refuses these counts
    // first.
    store
      .facets({ lang: query.lang, currency: query.currency, category: query.category, q: query.q, include: 'attributes' })
      .catch(() => null),
  ])
  const { q } = query
  const title = q !== undefined ? t('Results for “{}”', q) : category === null ? t('All products') : view.nameOf(category)
  const isPlain = [...url.searchParams.keys()].every((name) => name === 'lang')
  return {
    status: 200,
    title: category === null && q === undefined ? shopName : title,
    ...(isPlain && { canonical: url.pathname, description: t('{} at {}', title, shopName) }),
    image: data[0]?.image_url ?? undefined,
    script: 'list',
    isPartial: facets === null,
    main: html`
${category === null ? nothing : breadcrumbs(view, menu, category)}
<h1>${title}</h1>
${category === null ? nothing : children(view, menu, category)}
${facets === null ? nothing : filters(view, facets, url, usualSort(category, q) === undefined ? 'Best match, then newest' : 'Recommended')}
<p id="list-message" role="status"></p>
<div id="results">
${data.length === 0 ? html`<p>${t('Nothing matches.')}</p>` : html`<ul id="products" aria-label=${t('Products')}>${data.map((product, index) => tile(view, product, index))}</ul>`}
<p id="more">${has_more && next_cursor !== null ? moreLink(view, url, next_cursor) : nothing}</p>
</div>`,
  }
}

/** The query in the address, without unknown values. */
function queryOf(address: URLSearchParams, { lang, currency }: View, category: Schemas['Category'] | null): ProductQuery {
  const [q, brand, cursor, sort = ''] = ['q', 'brand', 'cursor', 'sort'].map((name) => address.get(name) || undefined)
  return {
    ...{ lang, q, brand, cursor, collapse: 'group', limit: PAGE_SIZE },
    currency: currency ?? undefined,
    category: category?.slug,
    sort: sort !== '' && Object.hasOwn(SORTS, sort) ? (sort as ProductQuery['sort']) : usualSort(category, q),
    attr: address.getAll('attr').filter((condition) => condition !== ''),
    in_stock: address.get('in_stock') === 'true' || undefined,
  }
}

/** The default order of a category begins with the products that the shop has placed in it. */
function usualSort(category: Schemas['Category'] | null, q: string | undefined): ProductQuery['sort'] {
  return category === null || q !== undefined ? undefined : 'position'
}

function tile(view: View, product: Product, index: number): TemplateResult {
  const { name, image_url, variants } = product
  const [range] = variants !== undefined && variants.prices.length === 1 ? variants.prices : []
  const isRange = range !== undefined && range.max > range.min
  const picture = (url: string) =>
    index < FIRST_ROWS
      ? html`<img src=${url} alt="" width="300" height="300" referrerpolicy="no-referrer" fetchpriority=${index === 0 ? 'high' : nothing}>`
      : html`<img src=${url} alt="" width="300" height="300" referrerpolicy="no-referrer" loading="lazy">`
  return html`<li>
${image_url === null ? html`<span class="no-picture"></span>` : picture(image_url)}
<h2><a href=${view.href(addressOf(product))}>${name}</a></h2>
${variants === undefined || variants.count === 1 ? nothing : html`<small>${view.t('{} variants', variants.count)}</small>`}
<p class="price">${isRange ? html`<strong>${view.t('from {}', view.money({ amount: range.min, currency: range.currency }))}</strong>` : priceOf(view, product)}</p>
</li>`
}

function moreLink({ t }: View, url: URL, cursor: string): TemplateResult {
  const query = new URLSearchParams(url.searchParams)
  query.set('cursor', cursor)
  return html`<a class="button" rel="next" href=${`${url.pathname}?${query}`}>${t('More products')}</a>`
}

/** Links for the path from the top to the category. */
function breadcrumbs(view: View, { categories }: Menu, category: Schemas['Category']): TemplateResult {
  const path = [category]
  for (let parent = parentOf(category); parent !== undefined; parent = parentOf(parent)) path.unshift(parent)
  return trail(view, path)

  function parentOf({ parent_id }: Schemas['Category']) {
    return categories.find(({ id }) => id === parent_id)
  }
}

function children(view: View, { categories }: Menu, { id }: Schemas['Category']): TemplateResult | typeof nothing {
  const below = categories.filter(({ parent_id }) => parent_id === id)
  if (below.length === 0) return nothing
  const link = (one: Schemas['Category']) =>
    html`<a class="button" href=${view.href(`/categories/${encodeURIComponent(one.slug)}`)}>${view.nameOf(one)}</a> `
  return html`<nav class="row" aria-label=${view.t('Subcategories')}>${below.map(link)}</nav>`
}

/** The filters, which work without scripts. With scripts each choice takes effect at once. */
function filters(view: View, { brands, attributes = [] }: Schemas['Facets'], { pathname, searchParams }: URL, usual: Text): TemplateResult {
  const { t } = view
  const chosen = searchParams.getAll('attr')
  const shown = attributes.filter(({ values }) => values.length > 1).slice(0, MOST_ATTRIBUTES)
  return html`<form id="filters" action=${pathname}>
${searchParams.get('q') ? html`<input type="hidden" name="q" value=${searchParams.get('q')}>` : nothing}${kept(view)}
<label>${t('Sort')} <select name="sort">${Object.entries({ ...SORTS, '': usual }).map(([value, text]) => option(value, t(text), searchParams.get('sort') ?? ''))}</select></label>
${
  brands.length < 2
    ? nothing
    : html`<label>${t('Brand')} <select name="brand">${option('', t('All'), '')}${brands.map(({ brand, count }) =>
        option(brand, `${brand} (${count})`, searchParams.get('brand')),
      )}</select></label>`
}
${shown.map(({ name, values }) => {
  const current = chosen.find((condition) => condition.startsWith(`${name}=`)) ?? ''
  return html`<label>${words(name)} <select name="attr">${option('', t('All'), '')}${values.map(({ value, count }) =>
    option(`${name}=${value}`, `${value === 'true' ? t('yes') : value === 'false' ? t('no') : value} (${count})`, current),
  )}</select></label>`
})}
<label class="check"><input type="checkbox" name="in_stock" value="true" ?checked=${searchParams.get('in_stock') === 'true'}> ${t('In stock')}</label>
<button>${t('Show')}</button>
</form>`
}

function option(value: string, text: string, chosen: string | null): TemplateResult {
  return html`<option value=${value} ?selected=${value === chosen}>${text}</option>`
}
