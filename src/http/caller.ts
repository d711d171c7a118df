import type { FastifyRequest } from 'fastify'
import { type AccountRole, permits, type Scope } from './scopes.ts'

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

/** `admin` is an operator of any role, a name that events keep. */
export interface ScopedActor {
  type: 'admin' | 'key'
  id: string
}

/** Authenticates a request by its bearer token (RFC 6750). Throws `unauthenticated` or `invalid_token`. */
export type Authenticate = (request: FastifyRequest) => Promise<Caller>

/** `enforceAccess` alone sets it. */
export const CALLER = 'caller'

export function hasScope(caller: Caller, scope: Scope): boolean {
  return caller.kind === 'key' ? caller.scopes.has(scope) : permits(caller.role, scope)
}

export function callerOf(request: FastifyRequest): AccountCaller {
  const caller = anyCallerOf(request)
  if (caller.kind !== 'account')
    throw new Error(`${request.routeOptions.url} may be called with a key: its caller need not have an account`)
  return caller
}

export function keyCallerOf(request: FastifyRequest): KeyCaller {
  const caller = anyCallerOf(request)
  if (caller.kind !== 'key') throw new Error(`${request.routeOptions.url} may be called with a session`)
  return caller
}

export function actorOf(request: FastifyRequest): ScopedActor {
  const caller = anyCallerOf(request)
  return caller.kind === 'key' ? { type: 'key', id: caller.keyId } : { type: 'admin', id: caller.userId }
}

export function mayUse(request: FastifyRequest, scope: Scope): boolean {
  return hasScope(anyCallerOf(request), scope)
}

export function anyCallerOf(request: FastifyRequest): Caller {
  const caller = request.getDecorator<Caller | undefined>(CALLER)
  if (caller === undefined || caller === null) throw new Error(`${request.routeOptions.url} is public: its caller is not known`)
  return caller
}
