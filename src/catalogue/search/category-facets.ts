import { type Static, Type } from 'typebox'
import type { Queryable } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'

export const CategoryFacetsSchema = Type.Array(
  Type.Object({
    category: Type.String({ description: 'The name of the category.' }),
    slug: Type.String(),
    count: Type.Integer({ minimum: 0, description: 'Counts the products in the category and below it.' }),
  }),
  { description: 'The 100 categories with the most products. With `category`, only categories below it.' },
)
export type CategoryFacets = Static<typeof CategoryFacetsSchema>

const MAX_CATEGORIES = 100

/** A set of categories that some products share, and the number of these products. */
export interface CategorySet {
  ids: readonly string[]
  count: number
}

interface Node {
  id: string
  parent_id: string | null
  slug: string
  name: string
}

/**
 * The number of products in each category and its ancestors; each product counts once for each. `within` limits the
 * categories; null for all.
 */
export async function countCategories(
  db: Queryable,
  sets: readonly CategorySet[],
  within: readonly string[] | null,
): Promise<CategoryFacets> {
  const { rows } = await db.query<Node>(
    sql`with recursive above as (
       select id, parent_id, slug, name from categories where id = any(${[...new Set(sets.flatMap(({ ids }) => ids))]}::uuid[])
       union
       select category.id, category.parent_id, category.slug, category.name
       from above
       join categories as category on category.id = above.parent_id
     )
     select id, parent_id, slug, name from above`,
  )
  const nodes = new Map(rows.map((row) => [row.id, row]))
  const counts = new Map<Node, number>()
  for (const { ids, count } of sets) {
    const reached = new Set<Node>()
    for (const id of ids) {
      for (let node = nodes.get(id); node !== undefined && !reached.has(node); node = nodes.get(node.parent_id ?? '')) reached.add(node)
    }
    for (const node of reached) counts.set(node, (counts.get(node) ?? 0) + count)
  }
  const shown = within === null ? null : new Set(within)
  return [...counts]
    .filter(([{ id }]) => shown === null || shown.has(id))
    .map(([{ name, slug }, count]) => ({ category: name, slug, count }))
    .sort((a, b) => b.count - a.count || (a.category < b.category ? -1 : 1))
    .slice(0, MAX_CATEGORIES)
}
