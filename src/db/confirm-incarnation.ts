import type pg from 'pg'
import { type Sql, sql } from './sql.ts'
import { sqlState, UNDEFINED_FUNCTION } from './sql-state.ts'

/**
 * The server's identity `<system id>.<timeline>.<oid>`. It differs for a copy, and after a promotion or a point-in-time
 * recovery.
 */
export const IDENTITY: Sql = sql`(select system_identifier from pg_catalog.pg_control_system()) || '.'
  || left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8) || '.'
  || (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())`

/**
 * Begins the next incarnation if the server is another one or has an older state. Returns the reason; null if none
 * began. Throws SQLSTATE 25006 on a standby, whose promotion would not end the connection:
 * docs/decisions/audit-incarnations.md.
 */
export async function confirmIncarnation(client: Pick<pg.ClientBase, 'query'>, givenOrderNumber = 0): Promise<string | null> {
  try {
    const { rows } = await client.query<{ reason: string | null }>(
      sql`select confirm_incarnation(case when not pg_catalog.pg_is_in_recovery() then ${IDENTITY} end, ${givenOrderNumber}::bigint) as reason`,
    )
    return rows[0]?.reason ?? null
  } catch (error) {
    if (sqlState(error) === UNDEFINED_FUNCTION) return null
    throw error
  }
}
