import { AppError, type ErrorCode } from '../errors.ts'

/** Named constraints that a client can run into, and what each refusal says. The only place that knows their names. */
const REFUSALS: Record<string, { code: ErrorCode; message: string }> = {
  orders_client_reference_unique: {
    code: 'client_reference_taken',
    message: 'You have placed an order with this client_reference already.',
  },
  products_sku_unique: { code: 'sku_taken', message: 'A product with this sku exists already; it may be archived.' },
  users_email_unique: { code: 'email_taken', message: 'An account with this e-mail address exists already.' },
}

// https://www.postgresql.org/docs/current/errcodes-appendix.html class 23, integrity constraint violation
const INTEGRITY_CLASS = '23'

/** The refusal behind a violated constraint; any other error comes back as it is. */
export function translateConstraint(error: unknown): unknown {
  const { code, constraint } = error as { code?: string; constraint?: string }
  if (typeof code !== 'string' || !code.startsWith(INTEGRITY_CLASS) || constraint === undefined) return error
  const refusal = REFUSALS[constraint]
  return refusal === undefined ? error : new AppError(refusal.code, refusal.message, { cause: error })
}

// Classes 08 connection exceptions and 53 insufficient resources, 57P01–57P03 server going down or starting, 25006 a standby that
// is not promoted yet; 25P03, 25P04 and 57P05 a session that the server ended after one of its timeouts.
const OUTAGE_CLASSES = ['08', '53']
const OUTAGES = new Set([
  ...['57P01', '57P02', '57P03', '25006', '25P03', '25P04', '57P05'],
  ...['ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'ENOENT', 'ENOTFOUND', 'EAI_AGAIN'],
  ...['EHOSTDOWN', 'EHOSTUNREACH', 'ENETDOWN', 'ENETRESET', 'ENETUNREACH'],
])

// PgBouncer reports a login that it refuses with the same SQLSTATE as its own outages: only the text differs.
const POOLER_ERROR = '08P01'
const REFUSED_LOGIN = /authentication failed|no such (?:user|database)/

/** Whether a connection pooler such as PgBouncer has refused the login, which waiting does not change. */
export function isPoolerRefusal(error: unknown): boolean {
  const { code, message = '' } = (error ?? {}) as { code?: string; message?: string }
  return code === POOLER_ERROR && REFUSED_LOGIN.test(message)
}

/** Whether the database is away for now, as against a fault in the statement. */
export function isDatabaseOutage(error: unknown): boolean {
  const { code, message } = (error ?? {}) as { code?: string; message?: string }
  if (isPoolerRefusal(error)) return false
  if (code !== undefined) return OUTAGE_CLASSES.includes(code.slice(0, 2)) || OUTAGES.has(code) || code.startsWith('ERR_SSL_')
  // `pg` gives these no code.
  return (
    message !== undefined &&
    /^(Connection terminated|timeout exceeded when trying to connect|Client (has encountered a connection error|was closed))/.test(message)
  )
}

// 55P03 a lock that was not free in time; 57014 a statement that took too long, most often waiting, or that an operator cancelled.
const TIMEOUTS = new Set(['55P03', '57014'])

/** Whether PostgreSQL ended a statement after `lock_timeout` or `statement_timeout`, whoever set it. The transaction is undone. */
export function isTimeout(error: unknown): boolean {
  return TIMEOUTS.has((error as { code?: string } | null)?.code ?? '')
}

// Classes 22 data exception, 23 integrity constraint violation, 40 transaction rollback, 54 program limit exceeded, P0 raised by a
// trigger.
const ROW_CLASSES = new Set(['22', '23', '40', '54', 'P0'])

/** Whether PostgreSQL undid a transaction for what may be the fault of one of its rows, so that the others can be written without it. */
export function canOneRowBeAtFault(error: unknown): boolean {
  const { code, severity } = (error ?? {}) as { code?: string; severity?: string }
  return severity !== undefined && code !== undefined && (ROW_CLASSES.has(code.slice(0, 2)) || TIMEOUTS.has(code))
}
