import { COLUMNS } from './import-csv.ts'
import type { ImportFormat } from './import-lines.ts'
import type { ImportedProduct } from './imported-product.ts'
import { formatMajorUnits } from './price-text.ts'

/** What stands above the first product, without a line end; null for nothing. */
export function exportHeader(format: ImportFormat): string | null {
  return format === 'csv' ? COLUMNS.join(',') : null
}

/** The line (in CSV perhaps several) that `readImportLines` makes this product of again, without a line end. */
export function exportLine(product: ImportedProduct, format: ImportFormat): string {
  return format === 'csv' ? toCsv(product) : JSON.stringify(product)
}

function toCsv(product: ImportedProduct): string {
  const { price, group, options, stock } = product
  const cells: Record<(typeof COLUMNS)[number], string> = {
    sku: product.sku,
    name: product.name,
    description: product.description,
    category: product.category,
    image_url: product.image_url ?? '',
    price: formatMajorUnits(price),
    currency: price.currency,
    stock: stock === null ? '' : String(stock),
    group: group ?? '',
    options: Object.keys(options).length === 0 ? '' : JSON.stringify(options),
  }
  return COLUMNS.map((column) => quoted(cells[column])).join(',')
}

/** RFC 4180 §2. */
function quoted(cell: string): string {
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
}
