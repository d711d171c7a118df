import { randomUUID } from 'node:crypto'
import { createLocalJWKSet, errors, type JWTPayload, jwtVerify, SignJWT } from 'jose'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/caller.ts'
import { ALGORITHM, type SigningKeys } from './signing-keys.ts'

export const ACCESS_TOKEN_SECONDS = 900
const CLOCK_TOLERANCE_SECONDS = 5
// RFC 9068 §2.1
const TYPE = 'at+jwt'
const MAX_LENGTH = 4_096

/** Issues and verifies access tokens: JWTs after RFC 9068, signed with EdDSA. */
export class AccessTokens {
  readonly #keys: SigningKeys
  readonly #findKey: ReturnType<typeof createLocalJWKSet>
  /** Issuer and audience: this store is both. */
  readonly #issuer: string

  constructor(keys: SigningKeys, issuer: string) {
    this.#keys = keys
    this.#findKey = createLocalJWKSet(keys.jwks)
    this.#issuer = issuer
  }

  get jwks(): SigningKeys['jwks'] {
    return this.#keys.jwks
  }

  async issue(caller: Caller, now: Date): Promise<string> {
    const issuedAt = Math.floor(now.getTime() / 1000)
    return new SignJWT({ sid: caller.sessionId, role: caller.role })
      .setProtectedHeader({ alg: ALGORITHM, typ: TYPE, kid: this.#keys.current.id })
      .setIssuer(this.#issuer)
      .setAudience(this.#issuer)
      .setSubject(caller.userId)
      .setIssuedAt(issuedAt)
      .setExpirationTime(issuedAt + ACCESS_TOKEN_SECONDS)
      .setJti(randomUUID())
      .sign(this.#keys.current.privateKey)
  }

  /** Who the token was issued to. Throws `invalid_token`. Keys named or carried by the token's own header are never used. */
  async verify(token: string, now: Date): Promise<Caller> {
    if (token.length > MAX_LENGTH) throw invalidToken()
    try {
      const { payload } = await jwtVerify(token, this.#findKey, {
        algorithms: [ALGORITHM],
        typ: TYPE,
        issuer: this.#issuer,
        audience: this.#issuer,
        requiredClaims: ['exp', 'iat', 'sub', 'sid', 'role'],
        clockTolerance: CLOCK_TOLERANCE_SECONDS,
        currentDate: now,
      })
      return toCaller(payload)
    } catch (error) {
      if (error instanceof errors.JOSEError) throw invalidToken(error)
      throw error
    }
  }
}

function toCaller({ sub, sid, role }: JWTPayload): Caller {
  if (typeof sub !== 'string' || typeof sid !== 'string' || (role !== 'customer' && role !== 'admin')) throw invalidToken()
  return { userId: sub, sessionId: sid, role }
}

export function invalidToken(cause?: unknown): AppError {
  return new AppError('invalid_token', 'The access token is missing something, was changed, has expired or was revoked.', { cause })
}
