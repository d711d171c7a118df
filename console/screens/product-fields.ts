import { MAX_LENGTHS } from '../../src/catalogue/product-rules.ts'
import { amountText } from '../kit/amount.ts'
import type { Schemas } from '../kit/api.ts'
import { choice, field } from '../kit/form.ts'
import { type Content, card, html, nothing } from '../kit/html.ts'
import { t } from '../kit/language.ts'
import type { ScreenContext } from '../kit/screen.ts'
import { timeText, timeZone, toInstant, toLocalTime } from '../kit/times.ts'
import { productAttributes } from './product-attributes.ts'
import { productCategories } from './product-categories.ts'
import { productImages } from './product-images.ts'
import { productPricing } from './product-pricing.ts'
import { ownTexts, productTexts } from './product-texts.ts'

export type Product = Schemas['EditedProduct']
export type ProductChange = Schemas['ProductChange']

const STATUSES = [
  ['active', t`In the shop`],
  ['draft', t`Draft: not in the shop`],
] as const

/** The controls of a product. `stored` returns the values without the operator's changes. */
export function productFields(
  stored: () => Product,
  { isNew, onChange, ...context }: { isNew: boolean; onChange: () => void } & Pick<ScreenContext, 'report' | 'signal'>,
) {
  const texts = productTexts(stored, onChange)
  const images = productImages(() => stored().images, onChange)
  const attributes = productAttributes(() => stored().attributes, onChange)
  const pricing = productPricing(stored, onChange)
  const categories = productCategories(() => stored().categories, onChange, context)
  const parts = [texts, images, attributes, pricing, categories]

  const input = (name: 'sku' | 'brand' | 'slug', text: string, isRequired = false) =>
    html`<input name=${name} maxlength=${MAX_LENGTHS[name]} autocomplete="off" ?required=${isRequired} .defaultValue=${text}>`
  const time = (name: string, instant: string | null) =>
    html`<input type="datetime-local" name=${name} .defaultValue=${toLocalTime(instant ?? '')}>`
  const publication = ({ status, published_at, unpublished_at }: Product) => html`
    ${field(t`Status`, choice({ name: 'status' }, STATUSES, status))}
    ${field(t`In the shop from`, time('published_at', published_at), t`Empty: at once.`)}
    ${field(t`In the shop until`, time('unpublished_at', unpublished_at), t`Empty: without an end. Times are those of ${timeZone()}.`)}`
  /** `more` has further cards, for below the texts and for the side. */
  const view = (more: { main?: Content; side?: Content } = {}): Content => {
    const { sku, brand, slug } = stored()
    return html`<div class="columns">
      <div class="column">
        ${card(t`Texts`, texts.view())}
        ${card(t`Images`, images.view())}
        ${more.main ?? nothing}
        ${card(t`Attributes`, html`<p class="muted">The shop's own facts about the product, by which lists can be filtered.</p>${attributes.view()}`)}
      </div>
      <div class="column">
        ${card(t`Prices`, pricing.view(isNew))}
        ${card(
          t`Organisation`,
          html`${field(t`SKU`, input('sku', sku, true))}
          <div class="field"><span>Categories</span>${categories.view()}</div>
          ${field(t`Brand`, input('brand', brand ?? ''))}
          ${field(t`Slug`, input('slug', slug), t`The end of the address of its page. Empty: the store makes one. Former addresses still lead here.`)}`,
        )}
        ${card(t`In the shop`, publication(stored()))}
        ${more.side ?? nothing}
      </div>
    </div>`
  }
  return {
    view,
    /** The changed values in the form that the API takes. Throws for invalid values. */
    read(data: FormData, changes: readonly string[]): ProductChange {
      const changed = new Set(changes)
      const text = (name: string) => String(data.get(name) ?? '').trim()
      const instant = (name: string) => (text(name) === '' ? null : toInstant(text(name)))
      return {
        ...(changed.has('sku') ? { sku: text('sku') } : {}),
        ...(changed.has('brand') ? { brand: text('brand') || null } : {}),
        ...(changed.has('slug') && text('slug') !== '' ? { slug: text('slug') } : {}),
        ...(changed.has('status') ? { status: text('status') as Product['status'] } : {}),
        ...(changed.has('published_at') ? { published_at: instant('published_at') } : {}),
        ...(changed.has('unpublished_at') ? { unpublished_at: instant('unpublished_at') } : {}),
        ...texts.read(data, changed),
        ...images.read(),
        ...attributes.read(),
        ...pricing.read(data, changed, isNew),
        ...categories.read(),
      }
    },
    discard: () => parts.forEach((part) => void part.discard()),
  }
}

/** A product whose categories may have the form that a change uses. */
export type DescribedProduct = Omit<Product, 'categories'> & { categories: readonly (Product['categories'][number] | string | string[])[] }

/** The editable values as texts, by the words for them, to compare two states. */
export function describeProduct(product: DescribedProduct): Record<string, string> {
  const { price, compare_at_price: before, prices, sale_prices: sales, translations, published_at: from, unpublished_at: until } = product
  const amount = (value: number, currency: string) => amountText({ amount: value, currency })
  const time = (instant: string | null | undefined) => (instant ? timeText(new Date(instant)) : '')
  const { name, description, availability_text, seo_title, seo_description } = ownTexts(product)
  return {
    ...{ SKU: product.sku, name, price: amount(price.amount, price.currency), currency: price.currency },
    'reduced from': before === null ? '' : amount(before.amount, before.currency),
    ...{ description, brand: product.brand ?? '', availability: availability_text, slug: product.slug },
    ...{ 'SEO title': seo_title, 'SEO text': seo_description, status: product.status },
    categories: product.categories.map(categoryText).join(', '),
    images: product.images.map(({ url, alt, width, height }) => [url, alt, width, height].filter(Boolean).join(' ')).join(', '),
    attributes: Object.entries(product.attributes ?? {})
      .map(([key, value]) => `${key}: ${value}`)
      .join(', '),
    'other prices': prices.map((one) => `${one.currency} ${amount(one.amount, one.currency)}`).join(', '),
    sales: sales.map((one) => `${one.currency} ${amount(one.amount, one.currency)} ${time(one.from)} – ${time(one.until)}`).join(', '),
    translations: Object.entries(translations)
      .map(([language, texts]) => `${language}: ${Object.values(texts).join(', ')}`)
      .join('; '),
    ...{ 'in the shop from': time(from), 'in the shop until': time(until) },
    ...{ group: product.group ?? '', options: Object.values(product.options).join(', ') },
  }
}

function categoryText(category: DescribedProduct['categories'][number]): string {
  if (typeof category === 'string') return category
  return (Array.isArray(category) ? category : category.path.map(({ name }) => name)).join(' › ')
}
