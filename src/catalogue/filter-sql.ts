import type { Filters } from './product-query.ts'

/** The parameters of a statement, in the order in which its parts named them. */
export class Parameters {
  readonly values: unknown[] = []

  /** The placeholder for `value`. */
  add(value: unknown): string {
    return `$${this.values.push(value)}`
  }
}

/** A search as `to_tsquery` reads it; null for none, empty for one that matches nothing. */
export type TextQuery = string | null

/**
 * The conditions, never none, under which a row of `table` is among the products that `filters` mean. Values are parameters, planned
 * anew for each query: the planner has to see a word to know how frequent it is.
 */
export function filterConditions(table: string, filters: Filters, textQuery: TextQuery, parameters: Parameters): string[] {
  const { category, minPrice, maxPrice, inStock, ids, group } = filters
  const conditions = [`${table}.archived_at is null`]
  if (textQuery !== null) conditions.push(`${table}.search @@ ${textQueryExpression(textQuery, parameters)}`)
  if (category !== null) conditions.push(`${table}.category = ${parameters.add(category)}`)
  if (minPrice !== null) conditions.push(`${table}.price_amount >= ${parameters.add(minPrice)}::bigint`)
  if (maxPrice !== null) conditions.push(`${table}.price_amount <= ${parameters.add(maxPrice)}::bigint`)
  if (inStock !== null) conditions.push(inStock ? `${table}.in_stock` : `not ${table}.in_stock`)
  if (ids !== null) conditions.push(`${table}.id = any(${parameters.add(ids)}::uuid[])`)
  if (group !== null) conditions.push(`${table}.variant_group = ${parameters.add(group)}`)
  return conditions
}

export function textQueryExpression(textQuery: string, parameters: Parameters): string {
  return `to_tsquery('simple', ${parameters.add(textQuery)})`
}
