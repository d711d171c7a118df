import type pg from 'pg'
import { sql } from './sql.ts'

/** How long the database lets a session work and wait; then it ends the statement or, in the last two, the session with its locks. */
export interface SessionBounds {
  /** Of the wait for one lock. */
  lockMs: number
  /** Of one statement. */
  statementMs: number
  /** Of the pause between two statements of a transaction: the process is paused, or cut off. */
  idleInTransactionMs: number
  /** Of a transaction. PostgreSQL has it from 17 on. */
  transactionMs: number
}

const [SECOND_MS, HOUR_MS] = [1_000, 3_600_000]

/** Of requests and of the pipeline, whose transactions are short. */
export const SERVING_BOUNDS: SessionBounds = {
  lockMs: 5 * SECOND_MS,
  statementMs: 30 * SECOND_MS,
  idleInTransactionMs: 5 * SECOND_MS,
  transactionMs: 60 * SECOND_MS,
}

/** Of commands, which read or write a whole store, and of connections that hold a lock or listen. An export waits for its reader. */
export const COMMAND_BOUNDS: SessionBounds = {
  lockMs: 60 * SECOND_MS,
  statementMs: 6 * HOUR_MS,
  idleInTransactionMs: HOUR_MS,
  transactionMs: 24 * HOUR_MS,
}

/** Of migrations. A process that finds another one migrating waits for it: that is a lock as well. */
export const MIGRATION_BOUNDS: SessionBounds = { ...COMMAND_BOUNDS, lockMs: HOUR_MS }

/** Settings of the session; those that no server of the version has are left out. */
export type SessionSettings = Readonly<Record<string, string>>

// Compiling a plan costs more than running any statement of the store: https://www.postgresql.org/docs/current/jit-decision.html.
// The last four end a connection whose other side is gone or takes nothing: its locks would stay for hours.
const COMMON: SessionSettings = {
  jit: 'off',
  tcp_keepalives_idle: '30',
  tcp_keepalives_interval: '10',
  tcp_keepalives_count: '3',
  tcp_user_timeout: '30000',
}

/**
 * Gives a new session its bounds and settings. By a statement and not in the address: a pooler between refuses or forgets settings that come with
 * the connection. Of a bound and one that the role, the database or the server has, the shorter one counts.
 */
export async function setUpSession(client: Pick<pg.ClientBase, 'query'>, bounds: SessionBounds, more: SessionSettings = {}): Promise<void> {
  const { lockMs, statementMs, idleInTransactionMs, transactionMs } = bounds
  const limits = {
    lock_timeout: lockMs,
    statement_timeout: statementMs,
    idle_in_transaction_session_timeout: idleInTransactionMs,
    transaction_timeout: transactionMs,
  }
  const settings = { ...COMMON, ...more }
  await client.query(sql`
    select set_config(name, bound::text, false)
    from unnest(${Object.keys(limits)}::text[], ${Object.values(limits)}::bigint[]) as wanted (name, bound)
    join pg_settings using (name)
    where case when vartype = 'integer' then setting::bigint = 0 or setting::bigint > bound end
    union all
    select set_config(name, value, false)
    from unnest(${Object.keys(settings)}::text[], ${Object.values(settings)}::text[]) as wanted (name, value)
    where current_setting(name, true) is not null`)
}

/**
 * The address with settings for the session behind those that it has itself: of two for one setting PostgreSQL takes the last.
 * In the address, because `pg` forgets an `options` that stands beside an address with `options`, and because replication takes no statement.
 */
export function withSessionSettings(url: string, settings: SessionSettings): string {
  const address = new URL(url)
  const own = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`)
  address.searchParams.set('options', [address.searchParams.get('options') ?? '', ...own].join(' ').trim())
  return address.href
}
