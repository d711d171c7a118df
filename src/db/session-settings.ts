import type pg from 'pg'
import { sql } from './sql.ts'

/**
 * How long the database lets a session work and wait, in milliseconds, as PostgreSQL's settings `<name>_timeout`. Then it ends the statement;
 * in the last two cases the session with its locks. `transaction`: from PostgreSQL 17 on.
 */
export type SessionBounds = Readonly<Record<'lock' | 'statement' | 'idle_in_transaction_session' | 'transaction', number>>

const [SECOND_MS, HOUR_MS] = [1_000, 3_600_000]

/** For requests and the pipeline, whose transactions are short. */
export const SERVING_BOUNDS: SessionBounds = {
  lock: 5 * SECOND_MS,
  statement: 30 * SECOND_MS,
  idle_in_transaction_session: 5 * SECOND_MS,
  transaction: 60 * SECOND_MS,
}

/** For commands, which read or write a whole store, and for connections that hold a lock or listen. An export waits for its reader. */
export const COMMAND_BOUNDS: SessionBounds = {
  lock: 60 * SECOND_MS,
  statement: 6 * HOUR_MS,
  idle_in_transaction_session: HOUR_MS,
  transaction: 24 * HOUR_MS,
}

/**
 * For migrations: orders queue behind the lock that one waits for. Longer than PostgreSQL's `deadlock_timeout`, after which a vacuum makes way,
 * and shorter than orders wait.
 */
export const MIGRATION_BOUNDS: SessionBounds = { ...COMMAND_BOUNDS, lock: 1_200 }

/** Settings of the session. A server ignores those that its version does not have. */
export type SessionSettings = Readonly<Record<string, string>>

// Compiling a plan costs more than running any statement of the store: https://www.postgresql.org/docs/current/jit-decision.html.
// Random reads cost about as much as sequential ones on flash and in memory: with PostgreSQL's default of 4 the planner reads thousands of rows
// in the order of one index instead of a few from another (decision 0259). The others end a connection whose client is gone or reads nothing: its locks would stay for hours.
const COMMON: SessionSettings = {
  jit: 'off',
  random_page_cost: '1.1',
  tcp_keepalives_idle: '30',
  tcp_keepalives_interval: '10',
  tcp_keepalives_count: '3',
  tcp_user_timeout: '30000',
}

/**
 * Sets the bounds and settings of a new session. With a statement and not in the address: a pooler refuses or ignores settings of the
 * connection. Where the role, the database or the server has a shorter bound, that one stays.
 */
export async function setUpSession(client: Pick<pg.ClientBase, 'query'>, bounds: SessionBounds): Promise<void> {
  await client.query(sql`
    select set_config(name, bound::text, false)
    from unnest(${Object.keys(bounds)}::text[], ${Object.values(bounds)}::bigint[]) as wanted (timeout, bound)
    join pg_settings on name = timeout || '_timeout'
    where case when vartype = 'integer' then setting::bigint = 0 or setting::bigint > bound end
    union all
    select set_config(name, value, false)
    from unnest(${Object.keys(COMMON)}::text[], ${Object.values(COMMON)}::text[]) as wanted (name, value)
    where current_setting(name, true) is not null`)
}

/**
 * Adds settings of the session to an address, after its own: of two values for one setting PostgreSQL takes the last. In the address because
 * `pg` ignores `options` beside an address with `options`, and because a replication connection takes no such statement.
 */
export function withSessionSettings(url: string, settings: SessionSettings): string {
  const address = new URL(url)
  const own = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`)
  address.searchParams.set('options', [address.searchParams.get('options') ?? '', ...own].join(' ').trim())
  return address.href
}
