import { formatMajorUnits } from '../../currency.ts'
import type { Pool } from '../../db/pool.ts'
import { literal, sql } from '../../db/sql.ts'
import type { ProductRow } from '../products.ts'
import { NOT_TRACKED } from './import-csv.ts'
import type { ImportFormat } from './import-lines.ts'
import type { ImportedProduct } from './imported-product.ts'

const FETCH_SIZE = 2_000

type ExportedRow = Omit<ImportedProduct, 'price'> & Pick<ProductRow, 'price_amount' | 'price_currency'>

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
      `declare exported no scroll cursor for
       select sku, name, description, category, image_url, variant_group as "group", options, attributes, price_amount, price_currency,
         available as stock
       from products
       left join inventory on inventory.product_id = products.id
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

function toProduct(
  { price_amount: amount, price_currency: currency, stock = null, ...rest }: ExportedRow,
  withStock: boolean,
): ImportedProduct {
  return { ...rest, price: { amount, currency }, ...(withStock ? { stock } : {}) }
}

const COLUMNS = ['sku', 'name', 'description', 'category', 'image_url', 'price', 'currency', 'group', 'options'] as const
const STOCK = 'stock'
// The last, where it shifts no column of the releases before.
const ATTRIBUTES = 'attributes'
type Cells = Record<(typeof COLUMNS)[number] | typeof STOCK | typeof ATTRIBUTES, string>

/** The line above the first product, without a line end; null for none. */
export function exportHeader(format: ImportFormat, withStock: boolean): string | null {
  return format === 'csv' ? columns(withStock).join(',') : null
}

/** The line (in CSV perhaps several) that `readImportLines` reads as this product, without a line end. */
export function exportLine(product: ImportedProduct, format: ImportFormat, withStock: boolean): string {
  return format === 'csv' ? toCsv(product, withStock) : JSON.stringify(product)
}

function columns(withStock: boolean): readonly (keyof Cells)[] {
  return [...COLUMNS, ...(withStock ? ([STOCK] as const) : []), ATTRIBUTES]
}

function toCsv(product: ImportedProduct, withStock: boolean): string {
  const { price, group, options, attributes, stock } = product
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
