import { formatMajorUnits, minorDigits, parseMajorUnits } from '#currency'
import { MAX_LENGTHS } from '#product-rules'
import type { components } from '../../../client/src/schema.ts'
import type { Schemas } from './api.ts'
import { create } from './dom.ts'
import { choice, field } from './form.ts'
import { ATTRIBUTES_HINT, formatAttributes, readAttributes } from './product-attributes.ts'
import { formatImages, IMAGES_HINT, readImages } from './product-images.ts'
import { formatTranslations, readTranslations, translationsControl } from './product-translations.ts'

const CATEGORIES_HINT =
  'One category a line, from the top: Men > Shoes. The first line is the main category. Missing categories are created.'

/** A line for each category, with its path of names. */
function formatCategories(categories: Schemas['ProductDetails']['categories']): string {
  return categories.map(({ path }) => path.map(({ name }) => name.replaceAll('>', '\\>')).join(' > ')).join('\n')
}

/** The paths that the lines mean: `>` separates names, and `\\>` is a part of one. */
function readCategories(text: string): string[][] {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return lines.map((line) => line.split(/(?<!\\)>/).map((name) => name.replaceAll('\\>', '>').trim()))
}

const TIME_HINT = 'A time with its zone, such as 2026-11-27T09:00:00Z. Empty: no limit.'

type OfferedPrice = components['schemas']['OfferedPrice']

/** For the operator. */
const PRICES_HINT =
  'One currency a line, other than that of the price: the code, the price with a point, and the higher price before a reduction, if any. For example: USD 14.90 19.90'

/** One price a line. */
function formatPrices(prices: readonly OfferedPrice[] = []): string {
  return prices
    .map(({ currency, amount, compare_at: before }) => {
      const amounts = [amount, ...(before === null ? [] : [before])]
      return [currency, ...amounts.map((each) => formatMajorUnits({ amount: each, currency }))].join(' ')
    })
    .join('\n')
}

/** Throws with the line that is none. */
function readPrices(text: string): OfferedPrice[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return lines.map((line) => {
    const [, currency = '', price = '', before] = /^([A-Z]{3})\s+(\S+)(?:\s+(\S+))?$/.exec(line.trim()) ?? []
    const amount = currency === '' ? null : parseMajorUnits(price, currency)
    const compareAt = before === undefined ? null : parseMajorUnits(before, currency)
    if (amount === null || (before !== undefined && compareAt === null))
      throw new Error(`“${line.trim()}” is no price: write it as USD 14.90.`)
    return { amount, currency, compare_at: compareAt }
  })
}

type SalePrice = components['schemas']['SalePrice']

const SALES_HINT =
  'One sale a line, below the price in its currency: the code, the price with a point, and when it begins and ends, or one of them. For example: EUR 9.90 from 2026-11-27T08:00:00Z until 2026-12-01T08:00:00Z'

/** One sale a line. */
function formatSales(sales: readonly SalePrice[] = []): string {
  return sales
    .map(({ currency, amount, from, until }) =>
      [
        currency,
        formatMajorUnits({ amount, currency }),
        ...(from === null ? [] : ['from', from]),
        ...(until === null ? [] : ['until', until]),
      ].join(' '),
    )
    .join('\n')
}

/** Throws with the line that is none. */
function readSales(text: string): SalePrice[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return lines.map((line) => {
    const [, currency = '', price = '', from = null, until = null] =
      /^([A-Z]{3})\s+(\S+)(?:\s+from\s+(\S+))?(?:\s+until\s+(\S+))?$/.exec(line.trim()) ?? []
    const amount = currency === '' ? null : parseMajorUnits(price, currency)
    if (amount === null) throw new Error(`“${line.trim()}” is no sale: write it as EUR 9.90 until 2026-12-01T08:00:00Z.`)
    return { amount, currency, from, until }
  })
}

/** Translations and further prices only as operators see it who may change products. */
export type Product = Schemas['ProductDetails'] &
  Partial<Pick<Schemas['EditedProduct'], 'translations' | 'prices' | 'sale_prices' | 'status' | 'published_at' | 'unpublished_at'>>

const LABELS = ['sku', 'name', 'brand', 'description', 'slug', 'availability_text'] as const
/** What an operator edits; as texts, prices in major units. */
export const FIELD_NAMES = [
  ...(['sku', 'name', 'categories', 'brand', 'price', 'currency', 'compare_at_price', 'description', 'availability_text'] as const),
  ...(['images', 'slug', 'seo_title', 'seo_description', 'attributes', 'prices', 'translations'] as const),
  ...(['status', 'published_at', 'unpublished_at', 'sale_prices'] as const),
]
type FieldName = (typeof FIELD_NAMES)[number]
export type ProductTexts = Readonly<Record<FieldName, string>>

export const NO_TEXTS = Object.fromEntries(FIELD_NAMES.map((name) => [name, ''])) as ProductTexts

export function textsOf(product: Product): ProductTexts {
  const { price, compare_at_price: before, images, seo, attributes, prices, translations } = product
  return {
    ...(Object.fromEntries(LABELS.map((name) => [name, product[name] ?? ''])) as Record<(typeof LABELS)[number], string>),
    price: formatMajorUnits(price),
    categories: formatCategories(product.categories),
    currency: price.currency,
    compare_at_price: before === null ? '' : formatMajorUnits(before),
    images: formatImages(images),
    seo_title: seo.title ?? '',
    seo_description: seo.description ?? '',
    attributes: formatAttributes(attributes),
    prices: formatPrices(prices),
    translations: formatTranslations(translations),
    status: product.status ?? 'active',
    published_at: product.published_at ?? '',
    unpublished_at: product.unpublished_at ?? '',
    sale_prices: formatSales(product.sale_prices),
  }
}

