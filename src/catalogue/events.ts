import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

/** The channel that is notified in the transaction of every change of a product. */
export const LISTEN_TO_CATALOGUE = 'listen storefront_catalogue'

/** The tag of every answer of the catalogue. */
export const CATALOGUE_TAG = 'catalogue'
/** The tag of every list: any change of a product can change any list. */
export const LISTS_TAG = 'products'

/** The tag of answers that contain this product. */
export function productTag(id: string): string {
  return `product-${id}`
}

/** Products that changed; null: too many to be named. */
export interface CatalogueChanges {
  productIds: string[] | null
}

const MAX_CHANGES = 500

/**
 * Removes changes from the outbox, in the caller's transaction. Null when there are none. Several processes may call it at once: each change
 * goes to one of them.
 */
export async function takeCatalogueChanges(tx: Transaction): Promise<CatalogueChanges | null> {
  const { rows } = await tx.query<{ product_ids: string[] | null }>(
    sql`delete from catalogue_changes
     where id in (
       select id
       from catalogue_changes
       order by id
       limit ${MAX_CHANGES}
       for update skip locked
     )
     returning product_ids`,
  )
  if (rows.length === 0) return null
  const ids = new Set<string>()
  for (const { product_ids } of rows) {
    if (product_ids === null) return { productIds: null }
    for (const id of product_ids) ids.add(id)
  }
  return { productIds: ids.size > MAX_CHANGES ? null : [...ids].sort() }
}

/** The tags to purge after `changes`. */
export function tagsOf({ productIds }: CatalogueChanges): string[] {
  return productIds === null ? [CATALOGUE_TAG] : [LISTS_TAG, ...productIds.map(productTag)]
}
