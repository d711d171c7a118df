import { createHash } from 'node:crypto'
import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { RankedSort } from './product-query.ts'

/** Triggers notify it with every catalogue change. */
export const CATALOGUE_CHANNEL = 'storefront_catalogue'

/** The tag of every catalogue answer. */
export const CATALOGUE_TAG = 'catalogue'
/** The tag of every list, because any product change can change any list. */
export const LISTS_TAG = 'products'

/** The tag of a product's pages: its id in 22 characters, because proxies limit headers. Lists omit it. */
export function productTag(id: string): string {
  return Buffer.from(id.replaceAll('-', ''), 'hex').toString('base64url')
}

/** The tag of pages that show all variants of a group. Headers would be too long with the tag of each variant. */
export function groupTag(group: string): string {
  return createHash('sha256').update(group).digest('base64url').slice(0, 22)
}

/** The tag of lists by the ranking of a category or the whole shop. The trigger of `product_rankings` writes it. */
export function rankingTag(sort: RankedSort, categoryId: string | null): string {
  return categoryId === null ? sort : `${sort}-${categoryId}`
}

const MAX_CHANGES = 500
/**
 * The most tags of products and groups in a purge. With the tag of lists they fit into one call to any cache (see
 * `purger.ts`). For more, one tag purges everything.
 */
const MAX_NAMED = 99
/** The most ranking tags in a purge, which are about ten calls. For more rankings, one tag purges all lists. */
const MAX_RANKINGS = 1_000

/** Removes changes from the outbox and returns the tags to purge. Each change goes to one of the calling processes. */
export async function takeChangedTags(tx: Transaction): Promise<string[]> {
  const { rows } = await tx.query<{ product_ids: string[] | null; list_tags: string[] | null; variant_groups: string[] | null }>(
    sql`delete from catalogue_changes
     where id in (
       select id
       from catalogue_changes
       order by id
       limit ${MAX_CHANGES}
       for update skip locked
     )
     returning product_ids, list_tags, variant_groups`,
  )
  if (rows.length === 0) return []
  // A null stands for more products than can be named.
  const ids = new Set(rows.filter(({ list_tags }) => list_tags === null).flatMap(({ product_ids }) => product_ids ?? [null]))
  const groups = new Set(rows.flatMap(({ variant_groups }) => variant_groups ?? []))
  const named = [...[...ids].filter((id) => id !== null).map(productTag), ...[...groups].map(groupTag)]
  if (ids.has(null) || named.length > MAX_NAMED) return [CATALOGUE_TAG]
  const rankings = new Set(rows.flatMap(({ list_tags }) => list_tags ?? []))
  const isOfAllLists = rows.some(({ list_tags }) => list_tags === null) || rankings.size > MAX_RANKINGS
  return isOfAllLists ? [LISTS_TAG, ...named.sort()] : [...rankings].sort()
}
