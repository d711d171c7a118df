import { type Static, Type } from 'typebox'
import type { Queryable, Transaction } from '../../db/pool.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { notFound } from '../../errors.ts'
import { entityTag } from '../../http/cacheable.ts'
import { EXAMPLE_CATEGORY } from '../examples.ts'

/**
 * The limit for adding categories. A store may have more, because earlier releases made categories from product texts,
 * and the previous release may still add some.
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
 * Returns the tree with each category before its descendants. `isComplete` is false if the store has more than
 * MAX_CATEGORIES and only the first ones are returned.
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

/** The path of each category, as names from the root, by category id. */
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

/** The number of categories that may still be added. The tree must be locked. */
export async function countRoom(tx: Transaction): Promise<number> {
  const { rows } = await tx.query<{ count: number }>('select count(*) as count from categories')
  return Math.max(0, MAX_CATEGORIES - (rows[0]?.count ?? 0))
}

/** The columns of a category, including its place among its siblings. */
const PLACED = sql`id, slug, name, parent_id,
  (row_number() over (partition by parent_id order by position, name, id) - 1)::integer as position`

/** Returns a category. Throws `not_found`. */
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

/** A category's entity tag, without quotes. It differs after each change of the category or of its place. */
export function categoryETag(category: Category): string {
  return entityTag(JSON.stringify(category))
}

const TREE = sql`hashtextextended('storefront categories', 0)`

/**
 * Keeps other transactions from changing the tree. Take this lock before locking categories, stock or products: see
 * docs/decisions/catalogue-categories.md.
 */
export async function lockTree(tx: Transaction): Promise<void> {
  await tx.query(sql`select pg_advisory_xact_lock(${TREE})`)
}

/**
 * Takes the lock of `lockTree` in shared mode. Callers share it with each other. A waiting `lockTree` comes before
 * later calls of this function.
 */
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

/** The categories of a product in its events. Moving a category does not record new events. */
export const EventCategoriesSchema = Type.Array(Step, {
  description: 'The first one is `category`. The list is empty while the product is archived.',
})

/** SQL for the categories of the alias `product`, as ProductCategories. */
export const PRODUCT_CATEGORIES: Sql = sql`(
  select coalesce(json_agg(
    json_build_object('id', category.id, 'slug', category.slug, 'name', category.name, 'path', category_path(category.id))
    order by member.position
  ), '[]')
  from product_categories as member
  join categories as category on category.id = member.category_id
  where member.product_id = product.id
)`

/** SQL for the category ids of the alias `product`, in the product's order. */
export const CATEGORY_IDS = sql`array(
  select member.category_id from product_categories as member where member.product_id = product.id order by member.position
)`

/** The categories with these ids, in the form in which products show them. */
export async function readProductCategories(db: Queryable, ids: readonly string[]): Promise<Map<string, ProductCategories[number]>> {
  const { rows } = await db.query<ProductCategories[number]>(
    sql`select id, slug, name, category_path(id) as path from categories where id = any(${ids}::uuid[])`,
  )
  return new Map(rows.map((row) => [row.id, row]))
}
