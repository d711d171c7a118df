import { randomUUID } from 'node:crypto'
import { errors, type JWTPayload, type JWTVerifyResult, jwtVerify, SignJWT } from 'jose'
import { AppError } from '../../errors.ts'
import type { AccountCaller } from '../../http/caller.ts'
import { isAccountRole } from '../../http/scopes.ts'
import type { KeyRing } from './key-ring.ts'
import { ACCESS_TOKEN_SECONDS, ALGORITHM, CLOCK_TOLERANCE_SECONDS, ISSUED_AHEAD_SECONDS } from './signing-keys.ts'

// RFC 9068 §2.1
const TYPE = 'at+jwt'
const MAX_LENGTH = 2_048
const MAX_VERIFIED = 10_000

/** A cached token whose signature and claims are valid. */
interface VerifiedToken {
  caller: AccountCaller
  /** The signing key's id. Deleting a key ends its tokens. */
  keyId: string
  /** Milliseconds since 1970. Both ends are checked, because clocks can move back. */
  acceptedFromMs: number
  acceptedUntilMs: number
}

/** Issues and verifies access tokens: JWTs by RFC 9068, signed with EdDSA, verified by RFC 8725. */
export class AccessTokens {
  readonly #keys: KeyRing
  /** Both issuer and audience. */
  readonly #issuer: string
  /** Verified tokens by their text. The oldest entries make room. */
  readonly #verified = new Map<string, VerifiedToken>()

  constructor(keys: KeyRing, issuer: string) {
    this.#keys = keys
    this.#issuer = issuer
  }

  get jwks(): KeyRing['jwks'] {
    return this.#keys.jwks
  }

  /** A token for `caller` that ends no later than its session. `expiresIn` is in seconds. */
  async issue(caller: AccountCaller, sessionExpiresAt: Date, now: Date): Promise<{ token: string; expiresIn: number }> {
    const issuedAt = Math.floor(now.getTime() / 1000)
    const expiresIn = Math.min(ACCESS_TOKEN_SECONDS, Math.floor(sessionExpiresAt.getTime() / 1000) - issuedAt)
    const { id, privateKey } = await this.#keys.findCurrent()
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
   * The token's caller. Throws `invalid_token`. Finds the key by `kid` among the store's keys, and ignores keys and key
   * addresses in the token's header (jwk, jku, x5c, x5u).
   */
  async verify(token: string, now: Date): Promise<AccountCaller> {
    const known = this.#verified.get(token)
    if (known !== undefined && isAccepted(known, now) && (await this.#keys.find(known.keyId)) !== undefined) return known.caller
    if (token.length > MAX_LENGTH || !token.split('.').every(isCanonical)) throw invalidToken()
    const { payload, protectedHeader } = await this.#verifyClaims(token, now)
    const { iat = 0, exp = 0 } = payload
    const verified = {
      caller: toCaller(payload),
      keyId: protectedHeader.kid ?? '',
      acceptedFromMs: (iat - ISSUED_AHEAD_SECONDS) * 1000,
      acceptedUntilMs: (Math.min(exp, iat + ACCESS_TOKEN_SECONDS) + CLOCK_TOLERANCE_SECONDS) * 1000,
    }
    if (!isAccepted(verified, now)) throw invalidToken()
    this.#remember(token, verified)
    return verified.caller
  }

  async #verifyClaims(token: string, now: Date): Promise<JWTVerifyResult> {
    try {
      return await jwtVerify(token, async ({ kid }) => this.#findKey(kid), {
        algorithms: [ALGORITHM],
        typ: TYPE,
        issuer: this.#issuer,
        audience: this.#issuer,
        requiredClaims: ['exp', 'iat', 'sub', 'sid', 'role', 'jti'],
        clockTolerance: CLOCK_TOLERANCE_SECONDS,
        currentDate: now,
      })
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

  #remember(token: string, verified: VerifiedToken): void {
    if (this.#verified.size >= MAX_VERIFIED) {
      const [oldest] = this.#verified.keys()
      if (oldest !== undefined) this.#verified.delete(oldest)
    }
    this.#verified.set(token, verified)
  }
}

function isAccepted({ acceptedFromMs, acceptedUntilMs }: VerifiedToken, now: Date): boolean {
  return acceptedFromMs <= now.getTime() && now.getTime() < acceptedUntilMs
}

/**
 * Whether base64url is canonical (RFC 4648 §3.5). Decoders ignore the last bits, so other spellings decode to the same
 * bytes.
 */
function isCanonical(part: string): boolean {
  return Buffer.from(part, 'base64url').toString('base64url') === part
}

function toCaller({ sub, sid, role }: JWTPayload): AccountCaller {
  if (typeof sub !== 'string' || typeof sid !== 'string' || !isAccountRole(role)) throw invalidToken()
  return { kind: 'account', userId: sub, sessionId: sid, role }
}

export function invalidToken(cause?: unknown): AppError {
  return new AppError(
    'invalid_token',
    'The access token is incomplete, was changed, has expired or was revoked. Refresh it or log in again.',
    { cause },
  )
}
