import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { Pool } from '../../db/pool.ts'
import { inTransaction } from '../../db/transaction.ts'
import { readImportLines } from './import-lines.ts'
import type { ImportedProduct } from './imported-product.ts'
import { upsertProducts } from './upsert-products.ts'

const SAMPLE = new URL('./sample-catalogue.ndjson', import.meta.url)
/** The sample's placeholder for the store's address, where its pictures are. */
const BASE_URL = '{base_url}'

/**
 * Loads the sample catalogue into a store without products, in one transaction. Returns whether it did. Processes that
 * start together load it once. Its pictures are below `baseUrl`.
 */
export async function loadSampleCatalogue(pool: Pool, baseUrl: string): Promise<boolean> {
  return inTransaction(pool, async (tx) => {
    await tx.query(`select pg_advisory_xact_lock(hashtextextended('storefront sample catalogue', 0))`)
    // A separate statement after the lock sees what the lock's previous holder has committed.
    const { rows } = await tx.query<{ has_products: boolean }>('select exists (select from products) as has_products')
    if (rows[0]?.has_products === true) return false
    const products = await readSample(baseUrl)
    // Reduced products get their former price first, since `lowest_price_30_days` comes from earlier prices.
    await upsertProducts(tx, products.flatMap(atFormerPrice), null)
    await upsertProducts(tx, products, null)
    return true
  })
}

function atFormerPrice(product: ImportedProduct): ImportedProduct[] {
  const { compare_at_price: price } = product
  if (price === null) return []
  const prices = product.prices?.map((one) => ({ ...one, amount: one.compare_at ?? one.amount, compare_at: null }))
  return [{ ...product, price, compare_at_price: null, ...(prices !== undefined && { prices }) }]
}

async function readSample(baseUrl: string): Promise<ImportedProduct[]> {
  const text = (await readFile(SAMPLE, 'utf8')).replaceAll(BASE_URL, () => baseUrl)
  return Array.fromAsync(readImportLines(Readable.from([Buffer.from(text)]), { format: 'ndjson', currency: 'EUR' }), (read) => {
    if ('error' in read) throw new Error(`line ${read.line} of the sample catalogue: ${read.error}`)
    return read.product
  })
}
