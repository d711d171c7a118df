import type { FastifyRequest } from 'fastify'
import { type AuditContext, auditContextOf } from '../activity/record-activity.ts'
import { type AccountCaller, callerOf } from '../http/caller.ts'
import { isOperatorRole } from '../http/scopes.ts'
import { type Client, clientOf } from './client.ts'

/**
 * The caller of a change to its own credentials. `auditContext` is null for customers, whose changes are no activities
 * of operators.
 */
export interface OwnChange {
  caller: AccountCaller
  client: Client
  auditContext: AuditContext | null
}

export function ownChangeOf(request: FastifyRequest): OwnChange {
  const caller = callerOf(request)
  return { caller, client: clientOf(request), auditContext: isOperatorRole(caller.role) ? auditContextOf(request) : null }
}
