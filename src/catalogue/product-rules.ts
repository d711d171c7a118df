/**
 * Limits and rules for products. API answers, authors of catalogue files and the console all use this table. Browsers
 * load this file too, so it must stay pure.
 */

/** The most units in stock, far below 2^53, so levels stay exact when orders return units. */
export const MAX_STOCK = 1_000_000_000_000
export const MAX_SLUG_LENGTH = 100
/** A limit in UTF-8 bytes. A list may have a hundred descriptions, and an event has one. */
export const MAX_DESCRIPTION_BYTES = 65_536
export const OPTION_NAME = 'the name of an option'
/** The most characters of each text. */
export const MAX_LENGTHS = {
  slug: MAX_SLUG_LENGTH,
  sku: 64,
  name: 300,
  description: MAX_DESCRIPTION_BYTES,
  category: 100,
  brand: 100,
  image_url: 2_000,
  group: 64,
  reference: 100,
  'url of an image': 2_000,
  'alt of an image': 500,
  'seo.title': 200,
  'seo.description': 500,
  availability_text: 200,
  'an option': 100,
  [OPTION_NAME]: 40,
}
export type TextName = keyof typeof MAX_LENGTHS
export const MAX_OPTIONS = 10
export const MAX_IMAGES = 20
/** Products that a list shows first, by best sellers or by hand. A page reads them all. */
export const MAX_RANKED = 200
/** Variants that one call shows or changes. */
export const MAX_VARIANTS = 200
export const MAX_PRODUCT_CATEGORIES = 20
/** The levels of the tree: see `categories_check_tree` in the migration. */
export const MAX_LEVELS = 10
export const MAX_PRICES = 50
export const MAX_SALE_PRICES = 50
export const MAX_LANGUAGES = 30
export const TRANSLATED_TEXTS = ['name', 'description', 'seo_title', 'seo_description', 'availability_text'] as const

/** Each text follows "must". Properties without an entry are texts. */
export const MUST = {
  category: 'be a text, unless there are categories',
  categories: `be a list of 1 to ${MAX_PRODUCT_CATEGORIES} categories, each the slug of one or a path of 1 to ${MAX_LEVELS} names such as ["Men", "Shoes"]`,
  images: `be a list of at most ${MAX_IMAGES} objects with url and, if known, alt, width and height in pixels`,
  options: 'be an object of texts',
  price: 'be an object',
  amount: `be a whole number of minor units from 0 to ${Number.MAX_SAFE_INTEGER}`,
  currency: 'be an ISO 4217 code such as EUR',
  compare_at_price: 'be null or an object with an amount in minor units and a currency, as price',
  seo: 'be an object with a title and a description, each null or a text of one line',
  translations: `be an object with at most ${MAX_LANGUAGES} languages (BCP 47), each an object with some of ${TRANSLATED_TEXTS.join(', ')}`,
  prices: `be a list of at most ${MAX_PRICES} objects with amount in minor units, currency and, if reduced, compare_at`,
  sale_prices: `be a list of at most ${MAX_SALE_PRICES} objects with amount in minor units, currency, and from, until or both`,
  status: 'be draft or active',
  time: 'be null or a time such as 2026-11-27T00:00:00Z',
  stock: `be null or a whole number from 0 to ${MAX_STOCK}`,
  stock_delta: `be a whole number from ${-MAX_STOCK} to ${MAX_STOCK}`,
}

/** The refusal of a text that is too long or blank. */
export function describeLength(name: TextName): string {
  const least = ['description', 'image_url', 'alt of an image'].includes(name) ? 'at most' : '1 to'
  const unit = name === 'description' ? 'bytes in UTF-8' : 'characters'
  return `${name} must have ${least} ${MAX_LENGTHS[name].toLocaleString('en')} ${unit}`
}
