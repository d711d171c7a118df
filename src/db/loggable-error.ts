// Class 22, data exception, whose messages quote the value:
// https://www.postgresql.org/docs/current/errcodes-appendix.html
const DATA_EXCEPTION_CLASS = '22'

/** PostgreSQL's `detail`, `where` and message can contain values of a row. Returns other errors unchanged. */
export function loggableError(error: unknown): unknown {
  if (!isDatabaseError(error)) return error
  const { name: type, code = '', constraint, table, column } = error
  const message = code.startsWith(DATA_EXCEPTION_CLASS) ? 'a value was not acceptable' : error.message
  const frames = error.stack?.slice(error.stack.search(/^\s+at /m)) ?? ''
  return { type, message, code, constraint, table, column, stack: `${message}\n${frames}` }
}

const MAX_CAUSES = 5

export function reasonOf(error: unknown, depth = 0): string {
  const { message = '', code, name, errors, cause } = (loggableError(error) ?? {}) as Partial<AggregateError> & { code?: unknown }
  const parts = [message.replaceAll(/\s*\n\s*/g, ' ')]
  if ((typeof code === 'string' || typeof code === 'number') && !message.includes(String(code))) parts.push(`(${code})`)
  const own = parts.filter(Boolean).join(' ') || (typeof error === 'string' ? error : (name ?? typeof error))
  // The message of Node.js is empty if it has tried several addresses of a host.
  const inner = errors?.[0] ?? cause
  if (!(inner instanceof Error) || depth === MAX_CAUSES) return own
  const reason = reasonOf(inner, depth + 1)
  return message === '' ? reason : own.includes(reason) ? own : `${own}: ${reason}`
}

/** Commands load this file without `pg`, so this is not `pg`'s class. */
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
