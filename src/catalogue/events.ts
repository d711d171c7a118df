import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { RankedSort } from './product-query.ts'

/** The channel that triggers notify of every catalogue change. */
export const CATALOGUE_CHANNEL = 'storefront_catalogue'

/** The tag of every catalogue answer. */
export const CATALOGUE_TAG = 'catalogue'
/** The tag of every list, because any product change can change any list. */
export const LISTS_TAG = 'products'

/**
 * The tag of a product's pages: its id in 22 characters, because proxies limit the size of headers. Lists do not have
 * these tags.
 */
export function productTag(id: string): string {
  return Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url')
}

/**
 * The tag of the lists that follow the ranking of a category, or of the whole shop. The trigger of `product_rankings`
 * builds the same tag.
 */
export function rankingTag(sort: RankedSort, categoryId: string | null): string {
  return categoryId === null ? sort : `${sort}-${categoryId}`
}

const MAX_CHANGES = 500
/**
 * The most product tags in one purge. Together with the tag of lists they fit into one call to any cache (see
 * `purger.ts`). If more products changed, one tag purges all answers.
 */
const MAX_NAMED = 99
/**
 * The most ranking tags in one purge, which are about ten calls. If more rankings changed, one tag purges all lists.
 */
const MAX_RANKINGS = 1_000

/**
 * Removes changes from the outbox and returns the tags to purge. If several processes call this, each change goes to
 * one of them.
 */
export async function takeChangedTags(tx: Transaction): Promise<string[]> {
  const { rows } = await tx.query<{ product_ids: string[] | null; list_tags: string[] | null }>(
    sql`delete from catalogue_changes
     where id in (
       select id
       from catalogue_changes
       order by id
       limit ${MAX_CHANGES}
       for update skip locked
     )
     returning product_ids, list_tags`,
  )
  if (rows.length === 0) return []
  // A null id means that more products changed than can be named.
  const ids = new Set(rows.filter(({ list_tags }) => list_tags === null).flatMap(({ product_ids }) => product_ids ?? [null]))
  const named = [...ids].filter((id) => id !== null)
  if (named.length < ids.size || named.length > MAX_NAMED) return [CATALOGUE_TAG]
  const rankings = new Set(rows.flatMap(({ list_tags }) => list_tags ?? []))
  const isOfAllLists = rows.some(({ list_tags }) => list_tags === null) || rankings.size > MAX_RANKINGS
  return isOfAllLists ? [LISTS_TAG, ...named.sort().map(productTag)] : [...rankings].sort()
}
