// https://www.postgresql.org/docs/current/errcodes-appendix.html class 22, data exception: its messages quote the value.
const DATA_EXCEPTION_CLASS = '22'

/**
 * What may be logged of an error. Of PostgreSQL's that is what names things: its `detail`, its `where` and the message about a bad
 * value can hold the values of a row, such as an e-mail address. Any other error comes back as it is.
 */
export function loggableError(error: unknown): unknown {
  if (!isDatabaseError(error)) return error
  const { name: type, code = '', constraint, table, column } = error
  const message = code.startsWith(DATA_EXCEPTION_CLASS) ? 'a value was not acceptable' : error.message
  const frames = error.stack?.slice(error.stack.search(/^\s+at /m)) ?? ''
  return { type, message, code, constraint, table, column, stack: `${message}\n${frames}` }
}

/** What PostgreSQL sends with each of its errors; `pg`'s class of them is not asked for, since commands need this file and no `pg`. */
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
