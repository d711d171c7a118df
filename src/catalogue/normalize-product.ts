import { findFaultInAttributes } from '../attributes.ts'
import { AppError, type FieldError } from '../errors.ts'
import type { Money } from '../money.ts'
import type { OfferedPrice, SalePrice } from './offered-prices.ts'
import { toImage } from './product-details.ts'
import type { CategoryReference, NewProduct, ProductInput } from './product-input.ts'
import { findFaultInTranslations, normalizeTranslations } from './translations.ts'

/** A time without an offset is ambiguous, and is refused. */
const HAS_OFFSET = /^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)$/i

/** `input` with trimmed texts, and with '', null, [] or {} for missing properties. Accepts unchecked input. */
export function normalizeProduct<T extends NewProduct>(input: T): Omit<T, keyof NewProduct> & ProductInput {
  const { slug = null, category = null, categories = null, translations = null, ...others } = input
  const { prices = null, sale_prices = null, status = null, ...rest } = others
  return {
    ...rest,
    ...normalizeImages(input),
    ...(slug === null ? {} : { slug: trim(slug) }),
    ...(translations === null ? {} : { translations: normalizeTranslations(translations) }),
    ...(prices === null ? {} : { prices: normalizePrices(prices) }),
    ...(sale_prices === null ? {} : { sale_prices: normalizeSales(sale_prices) }),
    ...(status === null ? {} : { status }),
    ...(input.published_at === undefined ? {} : { published_at: normalizeTime(input.published_at) }),
    ...(input.unpublished_at === undefined ? {} : { unpublished_at: normalizeTime(input.unpublished_at) }),
    sku: trim(input.sku),
    name: trim(input.name),
    description: input.description ?? '',
    // `category` is missing only beside `categories`, whose first one it is.
    ...(category === null && categories === null ? { category } : normalizeNamed({ category, categories })),
    brand: trim(input.brand ?? null),
    group: trim(input.group ?? null),
    options: trimOptions(input.options ?? {}),
    attributes: input.attributes ?? {},
    compare_at_price: input.compare_at_price ?? null,
    seo: normalizeSeo(input.seo ?? {}),
    availability_text: trim(input.availability_text ?? null),
  } as Omit<T, keyof NewProduct> & ProductInput
}

export function isReduced(price: Money, before: Money): boolean {
  return before.currency === price.currency && before.amount > price.amount
}

/**
 * The contradiction between two properties of a product, or null. `hasAllPrices` is whether `prices`, if named, are
 * complete.
 */
export function findContradiction(product: ProductInput, hasAllPrices = true): FieldError | null {
  const { price, compare_at_price: before, prices = [], image_url, images, translations = {} } = product
  const { published_at: from = null, unpublished_at: until = null } = product
  // Attributes of a variant may come from its group.
  const faultInAttributes = findFaultInAttributes(product.attributes)
  if (faultInAttributes !== null) return { pointer: '#/attributes', detail: faultInAttributes }
  const faultInTranslations = findFaultInTranslations(translations)
  if (faultInTranslations !== null) return { pointer: '#/translations', detail: faultInTranslations }
  if (before !== null && !isReduced(price, before)) {
    return { pointer: '#/compare_at_price', detail: 'compare_at_price must be above the price, in its currency' }
  }
  const faultInPrices = findFaultInPrices(price, prices)
  if (faultInPrices !== null) return { pointer: '#/prices', detail: faultInPrices }
  const faultInSales = findFaultInSales(product, hasAllPrices && product.prices !== undefined)
  if (faultInSales !== null) return { pointer: '#/sale_prices', detail: faultInSales }
  if (from !== null && until !== null && from >= until) {
    return { pointer: '#/unpublished_at', detail: 'unpublished_at must be after published_at' }
  }
  if ((images[0]?.url ?? null) === image_url) return null
  return { pointer: '#/image_url', detail: 'image_url must be the url of the first of the images' }
}

function findFaultInPrices(price: Money, prices: readonly OfferedPrice[]): string | null {
  const currencies = prices.map(({ currency }) => currency)
  if (currencies.includes(price.currency)) return 'prices must be in other currencies than price'
  if (new Set(currencies).size < currencies.length) return 'prices must have each currency once'
  const isBelow = prices.some(({ amount, compare_at }) => compare_at !== null && compare_at <= amount)
  return isBelow ? 'compare_at must be above the amount of its price' : null
}

/**
 * The database refuses a sale in another currency if some prices are unknown. An ended sale has no upper bound, because
 * prices may have fallen since.
 */
