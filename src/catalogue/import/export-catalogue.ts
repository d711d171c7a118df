import { formatMajorUnits } from '../../currency.ts'
import type { Pool } from '../../db/pool.ts'
import { literal, sql } from '../../db/sql.ts'
import { type Image, imagesOf, storedImages } from '../product-details.ts'
import { type ProductRow, pricesOf } from '../products.ts'
import { CURRENT_SLUG } from '../slugs.ts'
import { NOT_TRACKED } from './import-csv.ts'
import type { ImportFormat } from './import-lines.ts'
import type { ImportedProduct } from './imported-product.ts'

const FETCH_SIZE = 2_000

interface ExportedRow
  extends Pick<
      ImportedProduct,
      'sku' | 'name' | 'description' | 'category' | 'group' | 'options' | 'attributes' | 'availability_text' | 'stock'
    >,
    Pick<ProductRow, 'slug' | 'brand' | 'image_url' | 'price_amount' | 'price_currency' | 'compare_at_amount'> {
  images: Image[] | null
  seo_title: string | null
  seo_description: string | null
}

/** An exported product has a slug, and images unless `image_url` is all there is. */
type ExportedProduct = Omit<ImportedProduct, 'images'> & Partial<Pick<ImportedProduct, 'images'>>

/**
 * A snapshot of the catalogue without archived products, by sku, as text that `storefront catalogue import` reads. Without `withStock` it
 * leaves out stock, so that a later import does not change it. Memory: some thousand products.
 */
export async function* exportCatalogue(
  pool: Pool,
  format: ImportFormat,
  { withStock = false }: { withStock?: boolean } = {},
): AsyncGenerator<string> {
  const header = exportHeader(format, withStock)
  if (header !== null) yield `${header}\n`
  const tx = await pool.connect()
  let isOpen = true
  try {
    // A cursor is one snapshot: it sees what was committed when it was opened.
    await tx.query('begin read only')
    await tx.query(
      sql`declare exported no scroll cursor for
       select ${CURRENT_SLUG} as slug, sku, name, description, category, brand, image_url, images, variant_group as "group", options, attributes,
         price_amount, price_currency, compare_at_amount, seo_title, seo_description, availability_text, available as stock
       from products as product
       left join product_pages as page on page.product_id = product.id
       left join inventory on inventory.product_id = product.id
       where archived_at is null
       order by sku`,
    )
    for (;;) {
      const { rows } = await tx.query<ExportedRow>(sql`fetch ${literal(FETCH_SIZE)} from exported`)
      if (rows.length === 0) break
      yield rows.map((row) => `${exportLine(toProduct(row, withStock), format, withStock)}\n`).join('')
    }
    await tx.query('commit')
    isOpen = false
  } finally {
    // Closes the connection of a transaction that has not ended: the reader may stop early.
    tx.release(isOpen)
  }
}

function toProduct(row: ExportedRow, withStock: boolean): ExportedProduct {
  const { slug, sku, name, description, category, brand, image_url, group, options, attributes, availability_text, stock = null } = row
  const images = storedImages(imagesOf(image_url, row.images))
  return {
    ...{ slug, sku, name, description, category, brand, image_url, ...(images === null ? {} : { images: [...images] }) },
    ...{ group, options, attributes, ...pricesOf(row) },
    seo: { title: row.seo_title, description: row.seo_description },
    availability_text,
    ...(withStock ? { stock } : {}),
  }
}

const COLUMNS = ['sku', 'name', 'description', 'category', 'image_url', 'price', 'currency', 'group', 'options'] as const
const STOCK = 'stock'
// After all others, where they shift no column of the releases before.
const LATER_COLUMNS = [
  'attributes',
  'slug',
  'brand',
  'compare_at_price',
  'images',
  'seo_title',
  'seo_description',
  'availability_text',
] as const
type Cells = Record<(typeof COLUMNS)[number] | typeof STOCK | (typeof LATER_COLUMNS)[number], string>

/** The line above the first product, without a line end; null for none. */
export function exportHeader(format: ImportFormat, withStock: boolean): string | null {
  return format === 'csv' ? columns(withStock).join(',') : null
}

/** The line (in CSV perhaps several) that `readImportLines` reads as this product, without a line end. */
export function exportLine(product: ExportedProduct, format: ImportFormat, withStock: boolean): string {
  return format === 'csv' ? toCsv(product, withStock) : JSON.stringify(product)
}

function columns(withStock: boolean): readonly (keyof Cells)[] {
  return [...COLUMNS, ...(withStock ? ([STOCK] as const) : []), ...LATER_COLUMNS]
}

function toCsv(product: ExportedProduct, withStock: boolean): string {
  const { price, compare_at_price: before, group, options, attributes, seo, stock } = product
  const cells: Cells = {
    sku: product.sku,
    name: product.name,
    description: product.description,
    category: product.category,
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
  }
  return columns(withStock)
    .map((column) => quoted(cells[column]))
    .join(',')
}

function jsonOf(value: object): string {
  return Object.keys(value).length === 0 ? '' : JSON.stringify(value)
}

/** RFC 4180 §2. */
function quoted(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}
