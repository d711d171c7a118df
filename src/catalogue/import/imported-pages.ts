import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { CURRENT_SLUG, changeSlugs, SLUG_RULE } from '../slugs.ts'
import type { ImportedProduct } from './imported-product.ts'

/** The slug of a line, null for none, or the reason for the refusal of the line. */
export type SlugDecision = { slug: string | null } | { refusal: string }

/**
 * Decides on the slugs in lines: one that belongs or belonged to another product, or to an earlier line's, is refused.
 */
export async function decideSlugs(tx: Transaction, products: readonly ImportedProduct[]): Promise<Map<ImportedProduct, SlugDecision>> {
  const named = products.filter(({ slug }) => slug !== undefined)
  if (named.length === 0) return new Map()
  const { rows } = await tx.query<{ at: number; slug: string | null; owner: string | null }>(
    sql`select line.at, wanted.slug, product.sku as owner
     from unnest(${named.map(({ slug }) => slug)}::text[]) with ordinality as line (text, at)
     cross join slug_of(line.text) as wanted (slug)
     left join product_slugs as taken on taken.slug = wanted.slug
     left join products as product on product.id = taken.product_id
     order by line.at`,
  )
  const owners = new Map<string, string>()
  return new Map(
    rows.map(({ at, slug, owner }): [ImportedProduct, SlugDecision] => {
      const product = named[at - 1] as ImportedProduct
      if (slug === null) return [product, { refusal: SLUG_RULE }]
      const other = owner ?? owners.get(slug) ?? product.sku
      owners.set(slug, other)
      return [product, other === product.sku ? { slug } : { refusal: `slug ${slug} is or was that of the product with the sku ${other}` }]
    }),
  )
}

/** Stores what only the pages of these products show, and the slugs that differ, from `import_rows`. */
export async function writePages(tx: Transaction, skus: readonly string[]): Promise<void> {
  if (skus.length === 0) return
  await tx.query(
    sql`with input as (
       select product.id, images, seo_title, seo_description, availability_text,
         coalesce(images::text, seo_title, seo_description, availability_text) is not null as has_any
       from import_rows
       join products as product on product.sku = import_rows.sku
       where product.sku = any(${skus})
     ), emptied as (
       delete from product_pages using input where product_pages.product_id = input.id and not has_any
     )
     insert into product_pages (product_id, images, seo_title, seo_description, availability_text)
     select id, coalesce(images, '[]'), seo_title, seo_description, availability_text from input where has_any
     on conflict (product_id) do update set
       images = excluded.images,
       seo_title = excluded.seo_title,
       seo_description = excluded.seo_description,
       availability_text = excluded.availability_text`,
  )
  const { rows: changes } = await tx.query<{ productId: string; slug: string }>(
    sql`select product.id as "productId", import_rows.slug
     from import_rows
     join products as product on product.sku = import_rows.sku
     where product.sku = any(${skus}) and import_rows.slug is not null and import_rows.slug <> ${CURRENT_SLUG}`,
  )
  if (changes.length > 0) await changeSlugs(tx, changes)
}
