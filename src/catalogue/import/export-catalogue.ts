import type { Pool } from '../../db/pool.ts'
import { literal, sql } from '../../db/sql.ts'
import { exportHeader, exportLine } from './export-lines.ts'
import type { ImportFormat } from './import-lines.ts'
import type { ImportedProduct } from './imported-product.ts'

const FETCH_SIZE = 2_000

interface ExportedRow extends Omit<ImportedProduct, 'price' | 'group' | 'stock'> {
  stock: number | null
  variant_group: string | null
  price_amount: number
  price_currency: string
}

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
       select sku, name, description, category, image_url, variant_group, options, price_amount, price_currency, available as stock
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

function toProduct({ variant_group, price_amount, price_currency, ...rest }: ExportedRow, withStock: boolean): ImportedProduct {
  const { sku, name, description, category, image_url, options, stock } = rest
  const price = { amount: price_amount, currency: price_currency }
  return { sku, name, description, category, image_url, group: variant_group, options, price, ...(withStock ? { stock } : {}) }
}
