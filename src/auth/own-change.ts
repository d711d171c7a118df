import type { FastifyRequest } from 'fastify'
import { type Doing, doingOf } from '../activity/record-activity.ts'
import { type AccountCaller, callerOf } from '../http/caller.ts'
import { isOperatorRole } from '../http/scopes.ts'
import { type Client, clientOf } from './client.ts'

/** Who changes how their own account is entered. `doing` is null for customers, whose changes are no activities of operators. */
export interface OwnChange {
  caller: AccountCaller
  client: Client
  doing: Doing | null
}

export function ownChangeOf(request: FastifyRequest): OwnChange {
  const caller = callerOf(request)
  return { caller, client: clientOf(request), doing: isOperatorRole(caller.role) ? doingOf(request) : null }
}
