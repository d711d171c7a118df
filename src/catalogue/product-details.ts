import { type Static, type TSchema, Type } from 'typebox'
import type { Queryable } from '../db/pool.ts'
import { limitTo, prepared, type Sql, sql } from '../db/sql.ts'
import { AppError, notFound } from '../errors.ts'
import { entityTag } from '../http/cacheable.ts'
import type { IfMatch } from '../http/if-match.ts'
import {
  CATEGORY_IDS,
  PRODUCT_CATEGORIES,
  type ProductCategories,
  ProductCategoriesSchema,
  readProductCategories,
} from './categories/category.ts'
import { EXAMPLE_EDITED_PRODUCT, EXAMPLE_PRODUCT_DETAILS } from './examples.ts'
import { fromStoredPrices, OfferedPriceSchema, type SalePrice, SalePriceSchema, type StoredPrices } from './offered-prices.ts'
import { PageVariantsSchema } from './page-variants.ts'
import { IS_EDITED, PRODUCT_COLUMNS, type ProductRow, ProductSchema, type ProductView, toProduct } from './products.ts'
import { type TranslatedTexts, TranslatedTextsSchema, type Translations } from './translations.ts'

const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

export const ImageSchema = Type.Object(
  {
    url: Type.String(),
    alt: Type.String({ description: 'What the image shows, for people who cannot see it. Empty if unknown.' }),
    width: nullable(Type.Integer({ description: 'Pixels.' })),
    height: nullable(Type.Integer({ description: 'Pixels.' })),
  },
  { title: 'ProductImage' },
)
export type Image = Static<typeof ImageSchema>

const { variants: _, ...listed } = ProductSchema.properties

export const ProductDetailsSchema = Type.Object(
  {
    ...listed,
    categories: ProductCategoriesSchema,
    images: Type.Array(ImageSchema, { description: 'The images in the order that the shop has chosen. The first one is `image_url`.' }),
    seo: Type.Object(
      { title: nullable(Type.String()), description: nullable(Type.String()) },
      { description: 'Title and description for the head of the page. Null if the shop uses name and description.' },
    ),
    availability_text: nullable(Type.String({ description: 'Such as "Ships in 3 days".' })),
    variants: Type.Optional(PageVariantsSchema),
  },
  { title: 'ProductDetails', description: 'A product with all that its page shows.', examples: [EXAMPLE_PRODUCT_DETAILS] },
)
export type ProductDetails = Static<typeof ProductDetailsSchema>

const time = nullable(Type.String({ format: 'date-time' }))
export const PublicationSchema = Type.Object({
  status: Type.Union([Type.Literal('draft'), Type.Literal('active')], { description: 'A draft is not in the shop.' }),
  published_at: { ...time, description: 'An active product is in the shop from this time on. Null if there is no such time.' },
  unpublished_at: { ...time, description: 'The product is in the shop until this time. Null if there is no such time.' },
})
type Publication = Static<typeof PublicationSchema>

const { variants: _variants, ...details } = ProductDetailsSchema.properties

export const EditedProductSchema = Type.Object(
  {
    ...details,
    translations: Type.Record(Type.String(), TranslatedTextsSchema, { description: 'Texts by language (BCP 47).' }),
    prices: Type.Array(OfferedPriceSchema, { description: 'Prices in currencies other than the one of `price`, ordered by currency.' }),
    sale_prices: Type.Array(SalePriceSchema, {
      description:
        'The amounts of the product during its sales, ordered by currency and time. `price`, `compare_at_price` and `prices` are the regular ones here. While a sale is on, the shop shows its amount as the price, reduced from the regular one.',
    }),
    ...PublicationSchema.properties,
    archived_at: { ...time, description: 'When an operator archived the product. Null if it is not archived.' },
  },
  { title: 'EditedProduct', description: 'A product with all that operators edit, in its own texts.', examples: [EXAMPLE_EDITED_PRODUCT] },
)
export type EditedProduct = Static<typeof EditedProductSchema>

type CurrentPrices = Pick<EditedProduct, 'price' | 'compare_at_price' | 'prices'>

/**
 * A product as operators edit it, with the current prices for customers, and the lowest amounts before its reductions
 * by currency, which come from its earlier prices.
 */
export interface StoredProduct extends EditedProduct {
  current: CurrentPrices
  lowestPriorAmounts: Readonly<Record<string, number>>
}

export interface DetailsRow extends ProductRow {
  categories: ProductCategories
  images: Image[] | null
  seo_title: string | null
  seo_description: string | null
  availability_text: string | null
  translations: Translations
  prices: StoredPrices
  lowest_prior_amounts: Record<string, number> | null
  sale_prices: SalePrice[]
  regular_prices: StoredPrices | null
  status: Publication['status']
  published_at: Date | null
  unpublished_at: Date | null
  /** When it was archived by an operator. */
  archived_at: Date | null
}

