import type { FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'
import type { Authenticate } from '../http/caller.ts'
import type { AuthContext } from './context.ts'
import { invalidToken } from './tokens/access-token.ts'

// RFC 6750 §2.1 with RFC 9110 §11.1's case-insensitive scheme.
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i

/** Authenticates a request: its access token must be valid and its session alive. The token is read from the header only. */
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

// Node.js silently keeps the first of two; a proxy in front may have checked the other one.
function countAuthorizations({ raw }: FastifyRequest): number {
  let count = 0
  for (let i = 0; i < raw.rawHeaders.length; i += 2) if (raw.rawHeaders[i]?.toLowerCase() === 'authorization') count++
  return count
}
