import type pg from 'pg'
import { commaList, literal, sql } from './sql.ts'

/**
 * The `<name>_timeout` settings in milliseconds. The first two end the statement, and the others the session.
 * `transaction` needs PostgreSQL 17.
 */
export type SessionBounds = Readonly<Record<'lock' | 'statement' | 'idle_in_transaction_session' | 'transaction', number>>

const [SECOND_MS, HOUR_MS] = [1_000, 3_600_000]

export const SERVING_BOUNDS: SessionBounds = {
  lock: 5 * SECOND_MS,
  statement: 30 * SECOND_MS,
  idle_in_transaction_session: 5 * SECOND_MS,
  transaction: 60 * SECOND_MS,
}

/** Commands read or write a whole store, and an export waits for its reader. */
export const COMMAND_BOUNDS: SessionBounds = {
  lock: 60 * SECOND_MS,
  statement: 6 * HOUR_MS,
  idle_in_transaction_session: HOUR_MS,
  transaction: 24 * HOUR_MS,
}

/** The lock timeout is longer than `deadlock_timeout`, after which a vacuum gives way, and shorter than orders wait. */
export const MIGRATION_BOUNDS: SessionBounds = { ...COMMAND_BOUNDS, lock: 1_200 }

export type SessionSettings = Readonly<Record<string, string>>

/** All settings that affect what the store reads, writes or decides: docs/operate/database.md. */
export const SESSION_SETTINGS: SessionSettings = {
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  extra_float_digits: '1',
  bytea_output: 'hex',
  client_encoding: 'UTF8',
  lc_monetary: 'C',
  lc_numeric: 'C',
  lc_time: 'C',
  // With `off`, confirmed orders could be lost.
  synchronous_commit: 'on',
  // Connections that listen or hold a lock are idle on purpose.
  idle_session_timeout: '0',
  // The least similarity of the words to which a search falls back.
  'pg_trgm.similarity_threshold': '0.3',
  // The least similarity of names in an operator's search: one wrong letter of five.
  'pg_trgm.word_similarity_threshold': '0.5',
  // Compiling a plan costs more than any statement: docs/decisions/db-sessions.md#plans.
  jit: 'off',
  // Random reads cost about as much as sequential ones: docs/decisions/db-sessions.md#plans.
  random_page_cost: '1.1',
  // The genetic optimizer is for joins of more tables than any statement has.
  geqo: 'off',
  // The server ends a connection whose client is gone or reads nothing. Otherwise its locks would stay for hours.
  tcp_keepalives_idle: '30',
  tcp_keepalives_interval: '10',
  tcp_keepalives_count: '3',
  tcp_user_timeout: '30000',
}

/** Settings that get PostgreSQL's built-in value, and the planner's switches `enable_…`. */
export const BUILT_IN_SETTINGS: readonly string[] = [
  ...['default_transaction_isolation', 'default_transaction_read_only', 'default_transaction_deferrable', 'exit_on_error'],
  ...['standard_conforming_strings', 'backslash_quote', 'array_nulls', 'transform_null_equals', 'quote_all_identifiers', 'row_security'],
  ...['gin_fuzzy_search_limit', 'default_text_search_config', 'restrict_nonsystem_relation_kind'],
  ...['default_table_access_method', 'check_function_bodies'],
  // Few roles may set these. `findMisconfiguredSettings` reports them where ours may not.
  ...['session_replication_role', 'zero_damaged_pages', 'ignore_checksum_failure'],
  ...['plan_cache_mode', 'constraint_exclusion', 'from_collapse_limit', 'join_collapse_limit', 'cursor_tuple_fraction'],
  ...['recursive_worktable_factor', 'seq_page_cost', 'cpu_tuple_cost', 'cpu_index_tuple_cost', 'cpu_operator_cost'],
  ...['parallel_setup_cost', 'parallel_tuple_cost', 'min_parallel_table_scan_size', 'min_parallel_index_scan_size'],
  ...['force_parallel_mode', 'debug_parallel_query', 'debug_logical_replication_streaming', 'logical_decoding_mode'],
]

/** A table of the first migration. The schema that contains it is the store's. */
const STORE_TABLE = 'session_revocations'

// A new store is made in the first schema of the path. An existing one is found where it is, and nothing shadows its
// tables. A hosted server may have pg_trgm in a schema of its own.
const SEARCH_PATH = sql`
  select pg_catalog.quote_ident(home.nspname) || coalesce((
    select ', ' || pg_catalog.quote_ident(nspname)
    from pg_catalog.pg_extension
    join pg_catalog.pg_namespace as namespace on namespace.oid = extnamespace
    where extname = 'pg_trgm' and namespace.oid <> home.oid
  ), '')
  from pg_catalog.pg_namespace as home
  where home.oid = coalesce(
    (select relnamespace from pg_catalog.pg_class where oid = pg_catalog.to_regclass(${literal(STORE_TABLE)})),
    (
      select pg_catalog.min(relnamespace)
      from pg_catalog.pg_class
      where relname = ${literal(STORE_TABLE)} and relkind = 'r' and pg_catalog.has_schema_privilege(relnamespace, 'usage')
      having pg_catalog.count(*) = 1
    ),
    pg_catalog.to_regnamespace(pg_catalog.quote_ident(pg_catalog.current_schema())),
    pg_catalog.to_regnamespace('public')
  )`

/**
 * A pooler refuses or ignores settings of the connection, so this is a statement. A replication connection takes no
 * parameters.
 */
export async function setUpSession(client: Pick<pg.ClientBase, 'query'>, bounds: SessionBounds, more: SessionSettings = {}): Promise<void> {
  const timeouts = Object.entries(bounds).map(([name, bound]) => [`${name}_timeout`, String(bound)] as const)
  const ours = [...Object.entries(SESSION_SETTINGS), ...timeouts, ...Object.entries(more)]
  const rows = ours.map(([name, value]) => sql`(${literal(name)}, ${literal(value)})`)
  // Alone, because a bound of the role would apply to all of a longer text. Without jit no plan below takes seconds.
  await client.query(sql`set statement_timeout = ${literal(bounds.statement)}; set jit = off`.text)
  await client.query(
    sql`with wanted (name, value) as (
      values ${commaList(rows)}
      union all
      select name, boot_val
      from pg_catalog.pg_settings
      where name ~ '^enable_' or name in (${commaList(BUILT_IN_SETTINGS.map(literal))})
      union all
      select 'search_path', (${SEARCH_PATH})
    )
    select pg_catalog.set_config(name, value, false)
    from wanted
    left join pg_catalog.pg_settings as given using (name)
    where value is not null
      -- It promises more than \`on\`.
      and not (name = 'synchronous_commit' and given.setting = 'remote_apply')
      and case given.context
        when 'user' then true
        when 'superuser' then pg_catalog.has_parameter_privilege(given.name, 'set')
        -- An extension is loaded with its first use.
        else name like '%.%'
      end`.text,
  )
}
