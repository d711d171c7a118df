import { findActorNames } from '../activity/actor-names.ts'
import { type ActivityFilter, listActivities } from '../activity/list-activities.ts'
import type { Contexts } from './command.ts'
import { formatJson, formatTable } from './format-table.ts'

/** Prints what operators, keys and commands have changed, the newest first. */
export async function printActivities({ pool, terminal }: Contexts['database'], filter: ActivityFilter, json: boolean): Promise<number> {
  const columns = ['id', 'at', 'actor', 'actor_name', 'action', 'subject', 'subject_id', 'before', 'after', 'request_id']
  const activities = await listActivities(pool, filter)
  const names = await findActorNames(pool, activities)
  const rows = activities.map((activity) => [
    ...[activity.id, activity.at.toISOString()],
    activity.actor_id === null ? activity.actor_type : `${activity.actor_type} ${activity.actor_id}`,
    names.get(activity.actor_id ?? '') ?? null,
    ...[activity.action, activity.subject_type, activity.subject_id],
    activity.before === null ? null : JSON.stringify(activity.before),
    activity.after === null ? null : JSON.stringify(activity.after),
    activity.request_id,
  ])
  terminal.out(json ? formatJson({ columns, rows }) : formatTable({ columns, rows }, { none: '' }))
  return 0
}
