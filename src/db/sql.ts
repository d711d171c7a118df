import pg from 'pg'
import sql, { empty, join, raw, type Sql } from 'sql-template-tag'

/**
 * SQL in which a value is always a parameter: `sql\`… where id = ${id}\`` sends `$1` and the id beside it. What may stand in the text are
 * other pieces of `sql`. The only way to write SQL with `${…}`: test/sql-text.test.ts refuses any other. See decision 0116.
 */
export { empty as noSql, type Sql, sql }

/** Values, or other pieces of `sql`, with commas between them; no text without any. The library's own `join` takes any text between them. */
export function commaList(values: readonly unknown[]): Sql {
  return values.length === 0 ? empty : join(values)
}

/** Conditions that must all be true; true without any. */
export function allOf(conditions: readonly Sql[]): Sql {
  return conditions.length === 0 ? sql`true` : join(conditions, ' and ')
}

/** For `query`: planned once on each connection. Statements of one name must have one text. */
export function prepared({ text, values }: Sql, name: string): { name: string; text: string; values: unknown[] } {
  return { name, text, values }
}

/** The name of a table, slot or column, quoted. */
export function identifier(name: string): Sql {
  return raw(pg.escapeIdentifier(name))
}

/** A value as text of the statement, escaped: only for commands that take no parameters, such as FETCH, SET and those of replication. */
export function literal(value: string | number): Sql {
  if (typeof value === 'string') return raw(pg.escapeLiteral(value))
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is no whole number`)
  return raw(String(value))
}
