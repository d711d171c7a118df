import { type Sql, sql } from '../../db/sql.ts'
import type { Filters } from '../product-query.ts'

/** A search in the syntax of `tsquery`; null for no search, empty for one that matches nothing. */
export type TextQuery = string | null

const TABLES = { product: sql`product`, other: sql`other` }

/**
 * The conditions for a row of the alias `table` to match the filters; at least one. The statement must be planned for its values: the planner
 * has to see a word to know how frequent it is.
 */
export function filterConditions(table: keyof typeof TABLES, filters: Filters, textQuery: TextQuery): Sql[] {
  const { category, minPrice, maxPrice, inStock, ids, group, attributes } = filters
  const row = TABLES[table]
  const conditions = [sql`${row}.archived_at is null`]
  if (textQuery !== null) conditions.push(sql`${row}.search @@ ${textQueryExpression(textQuery)}`)
  if (category !== null) conditions.push(sql`${row}.category = ${category}`)
  if (minPrice !== null) conditions.push(sql`${row}.price_amount >= ${minPrice}::bigint`)
  if (maxPrice !== null) conditions.push(sql`${row}.price_amount <= ${maxPrice}::bigint`)
  if (inStock !== null) conditions.push(inStock ? sql`${row}.in_stock` : sql`not ${row}.in_stock`)
  if (ids !== null) conditions.push(sql`${row}.id = any(${ids}::uuid[])`)
  if (group !== null) conditions.push(sql`${row}.variant_group = ${group}`)
  if (attributes !== null) conditions.push(...attributeConditions(row, attributes))
  return conditions
}

/** The bound of a number: a name, `>=` or `<=`, and the number. */
const BOUND = /^([^=<>]+)([<>]=)(.+)$/

/** Terms use the index, whose condition must be in the statement, and its statistics. */
function attributeConditions(row: Sql, attributes: readonly string[]): Sql[] {
  const nameOf = (condition: string) => condition.split(/[=<>]/, 1)[0] ?? ''
  const hasAny = (terms: readonly string[]) => sql`attribute_terms(${row}.attributes) && ${terms}::text[]`
  const byName = Map.groupBy(attributes, nameOf)
  return [
    sql`${row}.attributes <> '{}'`,
    ...[...byName].flatMap(([name, conditions]) => {
      const bounds = conditions.map((condition) => BOUND.exec(condition)).filter((bound) => bound !== null)
      const terms = conditions.filter((condition) => !BOUND.test(condition))
      // A path of JSON: a value that is no number is neither above nor below one.
      const paths = bounds.map(([, , operator, number]) => `$."${name}" ${operator} ${number}`)
      return [hasAny(terms.length > 0 ? terms : [name]), ...paths.map((path) => sql`${row}.attributes @@ ${path}::jsonpath`)]
    }),
  ]
}

export function textQueryExpression(textQuery: string): Sql {
  return sql`${textQuery}::tsquery`
}