function findFaultInSales({ price, prices = [], sale_prices: sales = [] }: ProductInput, hasAllPrices: boolean): string | null {
  const now = new Date()
  for (const [place, { currency, amount, from, until }] of sales.entries()) {
    const usual = [price, ...prices].find((each) => each.currency === currency)
    const hasEnded = until !== null && new Date(until) <= now
    if (!hasEnded && hasAllPrices && usual === undefined)
      return `sale_prices must be in currencies of price and prices, and ${currency} is none`
    if (!hasEnded && usual !== undefined && amount >= usual.amount) return 'a sale price must be below the price in its currency'
    if (from === null && until === null)
      return 'a sale price must have from, until or both; without times it is a price with compare_at_price'
    if (from !== null && until !== null && from >= until) return 'until of a sale price must be after its from'
    const next = sales[place + 1]
    if (next?.currency === currency && (until === null || next.from === null || next.from < until))
      return `sale_prices in ${currency} must not overlap`
  }
  return null
}

/** Throws `invalid_body`. */
export function assertNoContradiction(product: ProductInput): void {
  const contradiction = findContradiction(product)
  if (contradiction !== null) throw new AppError('invalid_body', 'The body is not acceptable.', { errors: [contradiction] })
}

/** Trims a text and converts it to NFC, so two spellings of a sku or a category are equal. */
export function trim<T>(value: T): T {
  return typeof value === 'string' ? (value.normalize('NFC').trim() as T) : value
}

/** A time in the answers' format. */
function normalizeTime<T>(time: T): T {
  const date = new Date(typeof time === 'string' && HAS_OFFSET.test(time) ? time : Number.NaN)
  return Number.isNaN(date.getTime()) ? time : (date.toISOString() as T)
}

/** A sort key before the check. A file may contain anything here, even an object without a text form. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** Sorts prices by currency, like answers. */
function normalizePrices(prices: readonly Partial<OfferedPrice>[]): OfferedPrice[] {
  if (!isList(prices)) return prices as OfferedPrice[]
  const complete = prices.map((price) => (isObject(price) ? { ...price, compare_at: price.compare_at ?? null } : price))
  return complete.sort((a, b) => (textOf(a?.currency) < textOf(b?.currency) ? -1 : 1)) as OfferedPrice[]
}

/** Sorts sales by currency and time. */
function normalizeSales(sales: readonly Partial<SalePrice>[]): SalePrice[] {
  if (!isList(sales)) return sales as SalePrice[]
  const complete = sales.map((sale) =>
    isObject(sale) ? { ...sale, from: normalizeTime(sale.from ?? null), until: normalizeTime(sale.until ?? null) } : sale,
  )
  const keyOf = (sale: Partial<SalePrice>) => `${textOf(sale?.currency)} ${textOf(sale?.from)}`
  return complete.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)) as SalePrice[]
}

/** The URL as browsers write it, without quotes and angle brackets, which hand-built pages would take for markup. */
function normalizeUrl<T>(url: T): T {
  return typeof url === 'string' && /^https?:\/\/[^\s\p{Cc}]+$/iu.test(url) && URL.canParse(url) ? (new URL(url).href as T) : url
}

/** Derives a missing one of the two from the other. */
function normalizeImages({ image_url, images }: Pick<NewProduct, 'image_url' | 'images'>): Pick<ProductInput, 'image_url' | 'images'> {
  const listed = images ?? (typeof image_url === 'string' ? [{ url: image_url }] : [])
  const all = isList(listed)
    ? listed.map((image) =>
        isObject(image) ? { ...toImage(image.url), ...image, url: normalizeUrl(image.url), alt: trim(image.alt ?? '') } : image,
      )
    : listed
  return { image_url: normalizeUrl(image_url) ?? (isList(all) ? all[0]?.url : null) ?? null, images: all as ProductInput['images'] }
}

function normalizeSeo(seo: NonNullable<NewProduct['seo']>): ProductInput['seo'] {
  if (!isObject(seo)) return seo as ProductInput['seo']
  return { ...seo, title: trim(seo.title ?? null), description: trim(seo.description ?? null) }
}

/** A product's category names, with trimmed texts and without missing properties. */
export function normalizeNamed({
  category = null,
  categories = null,
}: {
  category?: string | null
  categories?: CategoryReference[] | null
}): Pick<ProductInput, 'category' | 'categories'> {
  return {
    ...(category === null ? {} : { category: trim(category) }),
    ...(categories === null ? {} : { categories: trimCategories(categories) }),
  }
}

function trimCategories(categories: CategoryReference[]): CategoryReference[] {
  if (!isList(categories)) return categories
  return categories.map((reference) =>
    typeof reference === 'string' || !isList(reference) ? trim(reference) : reference.map((name) => trim(name)),
  )
}

function trimOptions(options: Record<string, string>): Record<string, string> {
  if (!isObject(options)) return options
  // Object.fromEntries makes `__proto__` an ordinary property.
  return Object.fromEntries(Object.entries(options).map(([name, text]) => [trim(name), trim(text)]))
}

function isList<T>(value: T): value is T & unknown[] {
  return Array.isArray(value)
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
