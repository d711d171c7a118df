import {
  ADMIN_SHUTDOWN,
  CANNOT_CONNECT_NOW,
  CRASH_SHUTDOWN,
  DEADLOCK_DETECTED,
  IDLE_IN_TRANSACTION_TIMEOUT,
  IDLE_SESSION_TIMEOUT,
  LOCK_NOT_AVAILABLE,
  QUERY_CANCELED,
  READ_ONLY_TRANSACTION,
  SERIALIZATION_FAILURE,
  sqlState,
  TRANSACTION_TIMEOUT,
} from './sql-state.ts'

// Class 08 is a connection exception. Classes 28 and 3D are refused logins, such as after a failover or while a
// password changes. Class 53 is insufficient resources.
const OUTAGE_CLASSES = ['08', '28', '3D', '53']
const OUTAGES = new Set([
  ...[ADMIN_SHUTDOWN, CRASH_SHUTDOWN, CANNOT_CONNECT_NOW],
  READ_ONLY_TRANSACTION,
  ...[IDLE_IN_TRANSACTION_TIMEOUT, TRANSACTION_TIMEOUT, IDLE_SESSION_TIMEOUT],
  ...['ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EAI_AGAIN'],
  ...['EHOSTDOWN', 'EHOSTUNREACH', 'ENETDOWN', 'ENETRESET', 'ENETUNREACH'],
  // This process or machine has no file descriptor left for another connection.
  ...['EMFILE', 'ENFILE'],
])
const LOST_CONNECTION =
  /^(Connection terminated|timeout (exceeded when trying to connect|expired)|Query read timeout|Client (has encountered a connection error|was closed))/

/** Whether the database is temporarily unavailable. Otherwise the statement has a fault. */
export function isDatabaseOutage(error: unknown): boolean {
  const { code, message, severity, syscall } = (error ?? {}) as { code?: string; message?: string; severity?: string; syscall?: string }
  // The server has ended the session, for example because it may not connect to this database.
  if (severity === 'FATAL') return true
  // The socket of a local server. Any other missing file is a fault of this process.
  if (code === 'ENOENT') return syscall === 'connect'
  if (code !== undefined) return OUTAGE_CLASSES.includes(code.slice(0, 2)) || OUTAGES.has(code) || code.startsWith('ERR_SSL_')
  return message !== undefined && LOST_CONNECTION.test(message)
}

/** Whether a lock or statement timed out, or an operator cancelled it. The transaction is rolled back. */
export function isTimeout(error: unknown): boolean {
  const state = sqlState(error)
  return state === LOCK_NOT_AVAILABLE || state === QUERY_CANCELED
}

/** PostgreSQL has undone the whole transaction, which may run again. */
export function isConflict(error: unknown): boolean {
  const state = sqlState(error)
  return state === SERIALIZATION_FAILURE || state === DEADLOCK_DETECTED
}

/** Whether the same request may succeed in a moment, so the answer is 503 and not 500. */
export function isTemporary(error: unknown): boolean {
  return isDatabaseOutage(error) || isTimeout(error) || isConflict(error)
}

// Data exception, integrity constraint violation, transaction rollback, program limit exceeded, and errors raised by a
// trigger.
const ROW_CLASSES = new Set(['22', '23', '40', '54', 'P0'])

export function canOneRowBeAtFault(error: unknown): boolean {
  const { severity } = (error ?? {}) as { severity?: string }
  return severity !== undefined && (ROW_CLASSES.has(sqlState(error)?.slice(0, 2) ?? '') || isTimeout(error))
}
