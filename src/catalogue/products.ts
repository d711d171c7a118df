import { type Static, Type } from 'typebox'
import { type ProductAttributes, ProductAttributesSchema } from '../attributes.ts'
import type { Queryable } from '../db/pool.ts'
import { type Sql, sql } from '../db/sql.ts'
import { MoneySchema } from '../money.ts'
import { EXAMPLE_PRODUCT } from './examples.ts'
import { amountIn, compareAtIn, type StoredPrices } from './offered-prices.ts'
import { CURRENT_SLUG } from './slugs.ts'
import { type TranslatedTexts, translatedTexts } from './translations.ts'
import { VariantsSchema } from './variants.ts'

export const ProductSchema = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    slug: Type.String({ description: 'The end of the address of its page in the shop. Former slugs lead to the same product.' }),
    sku: Type.String(),
    name: Type.String(),
    description: Type.String(),
    category: Type.String(),
    brand: Type.Union([Type.String(), Type.Null()]),
    image_url: Type.Union([Type.String(), Type.Null()], { description: 'The first image.' }),
    group: Type.Union([Type.String(), Type.Null()], {
      description: 'The group of variants. All variants of one article share it. Null if the product is in no group.',
    }),
    options: Type.Record(Type.String(), Type.String(), { description: 'The properties that distinguish a variant within its group.' }),
    attributes: Type.Optional({
      ...ProductAttributesSchema,
      description: "The shop's own properties of the product. Absent if there are none.",
    }),
    price: MoneySchema,
    compare_at_price: Type.Union([MoneySchema, Type.Null()], {
      description: 'The price before a reduction. It is above `price`, in the same currency.',
    }),
    lowest_price_30_days: Type.Union([MoneySchema, Type.Null()], {
      description:
        'The lowest price of a reduced product in the 30 days before the reduction began (Directive 98/6/EC, Article 6a), in the currency of `price`. Null if the product is not reduced, or if no earlier price is known.',
    }),
    in_stock: Type.Boolean(),
    created_at: Type.String({ format: 'date-time' }),
    updated_at: Type.String({ format: 'date-time' }),
    variants: Type.Optional(VariantsSchema),
  },
  { title: 'Product', examples: [EXAMPLE_PRODUCT] },
)
export type Product = Static<typeof ProductSchema>

export const ProductParams = Type.Object({ id: Type.String({ format: 'uuid', description: 'The id of the product.' }) })

export interface ProductRow
  extends Omit<
    Product,
    'group' | 'attributes' | 'price' | 'compare_at_price' | 'lowest_price_30_days' | 'created_at' | 'updated_at' | 'variants'
  > {
  variant_group: string | null
  attributes: ProductAttributes
  price_amount: number
  price_currency: string
  compare_at_amount: number | null
  lowest_prior_amount: number | null
  created_at: Date
  updated_at: Date
  /** The translated texts, in the languages of the view. */
  texts?: TranslatedTexts
}

const COMMON = sql`product.id, ${CURRENT_SLUG} as slug, product.sku, product.name, product.description, product.category, product.brand,
  product.image_url, product.variant_group, product.options, product.attributes, product.in_stock, product.created_at, product.updated_at`
const OWN_PRICE = sql`product.price_amount, product.price_currency, product.compare_at_amount,
  (product.lowest_prior_amounts ->> product.price_currency)::bigint as lowest_prior_amount`
export const PRODUCT = sql`product`

/** How a list or page shows products. */
export interface ProductView {
  /** The languages of the texts, the preferred one first. Empty for the products' own texts. */
  languages: readonly string[]
  /** ISO 4217. Null stands for the products' own prices. */
  currency: string | null
}

/**
 * The condition that the alias `product` is not archived: it is in the shop, a draft, or outside its publication time.
 */
export const IS_EDITED = sql`(product.archived_at is null or product.is_withheld)`

/** The columns of a ProductRow from the alias `product`, with its own texts and price. */
export const PRODUCT_COLUMNS = sql`${COMMON}, ${OWN_PRICE}`

/** Like PRODUCT_COLUMNS, in the view's languages and currency. The products must be sold in that currency. */
export function productColumns({ languages, currency }: ProductView): Sql {
  const price = priceColumns(currency)
  return languages.length === 0 ? sql`${COMMON}, ${price}` : sql`${COMMON}, ${price}, ${translatedTexts(languages)} as texts`
}

