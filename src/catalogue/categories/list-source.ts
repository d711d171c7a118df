import { allOf, noSql, type Sql, sql } from '../../db/sql.ts'
import type { LocatedFilters } from '../product-query.ts'
import { filterConditions, matchConditions, type TextQuery } from '../search/filter-sql.ts'

/** A list's order. `column` is the products' sort key, `memberColumn` its copy in `product_categories`. */
export interface ListOrder {
  column: Sql
  memberColumn: Sql
  direction: Sql
  /** The conditions for the start of the page, on a sort key and an id. */
  beyond: (key: Sql) => readonly Sql[]
  limit: Sql
}

/** SQL after `from` and `where` with products as `product`, and each row's sort key and id, which order an index. */
export interface ListSource {
  from: Sql
  conditions: readonly Sql[]
  key: Sql
  id: Sql
}

export type MatchSource = Pick<ListSource, 'from' | 'conditions'>

/** The matching products in any order. With one category it includes the members, so the planner can start there. */
export function matchSource(filters: LocatedFilters, textQuery: TextQuery): MatchSource {
  const { categoryIds, soldIds } = filters
  if (soldIds !== null || categoryIds?.length !== 1) {
    return { from: productsSource(filters), conditions: filterConditions('product', filters, textQuery) }
  }
  return {
    from: sql`product_categories as member ${WITH_PRODUCTS}`,
    conditions: [
      sql`member.category_id = ${categoryIds[0]}::uuid and member.is_listed`,
      ...filterConditions('product', { ...filters, categoryIds: null }, textQuery),
    ],
  }
}

/** A join with the few ids keeps the planner from walking an index of the order until it finds them all. */
function productsSource({ soldIds }: LocatedFilters): Sql {
  if (soldIds === null) return sql`products as product`
  return sql`unnest(${soldIds}::uuid[]) as sold (id) join products as product on product.id = sold.id`
}

const WITH_PRODUCTS = sql`join products as product on product.id = member.product_id`

/**
 * The matching products in the order of an index: all products, one category's members, or the merged first members of
 * several categories. `others` are conditions on `product`. See docs/decisions/catalogue-categories.md.
 */
export function listSource(filters: LocatedFilters, textQuery: TextQuery, others: readonly Sql[], order: ListOrder): ListSource {
  const { categoryIds, soldIds } = filters
  const { column, memberColumn, direction, beyond, limit } = order
  if (soldIds !== null || categoryIds === null || categoryIds.length === 0 || (categoryIds.length > 1 && isSelective(filters))) {
    return {
      from: productsSource(filters),
      conditions: [...filterConditions('product', filters, textQuery), ...others, ...beyond(sql`(product.${column}, product.id)`)],
      key: sql`product.${column}`,
      id: sql`product.id`,
    }
  }
  // Members have the product's own price and whether it is archived. Each further condition costs planning time.
  const hasPrice = filters.currency === null
  const { minPrice, maxPrice } = hasPrice ? filters : { minPrice: null, maxPrice: null }
  const rest = { ...filters, categoryIds: null, ...(hasPrice ? { minPrice: null, maxPrice: null } : {}) }
  // The indexes of other filters contain only products that are not archived.
  const conditionsOf = isSelective(filters) ? filterConditions : matchConditions
  const matching = [...conditionsOf('product', rest, textQuery), ...others]
  const ofCategory = (id: Sql) => [
    sql`member.category_id = ${id} and member.is_listed`,
    ...(minPrice === null ? [] : [sql`member.price_amount >= ${minPrice}::bigint`]),
    ...(maxPrice === null ? [] : [sql`member.price_amount <= ${maxPrice}::bigint`]),
    ...beyond(sql`(member.${memberColumn}, member.product_id)`),
  ]
  const place = { key: sql`member.${memberColumn}`, id: sql`member.product_id` }
  if (categoryIds.length === 1) {
    const conditions = [...ofCategory(sql`${categoryIds[0]}::uuid`), ...matching]
    return { from: sql`product_categories as member ${WITH_PRODUCTS}`, conditions, ...place }
  }
  const isPlain = matching.length === 0
  return {
    from: sql`(
      select distinct first.${memberColumn}, first.product_id
      from unnest(${categoryIds}::uuid[]) as wanted (id)
      cross join lateral (
        select member.${memberColumn}, member.product_id
        from product_categories as member
        ${isPlain ? noSql : WITH_PRODUCTS}
        where ${allOf([...ofCategory(sql`wanted.id`), ...(isPlain ? [] : matching)])}
        order by ${place.key} ${direction}, ${place.id} ${direction}
        ${limit}
      ) as first
      order by first.${memberColumn} ${direction}, first.product_id ${direction}
      ${limit}
    ) as member
    ${WITH_PRODUCTS}`,
    conditions: [],
    ...place,
  }
}

/** Whether few products may match, so the planner must choose where to begin. */
function isSelective({ search, brand, inStock, ids, group, attributes }: LocatedFilters): boolean {
  return inStock === false || [search, brand, ids, group, attributes].some((value) => value !== null)
}
