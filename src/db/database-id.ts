import { IDENTITY } from './confirm-incarnation.ts'
import type { Queryable } from './pool.ts'
import { sql } from './sql.ts'

/** A standby has the same id. A database on another server or of another name has another one. */
export async function readDatabaseId(db: Queryable): Promise<string> {
  const { rows } = await db.query<{ id: string }>(
    `select system_identifier || '.' || (select oid from pg_database where datname = current_database()) as id from pg_control_system()`,
  )
  return rows[0]?.id ?? ''
}

/** Like `readDatabaseId`, and also identifies the server: see `IDENTITY`. Throws on a standby. */
export async function readIdentity(db: Queryable): Promise<string> {
  const { rows } = await db.query<{ identity: string }>(sql`select ${IDENTITY} as identity`)
  return rows[0]?.identity ?? ''
}