/** The columns of `pricesOf` from the alias `product`. */
export function priceColumns(currency: string | null): Sql {
  if (currency === null) return OWN_PRICE
  return sql`${amountIn(PRODUCT, currency)} as price_amount, ${currency}::text as price_currency,
    ${compareAtIn(PRODUCT, currency)} as compare_at_amount,
    (product.lowest_prior_amounts ->> ${currency}::text)::bigint as lowest_prior_amount`
}

export function toProduct(row: ProductRow): Product {
  const { name = row.name, description = row.description } = row.texts ?? {}
  return {
    id: row.id,
    slug: row.slug,
    sku: row.sku,
    name,
    description,
    category: row.category,
    brand: row.brand,
    image_url: row.image_url,
    group: row.variant_group,
    options: row.options,
    // Most products have no attributes, and their lists are long.
    ...(Object.keys(row.attributes).length === 0 ? {} : { attributes: row.attributes }),
    ...pricesOf(row),
    in_stock: row.in_stock,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  }
}

export function pricesOf({
  price_amount: amount,
  price_currency: currency,
  compare_at_amount: before,
  lowest_prior_amount: lowest,
}: Pick<ProductRow, 'price_amount' | 'price_currency' | 'compare_at_amount' | 'lowest_prior_amount'>): Pick<
  Product,
  'price' | 'compare_at_price' | 'lowest_price_30_days'
> {
  const price = { amount, currency }
  // The previous release may have ended the reduction by raising the price alone.
  if (before === null || before <= amount) return { price, compare_at_price: null, lowest_price_30_days: null }
  return {
    ...{ price, compare_at_price: { amount: before, currency } },
    lowest_price_30_days: lowest === null ? null : { amount: lowest, currency },
  }
}

/** The part of a product that an order copies. */
export interface SellableProduct extends Pick<Product, 'id' | 'sku' | 'name' | 'category' | 'price'> {
  inStock: boolean
  prices: StoredPrices
}

/** Sold products at one version of the catalogue. */
export interface Prices {
  version: string
  products: ReadonlyMap<string, SellableProduct>
}

/**
 * The catalogue version as text, as `place_orders` compares it: the number of changes, and the last one's time, because
 * a restored backup repeats numbers.
 */
const PRICES_VERSION = sql`(select sum(changes) || ' ' || extract(epoch from max(changed_at)) from catalogue_versions)`

const MAX_CACHED = 20_000

/**
 * Caches products for orders while the catalogue is unchanged. It does not check for changes, so the transaction that
 * uses the prices must compare the version.
 */
export class PriceList {
  #cached = { version: '', products: new Map<string, SellableProduct>() }

  /** The products among `ids`, and maybe others. Queries only those that are not cached. */
  async read(db: Queryable, ids: readonly string[]): Promise<Prices> {
    // Runs again if the first query replaced the cache with a newer version.
    for (let attempt = 0; attempt < 2; attempt++) {
      const missing = ids.filter((id) => !this.#cached.products.has(id))
      if (missing.length === 0) break
      const { version, products } = await readPrices(db, missing)
      this.#store(version, products)
      if (products.size < missing.length) break
    }
    return this.#cached
  }

  /** Reads the products among `ids` from the database. */
  async refresh(db: Queryable, ids: readonly string[]): Promise<Prices> {
    const prices = await readPrices(db, ids)
    this.#store(prices.version, prices.products)
    return prices
  }

  #store(version: string, products: ReadonlyMap<string, SellableProduct>): void {
    if (products.size === 0) return
    const isOld = version !== this.#cached.version || this.#cached.products.size + products.size > MAX_CACHED
    if (isOld) this.#cached = { version, products: new Map(products) }
    else for (const [id, product] of products) this.#cached.products.set(id, product)
  }
}

type SellableRow = Pick<ProductRow, 'id' | 'sku' | 'name' | 'category' | 'price_amount' | 'price_currency' | 'in_stock'> & {
  prices: StoredPrices
}

/** The products among `ids` that are sold now. One statement reads them with their version. */
export async function readPrices(db: Queryable, ids: readonly string[]): Promise<Prices> {
  const statement = sql`select id, sku, name, category, price_amount, price_currency, prices, in_stock, ${PRICES_VERSION} as version
    from products
    where id = any(${ids}::uuid[]) and archived_at is null`
  const { rows } = await db.query<SellableRow & { version: string }>(statement)
  const products = rows.map(({ id, sku, name, category, price_amount, price_currency, prices, in_stock }): [string, SellableProduct] => [
    id,
    { id, sku, name, category, price: { amount: price_amount, currency: price_currency }, prices, inStock: in_stock },
  ])
  return { version: rows[0]?.version ?? '', products: new Map(products) }
}
