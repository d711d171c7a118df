import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { Pool } from '../../db/pool.ts'
import { inTransaction } from '../../db/transaction.ts'
import { readImportLines } from './import-lines.ts'
import type { ImportedProduct } from './imported-product.ts'
import { upsertProducts } from './upsert-products.ts'

const SAMPLE = new URL('./sample-catalogue.ndjson', import.meta.url)
/** Where the sample has the address of the store, which serves its pictures. */
const BASE_URL = '{base_url}'

/**
 * Loads the sample catalogue, in one transaction, into a store without products. Returns whether it did. Processes that start together load
 * it once. Its pictures are below `baseUrl`.
 */
export async function loadSampleCatalogue(pool: Pool, baseUrl: string): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    await tx.query(`select pg_advisory_xact_lock(hashtextextended('storefront sample catalogue', 0))`)
    // A separate statement after the lock: it sees what the process that had the lock has committed.
    const { rows } = await tx.query<{ has_products: boolean }>('select exists (select from products) as has_products')
    if (rows[0]?.has_products === true) return false
    const products = await readSample(baseUrl)
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

async function readSample(baseUrl: string): Promise<ImportedProduct[]> {
  const text = (await readFile(SAMPLE, 'utf8')).replaceAll(BASE_URL, () => baseUrl)
  return Array.fromAsync(readImportLines(Readable.from([Buffer.from(text)]), { format: 'ndjson', currency: 'EUR' }), (read) => {
    if ('error' in read) throw new Error(`line ${read.line} of the sample catalogue: ${read.error}`)
    return read.product
  })
}
