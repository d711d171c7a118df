import type { FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'

/** Who makes a request. */
export interface Caller {
  userId: string
  sessionId: string
  role: 'customer' | 'admin'
}

/** Tells who makes a request by its bearer token (RFC 6750). Throws `unauthenticated` or `invalid_token`. */
export type Authenticate = (request: FastifyRequest) => Promise<Caller>

const CALLER = 'caller'

/** Makes a request's caller known before its body is looked at; a stranger learns nothing from it. An `onRequest` hook. */
export function requireCaller(authenticate: Authenticate) {
  return async (request: FastifyRequest): Promise<void> => request.setDecorator(CALLER, await authenticate(request))
}

/** The same for operators only. Throws `forbidden` for everybody else. */
export function requireAdmin(authenticate: Authenticate) {
  return async (request: FastifyRequest): Promise<void> => {
    const caller = await authenticate(request)
    if (caller.role !== 'admin') throw new AppError('forbidden', 'Only operators can do this.')
    request.setDecorator(CALLER, caller)
  }
}

/** The caller of a request that came through `requireCaller`. */
export function callerOf(request: FastifyRequest): Caller {
  return request.getDecorator<Caller>(CALLER)
}

/** For the OpenAPI document: the call needs a bearer token. */
export const bearer = [{ bearer: [] }]
