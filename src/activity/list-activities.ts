import type { Queryable } from '../db/pool.ts'
import { allOf, sql } from '../db/sql.ts'

export interface Activity {
  id: number
  at: Date
  actor_type: 'admin' | 'key' | 'system'
  actor_id: string | null
  action: string
  subject_type: string
  subject_id: string | null
  before: object | null
  after: object | null
  request_id: string | null
}

/** All conditions must be met. An undefined one matches every activity. */
export interface ActivityFilter {
  /** The id of an operator or API key, or `system` for commands. */
  actor?: string | undefined
  subjectType?: string | undefined
  subjectId?: string | undefined
  action?: string | undefined
  /** The first moment of the period. */
  from?: Date | undefined
  /** The end of the period, which is not part of it. */
  to?: Date | undefined
  /** The last activity of the previous page. */
  before?: { at: Date; id: number } | undefined
  limit: number
}

/** Newest first, by time and then by id. Each condition has an index in this order. */
export async function listActivities(db: Queryable, filter: ActivityFilter): Promise<Activity[]> {
  const { actor, subjectType, subjectId, action, from, to, before, limit } = filter
  const conditions = [
    ...(actor === undefined ? [] : [sql`coalesce(actor_id, actor_type) = ${actor}`]),
    ...(subjectType === undefined ? [] : [sql`subject_type = ${subjectType}`]),
    ...(subjectId === undefined ? [] : [sql`subject_id = ${subjectId}`]),
    ...(action === undefined ? [] : [sql`action = ${action}`]),
    ...(from === undefined ? [] : [sql`at >= ${from}`]),
    ...(to === undefined ? [] : [sql`at < ${to}`]),
    ...(before === undefined ? [] : [sql`(at, id) < (${before.at}, ${before.id})`]),
  ]
  const { rows } = await db.query<Activity>(
    sql`select id, at, actor_type, actor_id, action, subject_type, subject_id, before, after, request_id
    from activities
    where ${conditions.length === 0 ? sql`true` : allOf(conditions)}
    order by at desc, id desc
    limit ${limit}`,
  )
  return rows
}

/**
 * Addresses of accounts and names of API keys by id, without deleted ones. Terminals show them, because activities only
 * have ids.
 */
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
