// https://www.postgresql.org/docs/current/errcodes-appendix.html class 22, data exception: its messages quote the value.
const DATA_EXCEPTION_CLASS = '22'

/**
 * An error without personal data, for the log. Of an error of PostgreSQL it keeps code, names and stack: its `detail`, its `where` and the
 * message about a bad value can contain values of a row, such as an e-mail address. Any other error is returned unchanged.
 */
export function loggableError(error: unknown): unknown {
  if (!isDatabaseError(error)) return error
  const { name: type, code = '', constraint, table, column } = error
  const message = code.startsWith(DATA_EXCEPTION_CLASS) ? 'a value was not acceptable' : error.message
  const frames = error.stack?.slice(error.stack.search(/^\s+at /m)) ?? ''
  return { type, message, code, constraint, table, column, stack: `${message}\n${frames}` }
}

/** The fields of an error of PostgreSQL. Not `pg`'s class: commands load this file without `pg`. */
interface DatabaseError extends Error {
  severity: string
  code?: string
  constraint?: string
  table?: string
  column?: string
}

function isDatabaseError(error: unknown): error is DatabaseError {
  return error instanceof Error && 'severity' in error && 'routine' in error
}