const ALL_TRANSLATIONS = sql`product.translations`
const NO_TRANSLATIONS = sql`'{}'::jsonb`

/** Selects whole products of the alias `product` with `columns`, which must include their categories in some form. */
export const selectDetails = (
  columns: Sql,
  translations = ALL_TRANSLATIONS,
) => sql`select ${PRODUCT_COLUMNS}, ${columns}, page.images, page.seo_title, page.seo_description, page.availability_text,
      ${translations} as translations, product.prices, product.lowest_prior_amounts,
      product.sale_prices, product.regular_prices, product.status, product.published_at, product.unpublished_at,
      case when not product.is_withheld then product.archived_at end as archived_at
    from products as product
    left join product_pages as page on page.product_id = product.id`

/** The condition that a product is in the shop. */
const IS_LISTED = sql`product.archived_at is null`

async function findProduct(db: Queryable, condition: Sql): Promise<StoredProduct | null> {
  const { rows } = await db.query<DetailsRow>(sql`${selectDetails(sql`${PRODUCT_CATEGORIES} as categories`)} where ${condition}`)
  return rows[0] === undefined ? null : toDetails(rows[0])
}

/**
 * The most long text in a read, in its stored, compressed size. A hundred products could have 40 MB of translations.
 */
const READ_BYTES = 1_000_000

/**
 * The next products after an id, by id: at most `count`, fewer if their texts are long, none only at the end. The cost
 * does not depend on the place. Translations are included only with `isTranslated`.
 */
export async function listDetailsAfter(db: Queryable, afterId: string, count: number, isTranslated: boolean): Promise<StoredProduct[]> {
  const size = isTranslated ? sql`pg_column_size(description) + pg_column_size(translations)` : sql`pg_column_size(description)`
  // Selects ids first, because a join of both tables by their keys could begin at the first row.
  const statement = sql`${selectDetails(sql`${CATEGORY_IDS} as categories`, isTranslated ? ALL_TRANSLATIONS : NO_TRANSLATIONS)}
    where product.id = any(array(
      select id
      from (
        select id, sum(size) over (order by id) - size as bytes_before
        from (
          select id, ${size} as size from products where archived_at is null and id > ${afterId} order by id ${limitTo(count)}
        ) as next
      ) as sized
      where bytes_before < ${READ_BYTES}
    ))
    order by product.id`
  const name = `details after ${count} ${isTranslated}`
  const { rows } = await db.query<Omit<DetailsRow, 'categories'> & { categories: string[] }>(prepared(statement, name))
  // Reads each category once, because its path costs more than a product.
  const categories = await readProductCategories(db, [...new Set(rows.flatMap((row) => row.categories))])
  return rows.map((row) => toDetails({ ...row, categories: row.categories.flatMap((id) => categories.get(id) ?? []) }))
}

/** Products by sku, including archived ones. They have no categories, and translations only with `isTranslated`. */
export async function findDetails(db: Queryable, skus: readonly string[], isTranslated: boolean): Promise<Map<string, StoredProduct>> {
  const details = selectDetails(sql`'[]'::json as categories`, isTranslated ? ALL_TRANSLATIONS : NO_TRANSLATIONS)
  const { rows } = await db.query<DetailsRow>(sql`${details} where product.sku = any(${skus}::text[])`)
  return new Map(rows.map((row) => [row.sku, toDetails(row)]))
}

/** A product in the shop. Throws `not_found`. */
export async function getProduct(db: Queryable, id: string): Promise<StoredProduct> {
  return present(await findProduct(db, sql`product.id = ${id} and ${IS_LISTED}`))
}

/** A product that operators edit, in the shop or not. Throws `not_found`, also for an archived product. */
export async function getEditedProduct(db: Queryable, id: string): Promise<StoredProduct> {
  return present(await findProduct(db, sql`product.id = ${id} and ${IS_EDITED}`))
}

/** A product, also an archived one. Throws `not_found`. */
export async function getProductInAnyState(db: Queryable, id: string): Promise<StoredProduct> {
  return present(await findProduct(db, sql`product.id = ${id}`))
}

/** The product that has or had this slug in any spelling. Throws `not_found`. */
export async function getProductBySlug(db: Queryable, slug: string): Promise<StoredProduct> {
  return present(
    await findProduct(db, sql`product.id = (select product_id from product_slugs where slug = slug_of(${slug})) and ${IS_LISTED}`),
  )
}

function present(product: StoredProduct | null): StoredProduct {
  if (product === null) throw notFound('product')
  return product
}

