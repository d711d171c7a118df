import type { FastifyRequest } from 'fastify'
import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { actorOf } from '../http/caller.ts'
import { traceparentOf } from '../http/trace-context.ts'

/** The author and the context of a change, which are known beforehand. */
export interface AuditContext {
  actor: { type: 'admin' | 'key' | 'system'; id: string | null }
  /** The operation id of the API request, or the name of the command. */
  action: string
  requestId: string | null
  /** The request's trace context, for published records. */
  traceparent?: string
}

export const SUBJECT_TYPES = ['product', 'category', 'order', 'account', 'api_key', 'mail', 'webhook', 'audit', 'lake', 'store'] as const

/** A change. `before` and `after` have the members that differ, without secrets and personal data. */
export interface ActivityChange {
  subjectType: (typeof SUBJECT_TYPES)[number]
  /** The subject's id. Null when there are many, whose number `after` has. */
  subjectId: string | null
  before: object | null
  after: object | null
}

/** Longer texts are cut, so the activities are no second copy of the catalogue. */
const MAX_TEXT = 500

export function auditContextOf(request: FastifyRequest): AuditContext {
  const { schema } = request.routeOptions
  const action = (schema as { operationId?: string } | undefined)?.operationId
  if (action === undefined) throw new Error(`${request.routeOptions.url} has no operationId`)
  return { actor: actorOf(request), action, requestId: request.id, traceparent: traceparentOf(request) }
}

export function auditContextOfCommand(command: string): AuditContext {
  return { actor: { type: 'system', id: null }, action: command, requestId: null }
}

/** The members in which two states differ, with long texts cut, or null when the states are equal. */
export function difference<T extends object>(before: T, after: T): Pick<ActivityChange, 'before' | 'after'> | null {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  const differing = names.filter((name) => JSON.stringify(Reflect.get(before, name)) !== JSON.stringify(Reflect.get(after, name)))
  const pick = (state: T) => cutTexts(Object.fromEntries(differing.map((name) => [name, Reflect.get(state, name) ?? null])))
  return differing.length === 0 ? null : { before: pick(before), after: pick(after) }
}

/** The state with its long texts cut, including those in nested objects. */
export function cutTexts(state: object): object {
  const cutValue = (value: unknown) => {
    if (typeof value === 'string') return cut(value)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? cutTexts(value) : value
  }
  return Object.fromEntries(Object.entries(state).map(([name, value]) => [name, cutValue(value)]))
}

function cut(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT).toWellFormed()}…`
}

/** Records a change in the transaction that makes the change. */
export async function recordActivity(tx: Queryable, { actor, action, requestId }: AuditContext, change: ActivityChange): Promise<void> {
  await recordActivities(tx, { actor, action, requestId }, [change])
}

export async function recordActivities(tx: Queryable, auditContext: AuditContext, changes: readonly ActivityChange[]): Promise<void> {
  if (changes.length === 0) return
  const column = <T>(pick: (change: ActivityChange) => T) => changes.map(pick)
  const json = (value: object | null) => (value === null ? null : JSON.stringify(value))
  await tx.query(sql`insert into activities (actor_type, actor_id, action, subject_type, subject_id, before, after, request_id)
    select ${auditContext.actor.type}, ${auditContext.actor.id}, ${auditContext.action}, subject_type, subject_id, before, after, ${auditContext.requestId}
    from unnest(
      ${column((change) => change.subjectType)}::text[], ${column((change) => change.subjectId)}::text[],
      ${column((change) => json(change.before))}::jsonb[], ${column((change) => json(change.after))}::jsonb[]
    ) as change (subject_type, subject_id, before, after)`)
}
