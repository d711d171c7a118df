import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'

/** Notified by triggers with every change of the catalogue. */
export const CATALOGUE_CHANNEL = 'storefront_catalogue'

/** The tag of every answer of the catalogue. */
export const CATALOGUE_TAG = 'catalogue'
/** The tag of every list: any change of a product can change any list. */
export const LISTS_TAG = 'products'

/** The tag of the pages of this product, its id in 22 characters: proxies bound the headers of an answer. Lists do without it. */
export function productTag(id: string): string {
  return Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url')
}

const MAX_CHANGES = 500
/**
 * Most product tags of one purge: with the tag of lists they fit into one call to any cache (see `purger.ts`). More
 * products purge everything by one tag.
 */
const MAX_NAMED = 99

/** Removes changes from the outbox and returns the tags to purge. Of several processes that call it, each change goes to one. */
export async function takeChangedTags(tx: Transaction): Promise<string[]> {
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
  if (rows.length === 0) return []
  // A null stands for too many products to be named.
  const ids = new Set(rows.flatMap(({ product_ids }) => product_ids ?? [null]))
  const named = [...ids].filter((id) => id !== null)
  return named.length < ids.size || named.length > MAX_NAMED ? [CATALOGUE_TAG] : [LISTS_TAG, ...named.sort().map(productTag)]
}
