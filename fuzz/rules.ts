import { type FuzzRequest, parsedBody } from './request.ts'

/** Rules between values. The document has them only in words, because a schema cannot express them. */
const QUERY_RULES: { because: string; isBroken: (query: ReadonlyMap<string, string | null>) => boolean }[] = [
  {
    because: 'min_price is above max_price',
    isBroken: (query) =>
      query.has('min_price') && query.has('max_price') && Number(query.get('min_price')) > Number(query.get('max_price')),
  },
  { because: 'the sort relevance needs q', isBroken: (query) => query.get('sort') === 'relevance' && !query.has('q') },
  { because: 'the sort position needs category', isBroken: (query) => query.get('sort') === 'position' && !query.has('category') },
]

type Body = Record<string, unknown>

const MAX_QUANTITY = 10_000

/**
 * Whether a product's lines exceed the limit. Lines of the same product are merged, and the limit applies to the merged
 * line.
 */
function hasTooManyOfAProduct({ items }: Body): boolean {
  if (!Array.isArray(items)) return false
  const quantities = new Map<string, number>()
  for (const line of items) {
    const { product_id, quantity } = (line ?? {}) as Record<string, unknown>
    // A call that takes no items may be sent some of any form.
    if (typeof product_id !== 'string' || typeof quantity !== 'number') continue
    const id = product_id.toLowerCase()
    quantities.set(id, (quantities.get(id) ?? 0) + quantity)
  }
  return [...quantities.values()].some((quantity) => quantity > MAX_QUANTITY)
}

const MAX_ATTRIBUTES_BYTES = 4_096

function hasLargeAttributes({ attributes }: Body): boolean {
  return typeof attributes === 'object' && Buffer.byteLength(JSON.stringify(attributes)) > MAX_ATTRIBUTES_BYTES
}

const TWO_YEARS_MS = 730 * 86_400_000

/** Whether an API key's expiry is not in the future, or later than two years. */
function hasWrongExpiry({ expires_at }: Body): boolean {
  if (typeof expires_at !== 'string') return false
  const lifetimeMs = Date.parse(expires_at) - Date.now()
  return !(lifetimeMs > 0 && lifetimeMs < TWO_YEARS_MS)
}

/** Whether a price before a reduction is not above the price that comes with it. One alone depends on the product. */
function hasWrongComparePrice({ price, compare_at_price: before }: Body): boolean {
  const { amount, currency } = (before ?? {}) as Record<string, unknown>
  const now = (price ?? {}) as Record<string, unknown>
  return (before ?? null) !== null && !(currency === now.currency && Number(amount) > Number(now.amount))
}

/** Whether prices may be refused: for a repeated currency, the product's own or an unknown one, or for a reduction. */
function hasWrongPrices({ price, prices }: Body): boolean {
  if (!Array.isArray(prices) || prices.length === 0) return false
  const own = ((price ?? {}) as Record<string, unknown>).currency
  const currencies = prices.map((offered) => offered?.currency)
  const isBelow = prices.some((offered) => (offered?.compare_at ?? null) !== null && Number(offered.compare_at) <= Number(offered.amount))
  return own === undefined || currencies.includes(own) || new Set(currencies).size < currencies.length || isBelow
}

/** Whether sales overlap or are not below the price in their currency. Without the price, that is unknown. */
function hasWrongSales({ price, sale_prices: sales }: Body): boolean {
  if (!Array.isArray(sales) || sales.length === 0) return false
  const own = (price ?? {}) as Record<string, unknown>
  const [{ amount, currency, from = null, until = null }] = sales
  const isOrdered = from === null ? until !== null : until === null || Date.parse(from) < Date.parse(until)
  return sales.length > 1 || own.currency !== currency || Number(amount) >= Number(own.amount) || !isOrdered
}

/** Whether a language tag is unknown. A well-formed tag may still differ from its canonical form. */
function hasUnknownLanguage({ translations }: Body): boolean {
  const known = ['de', 'fr', 'pt-BR', 'zh-Hant']
  return typeof translations === 'object' && Object.keys(translations ?? {}).some((tag) => !known.includes(tag))
}

