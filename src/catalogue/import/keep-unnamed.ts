import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { findContradiction, isReduced } from '../normalize-product.ts'
import { fromStoredPrices, type OfferedPrice, type StoredPrices } from '../offered-prices.ts'
import { type Image, imagesOf } from '../product-details.ts'
import { type ProductRow, pricesOf } from '../products.ts'
import { findFaultInTranslations, type Translations } from '../translations.ts'
import type { ImportedProduct } from './imported-product.ts'

interface StoredRow
  extends Pick<ProductRow, 'sku' | 'brand' | 'image_url' | 'options' | 'price_amount' | 'price_currency' | 'compare_at_amount'>,
    Pick<ImportedProduct, 'description' | 'group' | 'attributes' | 'availability_text'> {
  images: Image[] | null
  seo_title: string | null
  seo_description: string | null
  translations: Translations
  prices: StoredPrices
}

/**
 * Completes each product from its stored row where the file has no column, or returns why its line is refused. A new
 * product, or one of a file without columns, stays unchanged. The products must be locked.
 */
export async function keepUnnamed(
  tx: Transaction,
  products: readonly ImportedProduct[],
): Promise<(ImportedProduct | { refusal: string })[]> {
  const partial = products.filter(({ columns }) => columns !== undefined)
  if (partial.length === 0) return [...products]
  const stored = await findStored(tx, partial)
  return products.map((product) => {
    const row = stored.get(product.sku)
    if (row === undefined || product.columns === undefined) return product
    if (!product.columns.has('currency') && product.price.currency !== row.price_currency)
      return { refusal: `currency is missing: the price of this product is in ${row.price_currency}` }
    const merged = merge(product, product.columns, row)
    const refusal = findFaultInTranslations(merged.translations ?? {}) ?? findContradiction(merged)?.detail
    return refusal === undefined ? merged : { refusal }
  })
}

async function findStored(tx: Transaction, products: readonly ImportedProduct[]): Promise<Map<string, StoredRow>> {
  const isNamed = (property: 'translations' | 'prices') => products.some((product) => product[property] !== undefined)
  const { rows } = await tx.query<StoredRow>(
    sql`select sku, description, brand, image_url, images, variant_group as "group", options, attributes, price_amount, price_currency,
       compare_at_amount, seo_title, seo_description, availability_text,
       -- Not read where they stay as a whole.
       case when ${isNamed('translations')} then translations end as translations, case when ${isNamed('prices')} then prices end as prices
     from products
     left join product_pages on product_pages.product_id = products.id
     where sku = any(${products.map(({ sku }) => sku)}::text[])`,
  )
  return new Map(rows.map((row) => [row.sku, row]))
}

function merge(product: ImportedProduct, columns: ReadonlySet<string>, row: StoredRow): ImportedProduct {
  const pick = <T>(column: string, named: T, stored: T) => (columns.has(column) ? named : stored)
  const present = imagesOf(row.image_url, row.images)
  // A first image alone replaces the first one, as in a change of the product.
  const images = columns.has('images') ? product.images : columns.has('image_url') ? imagesOf(product.image_url, present) : present
  const { compare_at_price: before } = pricesOf(row)
  return {
    ...product,
    description: pick('description', product.description, row.description),
    brand: pick('brand', product.brand, row.brand),
    image_url: columns.has('image_url') ? product.image_url : (images[0]?.url ?? null),
    images,
    group: pick('group', product.group, row.group),
    options: pick('options', product.options, row.options),
    attributes: pick('attributes', product.attributes, row.attributes),
    // A new price ends a reduction that it is not below.
    compare_at_price: pick(
      'compare_at_price',
      product.compare_at_price,
      before !== null && isReduced(product.price, before) ? before : null,
    ),
    seo: {
      title: pick('seo_title', product.seo.title, row.seo_title),
      description: pick('seo_description', product.seo.description, row.seo_description),
    },
    availability_text: pick('availability_text', product.availability_text, row.availability_text),
    ...(product.translations === undefined ? {} : { translations: mergeTranslations(product.translations, columns, row.translations) }),
    ...(product.prices === undefined ? {} : { prices: mergePrices(product, product.prices, columns, row) }),
  }
}

function mergeTranslations(named: Translations, columns: ReadonlySet<string>, stored: Translations): Translations {
  const languages = [...new Set([...Object.keys(stored), ...Object.keys(named)])].map((language) => {
    const kept = Object.entries(stored[language] ?? {}).filter(([name]) => !columns.has(`${name}:${language}`))
    return [language, { ...Object.fromEntries(kept), ...named[language] }] as const
  })
  return Object.fromEntries(languages.filter(([, texts]) => Object.keys(texts).length > 0))
}

/** Merges named and stored prices, except a stored one in the currency of the product's own price, which wins. */
function mergePrices(
  { price }: ImportedProduct,
  named: readonly OfferedPrice[],
  columns: ReadonlySet<string>,
  row: StoredRow,
): OfferedPrice[] {
  const stored = fromStoredPrices(row.prices, price.currency)
  const merged = named.map((offered) => {
    const before = stored.find(({ currency }) => currency === offered.currency)?.compare_at ?? null
    const isKept = !columns.has(`compare_at_price:${offered.currency}`) && before !== null && before > offered.amount
    return isKept ? { ...offered, compare_at: before } : offered
  })
  return [...merged, ...stored.filter(({ currency }) => !columns.has(`price:${currency}`))]
}
