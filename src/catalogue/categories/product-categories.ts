import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { AppError } from '../../errors.ts'
import type { CategoryReference, ProductInput } from '../product-input.ts'
import { type CategoryFault, findOrCreate } from './create-categories.ts'

/** A product's categories in order, and the first one's name. `ids` is null if the product names only that one. */
export interface ResolvedCategories {
  name: string
  ids: readonly string[] | null
}

type Named = Pick<ProductInput, 'category' | 'categories'>

/** Throws `invalid_body` for a fault. */
export function assertResolved(resolved: ResolvedCategories | CategoryFault = { name: '', ids: null }): ResolvedCategories {
  if (!('fault' in resolved)) return resolved
  throw new AppError('invalid_body', 'The body is not acceptable.', { errors: [{ pointer: `#/${resolved.at}`, detail: resolved.fault }] })
}

/**
 * Resolves products' categories and locks them, so they cannot be renamed or deleted. Returns the fault instead if a
 * product cannot have its categories. Creates missing categories of paths. It may lock the tree, so call it before
 * taking other locks.
 */
export async function resolveCategories(tx: Transaction, products: readonly Named[]): Promise<(ResolvedCategories | CategoryFault)[]> {
  const slugs = [...new Set(products.flatMap(({ categories = [] }) => categories.filter((each) => typeof each === 'string')))]
  const texts = [...new Set(products.flatMap(({ category, categories }) => (categories === undefined ? (category ?? []) : [])))]
  const bySlug = await findSlugs(tx, slugs)
  const unknown = products.map(({ categories = [] }) => categories.findIndex((each) => typeof each === 'string' && !bySlug.has(each)))
  // Refused products must not create categories, which would stay.
  const accepted = products.map((product, index) => (unknown[index] === -1 ? product : {}))
  const { ids, faults } = await findOrCreate(tx, accepted, texts)
  const idOf = (reference: CategoryReference) =>
    typeof reference === 'string' ? bySlug.get(reference) : ids.get(JSON.stringify(reference))
  const names = await lockCategories(tx, [...new Set([...bySlug.values(), ...ids.values()])], texts)
  return products.map((product, index) => {
    const { category, categories } = product
    const fault = faults.get(index)
    if (fault !== undefined) return fault
    if (categories === undefined) return { name: category ?? '', ids: null }
    const at = unknown[index] ?? -1
    if (at !== -1) return { fault: `there is no category with the slug ${categories[at]}`, at: `categories/${at}` }
    const found = categories.map(idOf)
    const missing = found.findIndex((id) => id === undefined || !names.has(id))
    if (missing !== -1) return { fault: 'the category was deleted a moment ago', at: `categories/${missing}` }
    // Two references may mean the same category.
    const distinct = [...new Set(found as string[])]
    const name = names.get(distinct[0] ?? '') ?? ''
    if (category === undefined || category === name) return { name, ids: distinct }
    return { fault: 'category must be the name of the first of the categories', at: 'category' }
  })
}

async function findSlugs(tx: Transaction, slugs: readonly string[]): Promise<Map<string, string>> {
  if (slugs.length === 0) return new Map()
  const { rows } = await tx.query<{ text: string; id: string }>(
    sql`select text, category.id from unnest(${slugs}::text[]) as text join categories as category on category.slug = slug_of(text)`,
  )
  return new Map(rows.map(({ text, id }) => [text, id]))
}

/** Returns the category names by id. Also locks the categories that `texts` name. */
async function lockCategories(tx: Transaction, ids: readonly string[], texts: readonly string[]): Promise<Map<string, string>> {
  if (ids.length + texts.length === 0) return new Map()
  const { rows } = await tx.query<{ id: string; name: string }>(
    sql`select id, name from categories where id = any(${ids}::uuid[]) or name = any(${texts}::text[]) order by id for key share`,
  )
  return new Map(rows.map(({ id, name }) => [id, name]))
}

/**
 * Replaces the categories of locked products that name them. Returns the ids of products whose categories or their
 * order changed.
 */
export async function saveCategories(
  tx: Transaction,
  products: readonly { id: string; category: ResolvedCategories }[],
): Promise<string[]> {
  const wanted = products.flatMap(({ id, category }) => (category.ids ?? []).map((categoryId, position) => ({ id, categoryId, position })))
  if (wanted.length === 0) return []
  const { rows } = await tx.query<{ id: string }>(
    sql`with wanted as materialized (
       select product_id, category_id, position
       from unnest(
         ${wanted.map(({ id }) => id)}::uuid[], ${wanted.map(({ categoryId }) => categoryId)}::uuid[], ${wanted.map(({ position }) => position)}::integer[]
       ) as wanted (product_id, category_id, position)
     ), present as (
       select product_id, array_agg(category_id order by position) as ids
       from product_categories
       where product_id in (select product_id from wanted)
       group by product_id
     ), removed as (
       delete from product_categories as stored
       where stored.product_id in (select product_id from wanted)
         and not exists (select from wanted where wanted.product_id = stored.product_id and wanted.category_id = stored.category_id)
     ), placed as (
       insert into product_categories as stored (product_id, category_id, position, is_listed, price_amount, created_at, name)
       select wanted.product_id, wanted.category_id, wanted.position, product.archived_at is null, product.price_amount, product.created_at,
         product.name
       from wanted
       join products as product on product.id = wanted.product_id
       order by wanted.product_id, wanted.category_id
       on conflict (product_id, category_id) do update set position = excluded.position where stored.position <> excluded.position
     )
     select product_id as id
     from wanted
     left join present using (product_id)
     group by product_id, present.ids
     having array_agg(category_id order by position) is distinct from present.ids`,
  )
  return rows.map(({ id }) => id)
}
