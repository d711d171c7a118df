import { AppError } from '../errors.ts'
import type { Authenticate } from '../http/caller.ts'
import { invalidToken } from './access-token.ts'
import type { AuthContext } from './context.ts'
import { isSessionAlive } from './sessions.ts'

// RFC 6750 §2.1 with RFC 7235's case-insensitive scheme.
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i

/** Tells who makes a request, by its access token and by its session being alive. */
export function createAuthenticate({ pool, tokens, now }: Pick<AuthContext, 'pool' | 'tokens' | 'now'>): Authenticate {
  return async (request) => {
    const { authorization } = request.headers
    if (authorization === undefined) throw new AppError('unauthenticated', 'Send an access token: Authorization: Bearer …')
    const [, token] = BEARER.exec(authorization) ?? []
    if (token === undefined) throw invalidToken()
    const caller = await tokens.verify(token, now())
    if (!(await isSessionAlive(pool, caller.sessionId, now()))) throw invalidToken()
    return caller
  }
}
