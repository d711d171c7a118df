import { randomUUID } from 'node:crypto'
import { errors, type JWTPayload, jwtVerify, SignJWT } from 'jose'
import { AppError } from '../errors.ts'
import type { Caller } from '../http/caller.ts'
import type { KeyRing } from './key-ring.ts'
import { ACCESS_TOKEN_SECONDS, ALGORITHM, CLOCK_TOLERANCE_SECONDS } from './signing-keys.ts'

// RFC 9068 §2.1
const TYPE = 'at+jwt'
const MAX_LENGTH = 2_048
const MAX_VERIFIED = 10_000

export interface IssuedToken {
  token: string
  /** Seconds. */
  expiresIn: number
}

/** Issues and verifies access tokens: JWTs after RFC 9068, signed with EdDSA, verified after RFC 8725. */
export class AccessTokens {
  readonly #keys: KeyRing
  /** Issuer and audience: this store is both. */
  readonly #issuer: string
  /** Tokens whose signature and claims were found good, until they expire. The oldest make room. */
  readonly #verified = new Map<string, { caller: Caller; expiresAtMs: number }>()

  constructor(keys: KeyRing, issuer: string) {
    this.#keys = keys
    this.#issuer = issuer
  }

  get jwks(): KeyRing['jwks'] {
    return this.#keys.jwks
  }

  /** A token for `caller` that ends no later than its session does. */
  async issue(caller: Caller, sessionExpiresAt: Date, now: Date): Promise<IssuedToken> {
    const issuedAt = Math.floor(now.getTime() / 1000)
    const expiresIn = Math.min(ACCESS_TOKEN_SECONDS, Math.floor(sessionExpiresAt.getTime() / 1000) - issuedAt)
    const { id, privateKey } = this.#keys.current
    const token = await new SignJWT({ sid: caller.sessionId, role: caller.role })
      .setProtectedHeader({ alg: ALGORITHM, typ: TYPE, kid: id })
      .setIssuer(this.#issuer)
      .setAudience(this.#issuer)
      .setSubject(caller.userId)
      .setIssuedAt(issuedAt)
      .setExpirationTime(issuedAt + expiresIn)
      .setJti(randomUUID())
      .sign(privateKey)
    return { token, expiresIn }
  }

  /**
   * Who the token was issued to. Throws `invalid_token`. The key is looked up by `kid` among the store's own; keys and
   * addresses of keys in the token's header (jwk, jku, x5c, x5u) are never looked at.
   */
  async verify(token: string, now: Date): Promise<Caller> {
    const known = this.#verified.get(token)
    if (known !== undefined && known.expiresAtMs > now.getTime()) return known.caller
    if (token.length > MAX_LENGTH) throw invalidToken()
    const payload = await this.#verifyClaims(token, now)
    const caller = toCaller(payload)
    this.#remember(token, caller, ((payload.exp ?? 0) + CLOCK_TOLERANCE_SECONDS) * 1000)
    return caller
  }

  async #verifyClaims(token: string, now: Date): Promise<JWTPayload> {
    try {
      const { payload } = await jwtVerify(token, async ({ kid }) => this.#findKey(kid), {
        algorithms: [ALGORITHM],
        typ: TYPE,
        issuer: this.#issuer,
        audience: this.#issuer,
        requiredClaims: ['exp', 'iat', 'sub', 'sid', 'role', 'jti'],
        maxTokenAge: ACCESS_TOKEN_SECONDS,
        clockTolerance: CLOCK_TOLERANCE_SECONDS,
        currentDate: now,
      })
      return payload
    } catch (error) {
      if (error instanceof errors.JOSEError) throw invalidToken(error)
      throw error
    }
  }

  async #findKey(id: unknown) {
    const key = typeof id === 'string' ? await this.#keys.find(id) : undefined
    if (key === undefined) throw new errors.JWKSNoMatchingKey()
    return key
  }

  #remember(token: string, caller: Caller, expiresAtMs: number): void {
    if (this.#verified.size >= MAX_VERIFIED) {
      const [oldest] = this.#verified.keys()
      if (oldest !== undefined) this.#verified.delete(oldest)
    }
    this.#verified.set(token, { caller, expiresAtMs })
  }
}

function toCaller({ sub, sid, role }: JWTPayload): Caller {
  if (typeof sub !== 'string' || typeof sid !== 'string' || (role !== 'customer' && role !== 'admin')) throw invalidToken()
  return { userId: sub, sessionId: sid, role }
}

export function invalidToken(cause?: unknown): AppError {
  return new AppError('invalid_token', 'The access token is missing something, was changed, has expired or was revoked.', { cause })
}
