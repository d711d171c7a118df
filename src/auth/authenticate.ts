import { AppError } from '../errors.ts'
import type { Authenticate } from '../http/caller.ts'
import { countHeaders } from '../http/host.ts'
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
    // Of two headers, a proxy in front may have checked the other one.
    if (token === undefined || countHeaders(request.raw, 'authorization') > 1) throw invalidToken()
    const caller = await tokens.verify(token, now())
    if (await revocations.isRevoked(caller.sessionId)) throw invalidToken()
    return caller
  }
}
