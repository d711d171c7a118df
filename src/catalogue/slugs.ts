import type { Queryable, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { AppError } from '../errors.ts'

/** The current slug of the alias `product`. See docs/decisions/catalogue-slugs.md. */
export const CURRENT_SLUG = sql`(
  select slug from product_slugs where product_slugs.product_id = product.id and product_slugs.retired_at is null
)`

/** The most former slugs that a product keeps, from the newest. */
const MAX_FORMER = 100

/** The refusal of a slug without letters and digits. */
export const SLUG_RULE = 'slug must have a letter or a digit'

/** A text's slug. Throws `invalid_body` if it has none. */
export async function readSlug(db: Queryable, text: string): Promise<string> {
  const { rows } = await db.query<{ slug: string | null }>(sql`select slug_of(${text}) as slug`)
  const slug = rows[0]?.slug ?? null
  if (slug !== null) return slug
  throw new AppError('invalid_body', 'The body is not acceptable.', { errors: [{ pointer: '#/slug', detail: SLUG_RULE }] })
}

/**
 * Gives each product a new slug, and keeps the previous one as a former slug. A product may take back its own former
 * slug. The slug of another product violates `product_slugs_slug_unique`. The products must be locked.
 */
export async function changeSlugs(tx: Transaction, changes: readonly { productId: string; slug: string }[]): Promise<void> {
  if (changes.length === 0) return
  const productIds = changes.map(({ productId }) => productId)
  const change = sql`unnest(${changes.map(({ slug }) => slug)}::text[], ${productIds}::uuid[]) as change (slug, product_id)`
  await tx.query(
    sql`with taken_back as (
       delete from product_slugs
       using ${change}
       where product_slugs.slug = change.slug and product_slugs.product_id = change.product_id
     )
     update product_slugs set retired_at = clock_timestamp() where product_id = any(${productIds}::uuid[]) and retired_at is null`,
  )
  await tx.query(sql`insert into product_slugs (slug, product_id) select slug, product_id from ${change} order by slug collate "C"`)
  await tx.query(
    sql`delete from product_slugs
     where slug in (
       select slug
       from (
         select slug, row_number() over (partition by product_id order by retired_at desc, slug) as place
         from product_slugs
         where product_id = any(${productIds}::uuid[]) and retired_at is not null
       ) as former
       where place > ${MAX_FORMER}
     )`,
  )
}
