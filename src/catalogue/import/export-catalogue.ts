import { formatMajorUnits } from '../../../client/src/currency.ts'
import type { Pool, Transaction } from '../../db/pool.ts'
import { literal, sql } from '../../db/sql.ts'
import { withGuard } from '../../spreadsheet-guard.ts'
import { CATEGORY_IDS, readNames } from '../categories/category.ts'
import { type DetailsRow, selectDetails, storedImages, toDetails } from '../product-details.ts'
import { TRANSLATED_TEXTS } from '../product-rules.ts'
import { IS_EDITED } from '../products.ts'
import { NOT_TRACKED } from './import-csv.ts'
import type { ImportFormat } from './import-lines.ts'
import type { ImportedProduct } from './imported-product.ts'

const FETCH_SIZE = 2_000

type ExportedRow = Omit<DetailsRow, 'categories'> & { categories: string[]; stock: number | null }

/** The optional parts of an export. */
export interface ExportContent {
  withStock: boolean
  /** The languages and currencies of all products. If empty, the file names none, so an import keeps existing ones. */
  languages: readonly string[]
  currencies: readonly string[]
  /** Puts an apostrophe before text that a spreadsheet would run as a formula. */
  forSpreadsheets: boolean
}

/**
 * An exported product. `images` is omitted if `image_url` is enough, and `categories` if `category` names the only one,
 * at the top.
 */
type ExportedProduct = Omit<ImportedProduct, 'images'> & Partial<Pick<ImportedProduct, 'images'>>

/**
 * A snapshot of the catalogue by sku, without archived products, as text that `storefront catalogue import` reads.
 * Omits stock unless `withStock`, so a later import keeps it. Memory: some thousand products.
 */
export async function* exportCatalogue(
  pool: Pool,
  format: ImportFormat,
  { withStock = false, forSpreadsheets = false }: Partial<Pick<ExportContent, 'withStock' | 'forSpreadsheets'>> = {},
): AsyncGenerator<string> {
  const tx = await pool.connect()
  let isOpen = true
  try {
    await tx.query('begin isolation level repeatable read read only')
    const content = { withStock, forSpreadsheets, languages: await findLanguages(tx), currencies: await findCurrencies(tx) }
    const names = await readNames(tx)
    const isNested = new Set([...names.values()].filter(({ length }) => length > 1).map((path) => path.at(-1)))
    const header = exportHeader(format, content)
    if (header !== null) yield `${header}\n`
    await tx.query(
      sql`declare exported no scroll cursor for
       ${selectDetails(sql`${CATEGORY_IDS} as categories, (select available from inventory where product_id = product.id) as stock`)}
       where ${IS_EDITED}
       order by sku`,
    )
    for (;;) {
      const { rows } = await tx.query<ExportedRow>(sql`fetch ${literal(FETCH_SIZE)} from exported`)
      if (rows.length === 0) break
      yield rows.map((row) => `${exportLine(toProduct(row, { names, isNested }, content), format, content)}\n`).join('')
    }
    await tx.query('commit')
    isOpen = false
  } finally {
    // Closes the connection of an unfinished transaction, because the reader may stop early.
    tx.release(isOpen)
  }
}

function toProduct(
  row: ExportedRow,
  { names, isNested }: { names: ReadonlyMap<string, string[]>; isNested: ReadonlySet<string | undefined> },
  { withStock, languages, currencies }: ExportContent,
): ExportedProduct {
  const categories = row.categories.map((id) => names.get(id) ?? [])
  // If a subcategory shares the name, an import would choose the subcategory.
  const isPlain = categories.length === 1 && categories[0]?.length === 1 && !isNested.has(categories[0][0])
  // The text may be a former name, from which an import would create a category.
  const category = categories[0]?.at(-1) ?? row.category
  const product = toDetails({ ...row, categories: [] })
  const { slug, sku, name, description, brand, image_url, group, options, attributes = {}, price, compare_at_price } = product
  const images = storedImages(product.images)
  return {
    ...{ slug, sku, name, description, category, ...(isPlain ? {} : { categories }) },
    ...{ brand, image_url, ...(images === null ? {} : { images: [...images] }), group, options, attributes, price, compare_at_price },
    ...{ seo: product.seo, availability_text: product.availability_text, status: product.status },
    ...{ published_at: product.published_at, unpublished_at: product.unpublished_at, sale_prices: product.sale_prices },
    ...(languages.length === 0 ? {} : { translations: product.translations }),
    ...(currencies.length === 0 ? {} : { prices: product.prices }),
    ...(withStock ? { stock: row.stock } : {}),
  }
}

