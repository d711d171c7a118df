import { createReadStream } from 'node:fs'
import type { Pool } from '../../db/pool.ts'
import { inTransaction } from '../../db/transaction.ts'
import { readImportLines } from './import-lines.ts'
import type { ImportedProduct } from './imported-product.ts'
import { upsertProducts } from './upsert-products.ts'

const SAMPLE = new URL('./sample-catalogue.ndjson', import.meta.url)

/**
 * Loads the sample catalogue, in one transaction, into a store without products. Returns whether it did. Processes that start together load
 * it once.
 */
export async function loadSampleCatalogue(pool: Pool): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    await tx.query(`select pg_advisory_xact_lock(hashtextextended('storefront sample catalogue', 0))`)
    // A separate statement after the lock: it sees what the process that had the lock has committed.
    const { rows } = await tx.query<{ has_products: boolean }>('select exists (select from products) as has_products')
    if (rows[0]?.has_products === true) return false
    const products = await readSample()
    // Reduced products get their former price first: `lowest_price_30_days` comes from prices that were in effect.
    await upsertProducts(tx, products.flatMap(atFormerPrice), null)
    await upsertProducts(tx, products, null)
    return true
  })
}

function atFormerPrice(product: ImportedProduct): ImportedProduct[] {
  const { compare_at_price: price } = product
  return price === null ? [] : [{ ...product, price, compare_at_price: null }]
}

function readSample(): Promise<ImportedProduct[]> {
  return Array.fromAsync(readImportLines(createReadStream(SAMPLE), { format: 'ndjson', currency: 'EUR' }), (read) => {
    if ('error' in read) throw new Error(`line ${read.line} of the sample catalogue: ${read.error}`)
    return read.product
  })
}