/**
 * Whether a category may be wrong. A category has a slug, which may be unknown, or a path of names, whose first name is
 * that of `category`.
 */
function hasWrongCategories({ category, categories }: Body): boolean {
  if (!Array.isArray(categories)) return false
  const hasNameWithoutSlug = categories.some((each) => Array.isArray(each) && each.some((label) => !/[\p{L}\p{N}]/u.test(String(label))))
  return category !== undefined || hasNameWithoutSlug || categories.some((each) => typeof each === 'string')
}

function hasTwoFirstImages({ image_url, images }: Body): boolean {
  return image_url !== undefined && Array.isArray(images) && (images[0]?.url ?? null) !== image_url
}

const BODY_RULES: { because: string; isBroken: (body: Body) => boolean }[] = [
  { because: 'the lines of a product have too many units together', isBroken: hasTooManyOfAProduct },
  { because: 'attributes have too many bytes', isBroken: hasLargeAttributes },
  { because: 'a key would have expired, or live for more than two years', isBroken: hasWrongExpiry },
  { because: 'the price before a reduction is not above the price', isBroken: hasWrongComparePrice },
  { because: 'prices in other currencies contradict each other or the price', isBroken: hasWrongPrices },
  { because: 'sales contradict each other, the price or their times', isBroken: hasWrongSales },
  { because: 'a language of translations is no canonical tag', isBroken: hasUnknownLanguage },
  { because: 'categories contradict each other, or one is not there', isBroken: hasWrongCategories },
  { because: 'the category above may not be there', isBroken: ({ parent_id }) => (parent_id ?? null) !== null },
  {
    because: 'a placed product may not be in the category',
    isBroken: ({ product_ids }) => Array.isArray(product_ids) && product_ids.length > 0,
  },
  { because: 'image_url is not the first of the images', isBroken: hasTwoFirstImages },
  { because: 'restock is for goods that are returned', isBroken: ({ restock, to }) => restock === true && to !== 'returned' },
  { because: 'tracking is for orders that are shipped', isBroken: ({ tracking, to }) => (tracking ?? null) !== null && to !== 'shipped' },
]

/** The rule that a request breaks although each of its parts fits its schema; null if there is none. */
export function findBrokenRule(request: FuzzRequest): string | null {
  const query = new Map(request.query.map(({ name, value }) => [name, value]))
  const ofQuery = QUERY_RULES.find(({ isBroken }) => isBroken(query))
  if (ofQuery !== undefined) return ofQuery.because
  const body = parsedBody(request)
  if (typeof body !== 'object' || body === null) return null
  return BODY_RULES.find(({ isBroken }) => isBroken(body as Body))?.because ?? null
}

/**
 * Whether an address may be invalid. The document has the countries, and the parts that each country's post needs, only
 * in words.
 */
export function hasDoubtfulAddress(request: FuzzRequest): boolean {
  const body = parsedBody(request)
  if (typeof body !== 'object' || body === null) return false
  return Object.values(body).some((value) => isAddress(value) && !isComplete(value))
}

function isAddress(value: unknown): value is Body {
  return typeof value === 'object' && value !== null && 'line1' in value && 'country' in value
}

function isComplete(address: Body): boolean {
  const isGiven = (name: string) => /[\p{L}\p{N}]/u.test(String(address[name] ?? ''))
  return ['DE', 'GB', 'HK', 'US'].includes(String(address.country)) && ['city', 'region', 'postal_code'].every(isGiven)
}

/**
 * Whether the request may change an account to its own address. The address can differ from the one that the fuzzer
 * first saw.
 */
export function hasOwnAddress(request: FuzzRequest): boolean {
  if (request.operation.name !== 'POST /me/email' || request.account === null) return false
  return (parsedBody(request) as Body | null | undefined)?.email === request.account.email
}
