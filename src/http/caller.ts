import type { FastifyRequest } from 'fastify'

/** The authenticated caller of a request. */
export interface Caller {
  userId: string
  sessionId: string
  role: 'customer' | 'admin'
}

/** Authenticates a request by its bearer token (RFC 6750). Throws `unauthenticated` or `invalid_token`. */
export type Authenticate = (request: FastifyRequest) => Promise<Caller>

/** The request decorator with the caller. Only `enforceAccess` sets it. */
export const CALLER = 'caller'

/** The caller of a request to a route that is not public. */
export function callerOf(request: FastifyRequest): Caller {
  const caller = request.getDecorator<Caller | undefined>(CALLER)
  if (caller === undefined || caller === null) throw new Error(`${request.routeOptions.url} is public: its caller is not known`)
  return caller
}
