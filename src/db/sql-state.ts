// The SQLSTATEs to which the store reacts: https://www.postgresql.org/docs/current/errcodes-appendix.html
export const SUCCESSFUL_COMPLETION = '00000'
export const PROTOCOL_VIOLATION = '08P01'
export const INVALID_PARAMETER_VALUE = '22023'
export const READ_ONLY_TRANSACTION = '25006'
export const IDLE_IN_TRANSACTION_TIMEOUT = '25P03'
export const TRANSACTION_TIMEOUT = '25P04'
export const INVALID_AUTHORIZATION = '28000'
export const INVALID_PASSWORD = '28P01'
export const UNKNOWN_DATABASE = '3D000'
export const SERIALIZATION_FAILURE = '40001'
export const DEADLOCK_DETECTED = '40P01'
export const INSUFFICIENT_PRIVILEGE = '42501'
export const UNDEFINED_OBJECT = '42704'
export const DUPLICATE_OBJECT = '42710'
export const UNDEFINED_FUNCTION = '42883'
export const UNDEFINED_TABLE = '42P01'
export const DISK_FULL = '53100'
export const TOO_MANY_CONNECTIONS = '53300'
export const CONFIGURATION_LIMIT_EXCEEDED = '53400'
export const OBJECT_NOT_IN_PREREQUISITE_STATE = '55000'
export const OBJECT_IN_USE = '55006'
export const LOCK_NOT_AVAILABLE = '55P03'
export const QUERY_CANCELED = '57014'
export const ADMIN_SHUTDOWN = '57P01'
export const CRASH_SHUTDOWN = '57P02'
export const CANNOT_CONNECT_NOW = '57P03'
export const IDLE_SESSION_TIMEOUT = '57P05'

export function sqlState(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { code?: unknown }
  // No PostgreSQL class begins with E. Codes of Node.js do, and EPIPE also has five characters.
  return typeof code === 'string' && /^[0-9A-DF-Z][0-9A-Z]{4}$/.test(code) ? code : undefined
}
