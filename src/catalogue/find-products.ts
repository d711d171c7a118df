import type { Pool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inSnapshot } from './catalogue-version.ts'
import { listProducts } from './list-products.ts'
import { readListing } from './product-query.ts'
import type { Product } from './products.ts'
import { MAX_WORDS, parseSearch, toTextQuery } from './search/search-words.ts'

/** The best products that match the typed text, without similar words. */
export async function findProducts(pool: Pool, q: string, limit: number): Promise<Product[]> {
  const search = parseSearch(q)
  if (toTextQuery(search) === '' || search.required.length + search.excluded.length > MAX_WORDS) return []
  const { found } = await inSnapshot(pool, (tx) => listProducts(tx, readListing({ q, limit }), { allowsSimilar: false }))
  return found.page.data
}

/**
 * Ids of matching products. The product with this SKU comes first, even if archived, because orders may still have it.
 */
export async function findProductIds(pool: Pool, q: string, limit: number): Promise<string[]> {
  const { rows } = await pool.query<{ id: string }>(sql`select id from products where sku = ${q.trim().normalize()}`)
  const found = await findProducts(pool, q, limit)
  return [...new Set([...rows, ...found].map(({ id }) => id))].slice(0, limit)
}
