import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { Activity } from './list-activities.ts'

/** The address of each account and the name of each key that did something, by id, as far as they exist. For terminals: activities have ids only. */
export async function findActorNames(db: Queryable, activities: readonly Activity[]): Promise<ReadonlyMap<string, string>> {
  const idsOf = (type: Activity['actor_type']) =>
    activities.flatMap(({ actor_type, actor_id }) => (actor_type === type ? (actor_id ?? []) : []))
  const { rows } = await db.query<{ id: string; name: string | null }>(sql`select id, email as name
    from users
    where id = any(${idsOf('admin')}::uuid[])
    union all
    select id, name
    from api_keys
    where id = any(${idsOf('key')}::uuid[])`)
  return new Map(rows.flatMap(({ id, name }) => (name === null ? [] : [[id, name]])))
}
