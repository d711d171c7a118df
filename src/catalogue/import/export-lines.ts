import { formatMajorUnits } from '../../money.ts'
import { NOT_TRACKED } from './import-csv.ts'
import type { ImportFormat } from './import-lines.ts'
import type { ImportedProduct } from './imported-product.ts'

const COLUMNS = ['sku', 'name', 'description', 'category', 'image_url', 'price', 'currency', 'group', 'options'] as const
const STOCK = 'stock'
type Cells = Record<(typeof COLUMNS)[number] | typeof STOCK, string>

/** The line above the first product, without a line end; null for none. */
export function exportHeader(format: ImportFormat, withStock: boolean): string | null {
  return format === 'csv' ? columns(withStock).join(',') : null
}

/** The line (in CSV perhaps several) that `readImportLines` reads as this product, without a line end. */
export function exportLine(product: ImportedProduct, format: ImportFormat, withStock: boolean): string {
  return format === 'csv' ? toCsv(product, withStock) : JSON.stringify(product)
}

function columns(withStock: boolean): readonly (keyof Cells)[] {
  return withStock ? [...COLUMNS, STOCK] : COLUMNS
}

function toCsv(product: ImportedProduct, withStock: boolean): string {
  const { price, group, options, stock } = product
  const cells: Cells = {
    sku: product.sku,
    name: product.name,
    description: product.description,
    category: product.category,
    image_url: product.image_url ?? '',
    price: formatMajorUnits(price),
    currency: price.currency,
    group: group ?? '',
    options: Object.keys(options).length === 0 ? '' : JSON.stringify(options),
    stock: stock === null ? NOT_TRACKED : String(stock ?? ''),
  }
  return columns(withStock)
    .map((column) => quoted(cells[column]))
    .join(',')
}

/** RFC 4180 §2. */
function quoted(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}
