import { type ActivityFilter, findActorNames, listActivities } from '../activity/list-activities.ts'
import type { Contexts } from './command.ts'
import { printRows } from './format-table.ts'

/** Characters of a state in the table. JSON contains all of it. */
const MAX_STATE = 60

export async function printActivities({ pool, terminal }: Contexts['database'], filter: ActivityFilter, json: boolean): Promise<number> {
  const columns = ['id', 'at', 'actor', 'actor_name', 'action', 'subject', 'subject_id', 'before', 'after', 'request_id']
  const activities = await listActivities(pool, filter)
  const names = await findActorNames(pool, activities)
  const clip = (text: string) => (json || text.length <= MAX_STATE ? text : `${text.slice(0, MAX_STATE - 1)}…`)
  const rows = activities.map((activity) => [
    ...[activity.id, activity.at.toISOString()],
    activity.actor_id === null ? activity.actor_type : `${activity.actor_type} ${activity.actor_id}`,
    names.get(activity.actor_id ?? '') ?? null,
    ...[activity.action, activity.subject_type, activity.subject_id],
    ...[activity.before, activity.after].map((state) => (state === null ? null : clip(JSON.stringify(state)))),
    activity.request_id,
  ])
  return printRows(terminal, { columns, rows }, json)
}
