import type { FastifyRequest } from 'fastify'

/** Who makes a request. */
export interface Caller {
  userId: string
  sessionId: string
  role: 'customer' | 'admin'
}

/** Tells who makes a request by its bearer token (RFC 6750). Throws `unauthenticated` or `invalid_token`. */
export type Authenticate = (request: FastifyRequest) => Promise<Caller>

/** For the OpenAPI document: the call needs a bearer token. */
export const bearer = [{ bearer: [] }]
