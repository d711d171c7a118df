import pg from 'pg'
import sql, { empty, join, raw, type Sql } from 'sql-template-tag'

/**
 * SQL in which a value is always a parameter: `sql\`… where id = ${id}\`` sends `$1` and the id. Only other pieces of `sql` become text.
 * The only way to write SQL with `${…}`: test/sql-text.test.ts refuses any other. See docs/decisions/db-statements.md.
 */
export { empty as noSql, type Sql, sql }

/** Values, or pieces of `sql`, separated by commas; empty for none. Instead of the library's `join`, whose separator is any text. */
export function commaList(values: readonly unknown[]): Sql {
  return values.length === 0 ? empty : join(values)
}

/** Conditions joined by `and`; true for none. */
export function allOf(conditions: readonly Sql[]): Sql {
  return conditions.length === 0 ? sql`true` : join(conditions, ' and ')
}

/** A statement for `query` that each connection plans once. Statements with the same name must have the same text. */
export function prepared({ text, values }: Sql, name: string): { name: string; text: string; values: unknown[] } {
  return { name, text, values }
}

/** The name of a table, slot or column, quoted. */
export function identifier(name: string): Sql {
  return raw(pg.escapeIdentifier(name))
}

/** A value as escaped text: only for commands that take no parameters, such as FETCH, SET and those of replication. Throws RangeError. */
export function literal(value: string | number): Sql {
  if (typeof value === 'string') return raw(pg.escapeLiteral(value))
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is no whole number`)
  return raw(String(value))
}

/** A page, and one row more to learn whether another page follows. */
const MAX_PAGE_ROWS = 101
const LIMITS = Array.from({ length: MAX_PAGE_ROWS + 1 }, (_, rows) => sql`limit ${literal(rows)}`)

/**
 * `limit …` of a page, for prepared statements: with a parameter PostgreSQL would expect a tenth of the table, and plan each execution. It is one
 * of these constants, so no value enters the SQL text. Throws RangeError.
 */
export function limitTo(rows: number): Sql {
  const limit = LIMITS[rows]
  if (limit === undefined) throw new RangeError(`no page has ${rows} rows`)
  return limit
}
