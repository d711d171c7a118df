import { type Static, Type } from 'typebox'
import type { Queryable, Transaction } from '../../db/pool.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { notFound } from '../../errors.ts'
import { entityTag } from '../../http/cacheable.ts'
import { EXAMPLE_CATEGORY } from '../examples.ts'

/**
 * A limit for new categories. Stores may have more from product texts of earlier releases, and the previous release may
 * still add some.
 */
export const MAX_CATEGORIES = 10_000

const Id = Type.String({ format: 'uuid' })

export const CategorySchema = Type.Object(
  {
    id: Id,
    slug: Type.String({ description: 'The end of the address of its page in the shop. Unique in the store.' }),
    name: Type.String({ description: 'Unique among its siblings.' }),
    parent_id: Type.Union([Id, Type.Null()], { description: 'Null for a top-level category.' }),
    position: Type.Integer({ description: 'Its place among its siblings, counted from 0.' }),
    depth: Type.Integer({ description: 'The number of categories above it, so 0 for a top-level category.' }),
  },
  { title: 'Category', examples: [EXAMPLE_CATEGORY] },
)
export type Category = Static<typeof CategorySchema>

/**
 * The tree, each category before its descendants. `isComplete` is false if only the first MAX_CATEGORIES are returned.
 */
export async function readTree(db: Queryable): Promise<{ categories: Category[]; isComplete: boolean }> {
  const { rows } = await db.query<Category>(
    sql`with recursive placed as (
       select ${PLACED} from categories
     ), tree as (
       select placed.*, 0 as depth, array[position] as path from placed where parent_id is null
       union all
       select placed.*, tree.depth + 1, tree.path || placed.position
       from tree
       join placed on placed.parent_id = tree.id
     )
     select id, slug, name, parent_id, position, depth
     from tree
     order by path
     limit ${MAX_CATEGORIES + 1}`,
  )
  return { categories: rows.slice(0, MAX_CATEGORIES), isComplete: rows.length <= MAX_CATEGORIES }
}

/** The names from the root to each category, by its id. */
export async function readNames(db: Queryable): Promise<Map<string, string[]>> {
  const { rows } = await db.query<{ id: string; names: string[] }>(
    `with recursive tree as (
       select id, array[name] as names from categories where parent_id is null
       union all
       select categories.id, tree.names || categories.name from tree join categories on categories.parent_id = tree.id
     )
     select id, names from tree`,
  )
  return new Map(rows.map(({ id, names }) => [id, names]))
}

/** How many categories may be added. The tree must be locked. */
export async function countRoom(tx: Transaction): Promise<number> {
  const { rows } = await tx.query<{ count: number }>('select count(*) as count from categories')
  return Math.max(0, MAX_CATEGORIES - (rows[0]?.count ?? 0))
}

/** The columns of a category with its place among its siblings. */
const PLACED = sql`id, slug, name, parent_id,
  (row_number() over (partition by parent_id order by position, name, id) - 1)::integer as position`

/** Throws `not_found`. */
export async function getCategory(db: Queryable, id: string): Promise<Category> {
  const { rows } = await db.query<Category>(
    sql`select id, slug, name, parent_id, position, json_array_length(category_path(id)) - 1 as depth
     from (
       select ${PLACED}
       from categories
       where parent_id is not distinct from (select parent_id from categories where id = ${id})
     ) as sibling
     where id = ${id}`,
  )
  if (rows[0] === undefined) throw notFound('category')
  return rows[0]
}

/** A category's entity tag, without quotes. It differs after every change of the category or its place. */
export function categoryETag(category: Category): string {
  return entityTag(JSON.stringify(category))
}

const TREE = sql`hashtextextended('storefront categories', 0)`

/**
 * Keeps other transactions from changing the tree. Take this lock before locking categories, stock or products:
 * docs/decisions/catalogue-categories.md.
 */
export async function lockTree(tx: Transaction): Promise<void> {
  await tx.query(sql`select pg_advisory_xact_lock(${TREE})`)
}

/** Shares the lock of `lockTree` with other callers. A waiting `lockTree` precedes later calls. */
export async function shareTree(tx: Transaction): Promise<void> {
  await tx.query(sql`select pg_advisory_xact_lock_shared(${TREE})`)
}

const Step = Type.Object({ id: Id, slug: Type.String(), name: Type.String() })

export const ProductCategoriesSchema = Type.Array(
  Type.Object({
    ...Step.properties,
    path: Type.Array(Step, { description: 'The categories from the top level to this one, which is included.' }),
  }),
  { description: 'The categories in the order that the shop has chosen. The first one is `category`.' },
)
export type ProductCategories = Static<typeof ProductCategoriesSchema>

/** A product's categories in its events. Moving a category does not change them. */
export const EventCategoriesSchema = Type.Array(Step, {
  description: 'The first one is `category`. The list is empty while the product is archived.',
})

/** The categories of the alias `product`, as ProductCategories. */
export const PRODUCT_CATEGORIES: Sql = sql`(
  select coalesce(json_agg(
    json_build_object('id', category.id, 'slug', category.slug, 'name', category.name, 'path', category_path(category.id))
    order by member.position
  ), '[]')
  from product_categories as member
  join categories as category on category.id = member.category_id
  where member.product_id = product.id
)`

/** The category ids of the alias `product`, in its order. */
export const CATEGORY_IDS = sql`array(
  select member.category_id from product_categories as member where member.product_id = product.id order by member.position
)`

/** Categories by id, as products show them. */
export async function readProductCategories(db: Queryable, ids: readonly string[]): Promise<Map<string, ProductCategories[number]>> {
  const { rows } = await db.query<ProductCategories[number]>(
    sql`select id, slug, name, category_path(id) as path from categories where id = any(${ids}::uuid[])`,
  )
  return new Map(rows.map((row) => [row.id, row]))
}
