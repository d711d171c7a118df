import pg from 'pg'
import sql, { empty, join, raw, type Sql } from 'sql-template-tag'

/**
 * Template values always become parameters. test/sql-text.test.ts refuses any other `${…}`:
 * docs/decisions/db-statements.md.
 */
export { empty as noSql, type Sql, sql }

/** A list of parameters; empty without values. The library's `join` would accept any text as separator. */
export function commaList(values: readonly unknown[]): Sql {
  return values.length === 0 ? empty : join(values)
}

export function allOf(conditions: readonly Sql[]): Sql {
  return conditions.length === 0 ? sql`true` : join(conditions, ' and ')
}

export function prepared({ text, values }: Sql, name: string): { name: string; text: string; values: unknown[] } {
  return { name, text, values }
}

export function identifier(name: string): Sql {
  return raw(pg.escapeIdentifier(name))
}

/** A literal for commands that take no parameters, such as FETCH, SET and replication commands. Throws RangeError. */
export function literal(value: string | number): Sql {
  if (typeof value === 'string') return raw(pg.escapeLiteral(value))
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is no whole number`)
  return raw(String(value))
}

const MAX_PAGE_ROWS = 101
const LIMITS = Array.from({ length: MAX_PAGE_ROWS + 1 }, (_, rows) => sql`limit ${literal(rows)}`)

/**
 * A constant `limit`. With a parameter, PostgreSQL expects a tenth of the table and plans each execution. Throws
 * RangeError.
 */
export function limitTo(rows: number): Sql {
  const limit = LIMITS[rows]
  if (limit === undefined) throw new RangeError(`no page has ${rows} rows`)
  return limit
}