/** The product of a row of `selectDetails`. */
export function toDetails(row: DetailsRow): StoredProduct {
  const product = toProduct(row)
  const { price, compare_at_price } = product
  const current = { price, compare_at_price, prices: fromStoredPrices(row.prices, price.currency) }
  return {
    ...product,
    ...regularPrices(current, row),
    current,
    categories: row.categories,
    images: imagesOf(row.image_url, row.images),
    seo: { title: row.seo_title, description: row.seo_description },
    availability_text: row.availability_text,
    translations: row.translations,
    lowestPriorAmounts: row.lowest_prior_amounts ?? {},
    sale_prices: row.sale_prices,
    status: row.status,
    published_at: row.published_at?.toISOString() ?? null,
    unpublished_at: row.unpublished_at?.toISOString() ?? null,
    archived_at: row.archived_at?.toISOString() ?? null,
  }
}

function regularPrices(current: CurrentPrices, { prices, regular_prices: regular }: DetailsRow): CurrentPrices {
  if (regular === null) return current
  const { currency } = current.price
  const others = fromStoredPrices({ ...prices, ...regular }, currency)
  const own = regular[currency]
  if (own === undefined) return { ...current, prices: others }
  const { amount, compare_at: before } = own
  return { price: { amount, currency }, compare_at_price: before === undefined ? null : { amount: before, currency }, prices: others }
}

/** A product's page in a view. Throws `currency_not_available`. */
export function presentPage(product: StoredProduct, { languages, currency }: ProductView): ProductDetails {
  const { translations, prices: _prices, sale_prices: _sales, current, lowestPriorAmounts, ...rest } = product
  const { status: _status, published_at: _from, unpublished_at: _until, archived_at: _archived, ...own } = rest
  const texts: TranslatedTexts = Object.assign({}, ...languages.toReversed().map((language) => translations[language]))
  const { name = own.name, description = own.description, availability_text = own.availability_text } = texts
  const seo = { title: texts.seo_title ?? own.seo.title, description: texts.seo_description ?? own.seo.description }
  return { ...own, name, description, seo, availability_text, ...pricesIn(current, lowestPriorAmounts, currency) }
}

function pricesIn(
  { price, compare_at_price, prices }: CurrentPrices,
  lowestPriorAmounts: StoredProduct['lowestPriorAmounts'],
  currency: string | null,
): Pick<ProductDetails, 'price' | 'compare_at_price'> & Partial<Pick<ProductDetails, 'lowest_price_30_days'>> {
  if (currency === null || currency === price.currency) return { price, compare_at_price }
  const offered = prices.find((other) => other.currency === currency)
  if (offered === undefined) throw notSoldIn(currency, [price.currency, ...prices.map((other) => other.currency)])
  const { amount, compare_at: before } = offered
  const lowest = lowestPriorAmounts[currency]
  return {
    price: { amount, currency },
    compare_at_price: before === null ? null : { amount: before, currency },
    lowest_price_30_days: lowest === undefined ? null : { amount: lowest, currency },
  }
}

function notSoldIn(currency: string, currencies: readonly string[]): AppError {
  return new AppError('currency_not_available', `The product has no price in ${currency}.`, {
    members: { currencies: [...currencies].sort() },
  })
}

/** `image_url` is the first image, even if the previous release changed it after `images` were stored. */
export function imagesOf(imageUrl: string | null, stored: readonly Image[] | null): Image[] {
  if (imageUrl === null) return []
  const [first = toImage(imageUrl), ...others] = stored ?? []
  return [first.url === imageUrl ? first : toImage(imageUrl), ...others]
}

export function toImage(url: string): Image {
  return { url, alt: '', width: null, height: null }
}

/** The value to store in `product_pages`. Null if `image_url` says everything. */
export function storedImages(images: readonly Image[]): readonly Image[] | null {
  const [first, ...others] = images
  const isPlain = first === undefined || (others.length === 0 && first.alt === '' && first.width === null && first.height === null)
  return isPlain ? null : images
}

/** The part of a product that operators edit. Selling its last unit does not change it. */
export function editable({
  created_at: _created,
  updated_at: _updated,
  in_stock: _stock,
  lowest_price_30_days: _lowest,
  lowestPriorAmounts: _amounts,
  current: _current,
  ...product
}: StoredProduct): Partial<StoredProduct> {
  return product
}

/**
 * The entity tag of a product's edited part, without quotes. It differs after every operator's change, including
 * translations.
 */
export function productETag(product: StoredProduct): string {
  return entityTag(JSON.stringify(editable(product)))
}

/** The page's entity tag: one for the edited part, and one for everything on the page. */
export function pageETag(product: StoredProduct, parts: readonly string[]): string {
  const { updated_at, in_stock, lowest_price_30_days, lowestPriorAmounts } = product
  return `${productETag(product)}_${entityTag(JSON.stringify([updated_at, in_stock, lowest_price_30_days, lowestPriorAmounts]), ...parts)}`
}

/** Whether `ifMatch` names the current product, by its own tag or its page's in any language and currency. */
export function isNamedBy(product: StoredProduct, ifMatch: IfMatch): boolean {
  const etag = productETag(product)
  return ifMatch === null || [...ifMatch].some((tag) => tag.slice(0, etag.length) === etag)
}