const COLUMNS = ['sku', 'name', 'description', 'category', 'image_url', 'price', 'currency', 'group', 'options'] as const
const STOCK = 'stock'
// Newer columns come last, so earlier releases' columns keep their places.
const LATER_COLUMNS = [
  'attributes',
  'slug',
  'brand',
  'compare_at_price',
  'images',
  'seo_title',
  'seo_description',
  'availability_text',
  'categories',
  'status',
  'published_at',
  'unpublished_at',
  'sale_prices',
] as const
type Cells = Record<(typeof COLUMNS)[number] | typeof STOCK | (typeof LATER_COLUMNS)[number], string>

/** The line before the first product, without a line end. Null if the format has none. */
export function exportHeader(format: ImportFormat, content: ExportContent): string | null {
  return format === 'csv' ? columns(content).join(',') : null
}

/** The text that `readImportLines` reads as this product, without a line end. In CSV it may have several lines. */
export function exportLine(product: ExportedProduct, format: ImportFormat, content: ExportContent): string {
  return format === 'csv' ? toCsv(product, content) : JSON.stringify(product)
}

function columns({ withStock, languages, currencies }: ExportContent): readonly string[] {
  const translated = languages.flatMap((language) => TRANSLATED_TEXTS.map((name) => `${name}:${language}`))
  const priced = currencies.flatMap((currency) => [`price:${currency}`, `compare_at_price:${currency}`])
  return [...COLUMNS, ...(withStock ? [STOCK] : []), ...LATER_COLUMNS, ...translated, ...priced]
}

function toCsv(product: ExportedProduct, content: ExportContent): string {
  const { price, compare_at_price: before, group, options, attributes, seo, translations = {}, prices = [], stock } = product
  const cells: Cells = {
    sku: product.sku,
    name: product.name,
    description: product.description,
    category: product.category ?? '',
    image_url: product.image_url ?? '',
    price: formatMajorUnits(price),
    currency: price.currency,
    group: group ?? '',
    options: jsonOf(options),
    attributes: jsonOf(attributes),
    stock: stock === null ? NOT_TRACKED : String(stock ?? ''),
    slug: product.slug ?? '',
    brand: product.brand ?? '',
    compare_at_price: before === null ? '' : formatMajorUnits(before),
    images: jsonOf(product.images ?? []),
    seo_title: seo.title ?? '',
    seo_description: seo.description ?? '',
    availability_text: product.availability_text ?? '',
    categories: jsonOf(product.categories ?? []),
    status: product.status ?? '',
    published_at: product.published_at ?? '',
    unpublished_at: product.unpublished_at ?? '',
    sale_prices: jsonOf(product.sale_prices ?? []),
  }
  const translated = Object.entries(translations).flatMap(([language, texts]) =>
    Object.entries(texts).map(([name, text]) => [`${name}:${language}`, text] as const),
  )
  const priced = prices.flatMap(({ amount, currency, compare_at }) => [
    [`price:${currency}`, formatMajorUnits({ amount, currency })] as const,
    [`compare_at_price:${currency}`, compare_at === null ? '' : formatMajorUnits({ amount: compare_at, currency })] as const,
  ])
  const all = new Map([...Object.entries(cells), ...translated, ...priced])
  return columns(content)
    .map((column) => quoted(withGuard(all.get(column) ?? '', content.forSpreadsheets)))
    .join(',')
}

async function findLanguages(tx: Transaction): Promise<string[]> {
  const { rows } = await tx.query<{ language: string }>(
    `select language
     from (
       select language from catalogue_languages where products > 0
       union
       select jsonb_object_keys(translations) from products where is_withheld
     ) as edited
     order by language collate "C"`,
  )
  return rows.map(({ language }) => language)
}

async function findCurrencies(tx: Transaction): Promise<string[]> {
  const { rows } = await tx.query<{ currency: string }>(
    `select currency from product_prices
     union
     select jsonb_object_keys(prices) from products where is_withheld
     order by currency`,
  )
  return rows.map(({ currency }) => currency)
}

function jsonOf(value: object): string {
  return Object.keys(value).length === 0 ? '' : JSON.stringify(value)
}

/** RFC 4180 §2. */
function quoted(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}
