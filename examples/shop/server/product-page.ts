import { html, nothing, type TemplateResult } from 'lit-html'
import type { ProductDetails } from '../store.ts'
import { formatMajorUnits } from '../store.ts'
import { addressOf, type View } from '../view.ts'
import type { Page } from './layout.ts'
import { priceOf, trail, words } from './parts.ts'
import { productData } from './search-engines.ts'

const MOST_DESCRIPTION = 300

/** The page of a product, with its pictures, its variants and data for search engines. */
export function productPage(view: View, origin: string, product: ProductDetails): Page {
  const { t } = view
  const { name, brand, description, in_stock, availability_text, attributes = {}, options, categories, images, seo, price } = product
  const stock = [in_stock ? t('In stock') : t('Sold out'), availability_text].filter((text) => text !== null).join(' – ')
  const line = { id: product.id, slug: product.slug, name, price, image: product.image_url }
  const facts = Object.entries({ ...options, ...attributes })
  return {
    status: 200,
    title: seo.title ?? name,
    description: seo.description ?? description.slice(0, MOST_DESCRIPTION).toWellFormed(),
    canonical: addressOf(product),
    image: images[0]?.url,
    type: 'product',
    properties: { 'product:price:amount': formatMajorUnits(price), 'product:price:currency': price.currency },
    data: productData(product, origin + addressOf(product)),
    script: 'product',
    main: html`
${trail(view, categories[0]?.path ?? [])}
<article id="product" aria-labelledby="product-name">
${images.length === 0 ? nothing : pictures(view, product)}
<div>
<h1 id="product-name">${name}</h1>
${brand === null ? nothing : html`<p id="brand"><a href=${view.href('/', { brand })}>${brand}</a></p>`}
<p class="price">${priceOf(view, product)}</p>
<p>${stock}</p>
${variantsOf(view, product)}
<div class="row" id="buy" data-line=${JSON.stringify(line)}>
<label class="check">${t('Quantity')} <input type="number" id="quantity" min="1" max="10000" value="1" required disabled></label>
<button type="button" class="primary" id="add-to-basket" data-sold=${in_stock ? 'yes' : 'no'} disabled>${t('Add to basket')}</button>
</div>
<p id="description">${description}</p>
${facts.length === 0 ? nothing : html`<dl>${facts.map(([fact, value]) => html`<dt>${words(fact)}</dt><dd>${valueText(view, value)}</dd>`)}</dl>`}
</div>
</article>`,
  }
}

function valueText({ t }: View, value: string | number | boolean | string[]): string {
  if (typeof value === 'boolean') return value ? t('yes') : t('no')
  return Array.isArray(value) ? value.join(', ') : String(value)
}

/** One large picture, and links to the others. Given sizes keep the page from moving while the pictures load. */
function pictures({ t }: View, { name, images }: ProductDetails): TemplateResult {
  const [first] = images
  if (first === undefined) return html``
  const sizes = ({ width, height }: typeof first) => ({ width: width ?? nothing, height: height ?? nothing })
  const thumbnail = (image: typeof first, index: number) => html`<li><a href=${image.url} data-picture=${JSON.stringify(image)}
aria-current=${index === 0 ? 'true' : nothing}><img src=${image.url} alt=${image.alt || t('Image {}', index + 1)} width="64" height="64"
referrerpolicy="no-referrer"></a></li>`
  return html`<div>
<div id="picture"><img src=${first.url} alt=${first.alt || name} width=${sizes(first).width} height=${sizes(first).height}
referrerpolicy="no-referrer" fetchpriority="high"></div>
${images.length < 2 ? nothing : html`<ul id="pictures" aria-label=${t('Images')}>${images.map(thumbnail)}</ul>`}
</div>`
}

const SIZES = ['XS', 'S', 'M', 'L', 'XL', 'XXL']
const inOrder = (a: string, b: string) =>
  SIZES.includes(a) && SIZES.includes(b) ? SIZES.indexOf(a) - SIZES.indexOf(b) : a.localeCompare(b, 'en', { numeric: true })

/** The values of each option of the group. Each value links to the variant that differs least in the other options. */
function variantsOf(view: View, { variants, options }: ProductDetails): TemplateResult | typeof nothing {
  if (variants === undefined) return nothing
  const likeness = (variant: (typeof variants)[number]) =>
    Object.keys(options).filter((option) => variant.options[option] === options[option]).length
  const link = (option: string, value: string) => {
    const [nearest] = variants.filter((variant) => variant.options[option] === value).sort((a, b) => likeness(b) - likeness(a))
    if (nearest === undefined) return nothing
    const current = value === options[option] ? 'true' : nothing
    const href = view.href(addressOf(nearest))
    return nearest.in_stock
      ? html`<a href=${href} aria-current=${current}>${value}</a> `
      : html`<a href=${href} aria-current=${current} class="sold-out">${value}<span class="hidden">, ${view.t('sold out')}</span></a> `
  }
  const row = (option: string) => {
    const values = new Set(variants.flatMap((variant) => variant.options[option] ?? []))
    return html`<p><span>${words(option)}</span> ${[...values].sort(inOrder).map((value) => link(option, value))}</p>`
  }
  return html`<nav id="variants" aria-label=${view.t('Variants')}>${Object.keys(options).map(row)}</nav>`
}
