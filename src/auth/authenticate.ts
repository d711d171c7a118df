import { AppError } from '../errors.ts'
import type { Authenticate } from '../http/caller.ts'
import { countHeaders } from '../http/host.ts'
import { type AuthenticateKey, keyInAddress } from './api-keys/authenticate-key.ts'
import { containsKey, isMeantAsKey } from './api-keys/key-text.ts'
import { clientOf } from './client.ts'
import type { AuthContext } from './context.ts'
import { invalidToken } from './tokens/access-token.ts'

interface AuthenticateOptions extends Pick<AuthContext, 'tokens' | 'revocations' | 'now'> {
  authenticateKey: AuthenticateKey
}

// RFC 6750 §2.1 with RFC 9110 §11.1's case-insensitive scheme.
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i

/** Authenticates a request: its access token must be valid and its session alive, or its API key valid. Both are read from the header only. */
export function createAuthenticate({ tokens, revocations, now, authenticateKey }: AuthenticateOptions): Authenticate {
  return async (request) => {
    if (containsKey(request.url)) throw keyInAddress()
    const { authorization } = request.headers
    if (authorization === undefined) throw new AppError('unauthenticated', 'Send an access token or an API key: Authorization: Bearer …')
    const [, token] = BEARER.exec(authorization) ?? []
    // With two such headers, a proxy in front may have checked the other one.
    if (token === undefined || countHeaders(request.raw, 'authorization') > 1) throw invalidToken()
    if (isMeantAsKey(token)) return authenticateKey(token, clientOf(request))
    const caller = await tokens.verify(token, now())
    if (await revocations.isRevoked(caller.sessionId)) throw invalidToken()
    return caller
  }
}
