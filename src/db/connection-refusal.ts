import { isDatabaseOutage } from './failures.ts'
import {
  DISK_FULL,
  INSUFFICIENT_PRIVILEGE,
  INVALID_AUTHORIZATION,
  INVALID_PASSWORD,
  PROTOCOL_VIOLATION,
  READ_ONLY_TRANSACTION,
  sqlState,
  TOO_MANY_CONNECTIONS,
  UNKNOWN_DATABASE,
} from './sql-state.ts'

const REFUSALS = new Set<string | undefined>([INVALID_AUTHORIZATION, INVALID_PASSWORD, UNKNOWN_DATABASE])
const NO_PASSWORD = /^SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a/

// PgBouncer reports a refused login with the same SQLSTATE as its own outages. Only the text differs.
const REFUSED_LOGIN = /authentication failed|no such (?:user|database)/

/** Whether a pooler such as PgBouncer has refused the login. Waiting does not help. */
function isPoolerRefusal(error: unknown): boolean {
  return sqlState(error) === PROTOCOL_VIOLATION && REFUSED_LOGIN.test((error as Error).message)
}

/** Explains in one line why a connection to the address in setting `name` failed. Null for other errors. */
export function explainConnection(error: unknown, name: string): string | null {
  const reason = explainRefusal(error, name)
  if (reason !== null) return reason
  if (sqlState(error) === DISK_FULL) return `the database cannot be used: ${(error as Error).message}; make room on the disk of its server`
  if (sqlState(error) === TOO_MANY_CONNECTIONS) return explainLimit(error)
  if (sqlState(error) === READ_ONLY_TRANSACTION) return `the database in ${name} is a standby: set the address of its primary`
  const { code = '', message } = error as { code?: string; message?: string }
  return isDatabaseOutage(error) ? `the database cannot be used: ${message || code}; check that it runs, and ${name}` : null
}

/** Like `explainConnection`, only for refusals by the server, after which waiting does not help. */
export function explainRefusal(error: unknown, name: string): string | null {
  const { message = '', severity, role, database } = error as Partial<Record<string, string>>
  if (NO_PASSWORD.test(message)) return `the database cannot be used: ${name} has no password, and the server asks for one`
  if (REFUSALS.has(sqlState(error)) || isPoolerRefusal(error)) return `the database cannot be used: ${message}; check ${name}`
  if (sqlState(error) === TOO_MANY_CONNECTIONS && message.includes('for database')) return explainLimit(error)
  if (sqlState(error) !== INSUFFICIENT_PRIVILEGE || severity !== 'FATAL') return null
  const statement = role && database ? `"grant connect on database ${quote(database)} to ${quote(role)}"` : '"grant connect"'
  return `the database cannot be used: ${message}; run ${statement} as the database's administrator`
}

function explainLimit(error: unknown): string {
  return `the database cannot be used: ${(error as Error).message}; raise max_connections, or that limit, or lower DATABASE_POOL_SIZE in every process`
}

export function quote(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`
}
