import type { FastifyRequest } from 'fastify'
import { type AccountRole, permits, type Scope } from './scopes.ts'

/** The authenticated caller of a request: a person with a session, or a machine with an API key. */
export type Caller = AccountCaller | KeyCaller

export interface AccountCaller {
  kind: 'account'
  userId: string
  sessionId: string
  role: AccountRole
}

export interface KeyCaller {
  kind: 'key'
  keyId: string
  scopes: ReadonlySet<Scope>
}

/**
 * The author of a change that needs a scope. `admin` is an operator of any role: events have had this name since the
 * first release.
 */
export interface ScopedActor {
  type: 'admin' | 'key'
  id: string
}

/** Authenticates a request by its bearer token (RFC 6750). Throws `unauthenticated` or `invalid_token`. */
export type Authenticate = (request: FastifyRequest) => Promise<Caller>

/** The request decorator with the caller. Only `enforceAccess` sets it. */
export const CALLER = 'caller'

export function hasScope(caller: Caller, scope: Scope): boolean {
  return caller.kind === 'key' ? caller.scopes.has(scope) : permits(caller.role, scope)
}

/** The caller of a route with the access `caller`. */
export function callerOf(request: FastifyRequest): AccountCaller {
  const caller = anyCallerOf(request)
  if (caller.kind !== 'account')
    throw new Error(`${request.routeOptions.url} may be called with a key: its caller need not have an account`)
  return caller
}

/** The caller of a route with the access `key`. */
export function keyCallerOf(request: FastifyRequest): KeyCaller {
  const caller = anyCallerOf(request)
  if (caller.kind !== 'key') throw new Error(`${request.routeOptions.url} may be called with a session`)
  return caller
}

/** The caller of a route that needs a scope. */
export function actorOf(request: FastifyRequest): ScopedActor {
  const caller = anyCallerOf(request)
  return caller.kind === 'key' ? { type: 'key', id: caller.keyId } : { type: 'admin', id: caller.userId }
}

/** Whether the caller of a route that needs a scope has another one too. */
export function mayUse(request: FastifyRequest, scope: Scope): boolean {
  return hasScope(anyCallerOf(request), scope)
}

export function anyCallerOf(request: FastifyRequest): Caller {
  const caller = request.getDecorator<Caller | undefined>(CALLER)
  if (caller === undefined || caller === null) throw new Error(`${request.routeOptions.url} is public: its caller is not known`)
  return caller
}