export interface ProductFields {
  elements: readonly HTMLElement[]
  read(): ProductTexts
  write(texts: Partial<ProductTexts>): void
}

/** The controls of a product. */
export function productFields(texts: ProductTexts): ProductFields {
  const optional = (name: FieldName, maxLength: number) => create('input', { name, maxLength, autocomplete: 'off', value: texts[name] })
  const text = (name: FieldName & keyof typeof MAX_LENGTHS) => optional(name, MAX_LENGTHS[name])
  const required = (control: HTMLInputElement) => Object.assign(control, { required: true })
  const area = (name: FieldName, rows: number) => create('textarea', { name, maxLength: 50_000, rows, value: texts[name] })
  const controls = {
    sku: required(text('sku')),
    name: required(text('name')),
    categories: Object.assign(area('categories', 2), { required: true }),
    brand: text('brand'),
    price: Object.assign(required(optional('price', 21)), { inputMode: 'decimal' }),
    currency: Object.assign(required(optional('currency', 3)), { pattern: '[A-Z]{3}', title: 'Three capital letters, such as EUR' }),
    compare_at_price: Object.assign(optional('compare_at_price', 21), { inputMode: 'decimal' }),
    description: create('textarea', { name: 'description', maxLength: MAX_LENGTHS.description, rows: 5, value: texts.description }),
    availability_text: text('availability_text'),
    images: area('images', 3),
    slug: text('slug'),
    seo_title: optional('seo_title', MAX_LENGTHS['seo.title']),
    seo_description: optional('seo_description', MAX_LENGTHS['seo.description']),
    attributes: area('attributes', 4),
    prices: area('prices', 2),
    translations: translationsControl(texts.translations),
    status: choice({ name: 'status' }, ['active', 'draft'], texts.status || 'active'),
    published_at: optional('published_at', 40),
    unpublished_at: optional('unpublished_at', 40),
    sale_prices: area('sale_prices', 2),
  }
  return {
    elements: [
      field('Name', controls.name),
      field('SKU', controls.sku),
      withHint('Categories', controls.categories, CATEGORIES_HINT),
      field('Brand', controls.brand),
      field('Price', controls.price, 'In major units, with a point: 12.50.'),
      field('Reduced from', controls.compare_at_price, 'More than the price; empty: none.'),
      field('Currency', controls.currency),
      field('Description', controls.description),
      field('Availability', controls.availability_text, 'Such as: Ships in 3 days.'),
      withHint('Images', controls.images, IMAGES_HINT),
      field(
        'Slug',
        controls.slug,
        "The end of the address of the product's page. Empty: the store makes one. Former addresses still lead here.",
      ),
      field('SEO title', controls.seo_title),
      field('SEO text', controls.seo_description),
      withHint('Attributes', controls.attributes, ATTRIBUTES_HINT),
      withHint('Prices in other currencies', controls.prices, PRICES_HINT),
      withHint('Sales', controls.sale_prices, SALES_HINT),
      controls.translations.element,
      field('Status', controls.status, 'A draft is not in the shop.'),
      field('In the shop from', controls.published_at, TIME_HINT),
      field('In the shop until', controls.unpublished_at, TIME_HINT),
    ],
    read: () => Object.fromEntries(FIELD_NAMES.map((name) => [name, controls[name].value])) as unknown as ProductTexts,
    write: (next) => {
      for (const name of FIELD_NAMES) if (next[name] !== undefined) controls[name].value = next[name]
    },
  }
}

/** A long hint stands beside the label: in it, all of this would be the name of the control. */
function withHint(label: string, control: HTMLTextAreaElement, hint: string): HTMLElement {
  const id = `${control.name}-hint`
  control.setAttribute('aria-describedby', id)
  return create('div', {}, field(label, control), create('small', { class: 'muted', id }, hint))
}

/** The product that the texts mean. Throws with the way to write what is none. */
export function readProduct(texts: ProductTexts) {
  const { sku, name, description, slug, currency } = texts
  const orNull = (text: string) => text.trim() || null
  return {
    ...{ sku, name, description, categories: readCategories(texts.categories), ...(slug.trim() === '' ? {} : { slug }) },
    brand: orNull(texts.brand),
    price: readPrice('price', texts.price, currency),
    compare_at_price:
      texts.compare_at_price.trim() === '' ? null : readPrice('price before the reduction', texts.compare_at_price, currency),
    availability_text: orNull(texts.availability_text),
    images: readImages(texts.images),
    seo: { title: orNull(texts.seo_title), description: orNull(texts.seo_description) },
    attributes: readAttributes(texts.attributes),
    prices: readPrices(texts.prices),
    translations: readTranslations(texts.translations),
    status: texts.status === 'draft' ? ('draft' as const) : ('active' as const),
    published_at: orNull(texts.published_at),
    unpublished_at: orNull(texts.unpublished_at),
    sale_prices: readSales(texts.sale_prices),
  }
}

/** Exact, in minor units. */
function readPrice(label: string, text: string, currency: string): Schemas['Money'] {
  const amount = parseMajorUnits(text.trim(), currency)
  if (amount !== null) return { amount, currency }
  const digits = minorDigits(currency)
  const decimals = digits === 0 ? 'no decimals' : `at most ${digits} decimals`
  throw new Error(
    `The ${label} must be a number such as ${formatMajorUnits({ amount: 1_250, currency })}, with a point and ${decimals} for ${currency}.`,
  )
}
