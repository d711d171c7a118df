import type { FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'
import type { Authenticate } from '../http/caller.ts'
import type { AuthContext } from './context.ts'
import { invalidToken } from './tokens/access-token.ts'

// RFC 6750 §2.1 with RFC 9110 §11.1's case-insensitive scheme.
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i

/** Tells who makes a request, by its access token and by its session being alive. The token is read from the header only. */
export function createAuthenticate({ tokens, revocations, now }: Pick<AuthContext, 'tokens' | 'revocations' | 'now'>): Authenticate {
  return async (request) => {
    const { authorization } = request.headers
    if (authorization === undefined) throw new AppError('unauthenticated', 'Send an access token: Authorization: Bearer …')
    const [, token] = BEARER.exec(authorization) ?? []
    if (token === undefined || countAuthorizations(request) > 1) throw invalidToken()
    const caller = await tokens.verify(token, now())
    if (await revocations.isRevoked(caller.sessionId)) throw invalidToken()
    return caller
  }
}

// Node.js keeps the first of two and says nothing. Which of them a proxy in front has looked at, nobody knows.
function countAuthorizations({ raw }: FastifyRequest): number {
  let count = 0
  for (let i = 0; i < raw.rawHeaders.length; i += 2) if (raw.rawHeaders[i]?.toLowerCase() === 'authorization') count++
  return count
}
