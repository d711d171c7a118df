import { type Sql, sql } from '../../db/sql.ts'
import { amountIn, isSoldIn } from '../offered-prices.ts'
import type { LocatedFilters } from '../product-query.ts'

/** A search in `tsquery` syntax. Null without a search, empty for a search that matches nothing. */
export type TextQuery = string | null

const TABLES = { product: sql`product`, other: sql`other` }

/**
 * At least one condition for the alias `table` to match the filters. Plan the statement with its values, because the
 * planner must see a word to know its frequency. `place` is the column of the amount in the currency, for rows that are
 * all sold in it.
 */
export function filterConditions(table: keyof typeof TABLES, filters: LocatedFilters, textQuery: TextQuery, place?: Sql): Sql[] {
  return [sql`${TABLES[table]}.archived_at is null`, ...matchConditions(table, filters, textQuery, place)]
}

/** Like `filterConditions`, for rows that are not archived. May be empty. */
export function matchConditions(table: keyof typeof TABLES, filters: LocatedFilters, textQuery: TextQuery, place?: Sql): Sql[] {
  const { categoryIds, brand, currency, minPrice, maxPrice, inStock, ids, group, attributes } = filters
  const row = TABLES[table]
  const conditions: Sql[] = []
  if (textQuery !== null) conditions.push(matchesText(row, textQueryExpression(textQuery)))
  if (categoryIds?.length === 0) conditions.push(sql`false`)
  else if (categoryIds !== null) {
    conditions.push(sql`exists (
      select from product_categories
      where product_categories.product_id = ${row}.id and product_categories.category_id = any(${categoryIds}::uuid[])
        -- The index has only listed rows; the products above are listed, too.
        and product_categories.is_listed
    )`)
  }
  if (brand !== null) conditions.push(sql`${row}.brand = ${brand}`)
  if (currency !== null && place === undefined) conditions.push(isSoldIn(row, currency))
  const amount = place ?? amountIn(row, currency)
  if (minPrice !== null) conditions.push(sql`${amount} >= ${minPrice}::bigint`)
  if (maxPrice !== null) conditions.push(sql`${amount} <= ${maxPrice}::bigint`)
  if (inStock !== null) conditions.push(inStock ? sql`${row}.in_stock` : sql`not ${row}.in_stock`)
  if (ids !== null) conditions.push(sql`${row}.id = any(${ids}::uuid[])`)
  if (group !== null) conditions.push(sql`${row}.variant_group = ${group}`)
  if (attributes !== null) conditions.push(...attributeConditions(row, attributes))
  return conditions
}

/** Like `filterConditions`, for a table sample, which uses no index and would collect terms from each of its rows. */
export function sampleConditions(filters: LocatedFilters, textQuery: TextQuery): Sql[] {
  const conditions = filterConditions('product', { ...filters, attributes: null }, textQuery)
  if (filters.attributes === null) return conditions
  const paths = [...attributesByName(filters.attributes)].flatMap(([name, { terms, bounds }]) => [
    ...bounds,
    ...(terms.length === 0 ? [] : [terms.flatMap((term) => equalTo(name, term.slice(name.length + 1))).join(' || ')]),
  ])
  return [...conditions, ...paths.map((path) => sql`product.attributes @@ ${path}::jsonpath`)]
}

/** JSON paths for every value with this term: a text, a text in a list, a number, or a boolean. */
function equalTo(name: string, value: string): string[] {
  const values = [JSON.stringify(value), ...(/^(true|false|-?(0|[1-9]\d*)(\.\d+)?)$/.test(value) ? [value] : [])]
  return values.map((each) => pathOf(name, '==', each))
}

/** The bound of a number: a name, `>=` or `<=`, and the number. */
const BOUND = /^([^=<>]+)([<>]=)(.+)$/

/** Terms use the index, whose condition must be in the statement, and its statistics. */
function attributeConditions(row: Sql, attributes: readonly string[]): Sql[] {
  const hasAny = (terms: readonly string[]) => sql`attribute_terms(${row}.attributes) && ${terms}::text[]`
  return [
    sql`${row}.attributes <> '{}'`,
    ...[...attributesByName(attributes)].flatMap(([name, { terms, bounds }]) => [
      hasAny(terms.length > 0 ? terms : [name]),
      ...bounds.map((path) => sql`${row}.attributes @@ ${path}::jsonpath`),
    ]),
  ]
}

/** A JSON path, which is a parameter of a statement. */
function pathOf(name: string, operator: string, value: string): string {
  return `$."${name}" ${operator} ${value}`
}

/**
 * The conditions of each attribute: alternative terms, and bounds as JSON paths. A value that is not a number matches
 * no bound.
 */
function attributesByName(attributes: readonly string[]): Map<string, { terms: string[]; bounds: string[] }> {
  const byName = Map.groupBy(attributes, (condition) => condition.split(/[=<>]/, 1)[0] ?? '')
  return new Map(
    [...byName].map(([name, conditions]) => {
      const bounds = conditions.map((condition) => BOUND.exec(condition)).filter((bound) => bound !== null)
      const terms = conditions.filter((condition) => !BOUND.test(condition)).flatMap(withPlainNumber)
      return [name, { terms, bounds: bounds.map(([, , operator = '', number = '']) => pathOf(name, operator, number)) }]
    }),
  )
}

const NUMBER = /^(-?)(\d{1,320})(?:\.(\d{1,320}))?(?:[eE]([+-]?\d{1,3}))?$/

/**
 * A term and, for a number in another spelling such as `1e-7`, the index's term, which has neither exponent nor
 * trailing zeros.
 */
function withPlainNumber(term: string): string[] {
  const equals = term.indexOf('=') + 1
  const [match, sign = '', whole = '', fraction = '', exponent = '0'] = NUMBER.exec(term.slice(equals)) ?? []
  if (match === undefined) return [term]
  const places = Math.max(0, fraction.length - Number(exponent))
  const digits = (whole + fraction + '0'.repeat(Math.max(0, Number(exponent) - fraction.length))).padStart(places + 1, '0')
  const integer = digits.slice(0, digits.length - places).replace(/^0+(?=\d)/, '')
  const rest = digits.slice(digits.length - places).replace(/0+$/, '')
  const number = rest === '' ? integer : `${integer}.${rest}`
  return [...new Set([term, `${term.slice(0, equals)}${number === '0' ? '' : sign}${number}`])]
}

/** Whether a product's words match, including its translations. `translated_search`, if set, has both. */
export function matchesText(row: Sql, textQuery: Sql): Sql {
  return sql`((${row}.translated_search is null and ${row}.search @@ ${textQuery}) or ${row}.translated_search @@ ${textQuery})`
}

export function textQueryExpression(textQuery: string): Sql {
  return sql`${textQuery}::tsquery`
}
