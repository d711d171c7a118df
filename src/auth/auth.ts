import type { Logger } from 'pino'
import type { FreshCopies } from '../db/fresh-copies.ts'
import { sql } from '../db/sql.ts'
import { AppError } from '../errors.ts'
import type { SessionGuard } from '../http/access.ts'
import type { AccountCaller, Authenticate } from '../http/caller.ts'
import { countHeaders } from '../http/host.ts'
import { type AuthenticateKey, createAuthenticateKey, keyInAddress } from './api-keys/authenticate-key.ts'
import { containsKey, isMeantAsKey } from './api-keys/key-text.ts'
import { LastUses } from './api-keys/last-uses.ts'
import { LiveKeys } from './api-keys/live-keys.ts'
import { clientOf } from './client.ts'
import type { AuthContext } from './context.ts'
import { AdminFactorPolicy } from './factors/admin-factor-policy.ts'
import { findSecondFactors, isSecondFactorMethod } from './factors/second-factors.ts'
import type { HashingOptions } from './passwords/hashing-threads.ts'
import { Passwords } from './passwords/password.ts'
import { createEncryption } from './store-secret.ts'
import { Throttle } from './throttle.ts'
import { AccessTokens, invalidToken } from './tokens/access-token.ts'
import { watchIssuer } from './tokens/issuer.ts'
import { KeyRing } from './tokens/key-ring.ts'
import { Revocations } from './tokens/revocations.ts'
import type { SigningKeys } from './tokens/signing-keys.ts'
import { getUser } from './users.ts'

type SharedOptions =
  | 'pool'
  | 'relyingParty'
  | 'sendAccountMail'
  | 'onAccountDeleted'
  | 'isVerificationRequired'
  | 'refreshGraceSeconds'
  | 'now'

interface AuthOptions extends Pick<AuthContext, SharedOptions> {
  copies: FreshCopies
  keys: SigningKeys
  /** Encrypts signing keys, and keys the hashes of the throttle. */
  secret: string
  /** Issuer and audience of access tokens: the store's public address. */
  issuer: string
  hashing: HashingOptions
  isThrottled: boolean
  /** Whether each network has limits, counted over all its accounts. */
  isByNetwork: boolean
  /** Whether all admins need a second factor once one admin has one. */
  isAdminFactorRequired: boolean
  logger: Logger
}

/** The service for accounts and sessions. It also works before its copies are started, with more queries. */
export function createAuth({
  copies,
  keys,
  secret,
  issuer,
  hashing,
  isThrottled,
  isByNetwork,
  isAdminFactorRequired,
  logger,
  ...shared
}: AuthOptions) {
  const { pool, now } = shared
  const keyRing = new KeyRing(keys, { copies, pool, secret, logger })
  const liveKeys = new LiveKeys(copies, pool)
  const lastUses = new LastUses({ pool, logger, now })
  const revocations = new Revocations({ copies, pool, logger, now })
  watchIssuer({ copies, issuer, logger })
  const context: AuthContext = {
    ...shared,
    passwords: new Passwords(hashing),
    tokens: new AccessTokens(keyRing, issuer),
    revocations,
    liveKeys,
    throttle: new Throttle({ pool, secret, isEnabled: isThrottled, isByNetwork }),
    totpEncryption: createEncryption(secret, 'totp secret'),
    adminFactors: new AdminFactorPolicy({ copies, isEnabled: isAdminFactorRequired }),
  }
  const authenticateKey = createAuthenticateKey({ liveKeys, lastUses, isThrottled, isByNetwork, now })
  return {
    context,
    authenticate: createAuthenticate({ ...context, authenticateKey }),
    sessionGuard: createSessionGuard(context),
    start: () => lastUses.start(),
    /** Idempotent, safe before start. */
    stop: async () => void (await Promise.all([lastUses.stop(), context.passwords.stop()])),
  }
}

export type Auth = ReturnType<typeof createAuth>

const FRESH_MS = 10 * 60_000

/** The session conditions of routes, besides account and role. */
function createSessionGuard({ pool, adminFactors, now }: Pick<AuthContext, 'pool' | 'adminFactors' | 'now'>): SessionGuard {
  return {
    async assertMayUseScopes({ userId, role }) {
      if (role !== 'admin' || !(await adminFactors.isActive())) return
      const { isRequired: hasFactor } = await findSecondFactors(pool, { id: userId, role })
      if (!hasFactor)
        throw new AppError(
          'second_factor_setup_required',
          'Admins of this store need a second factor. Set one up first: POST /me/passkeys/options or POST /me/totp.',
        )
    },
    async assertFreshProof(caller, when) {
      if (caller.role === 'guest' && when === 'always') throw new AppError('forbidden', 'Guests cannot sign in. Register first.')
      const { isRequired } = await findSecondFactors(pool, await getUser(pool, caller.userId))
      if (!isRequired && when !== 'always') return
      if (!(await isFresh(caller, isRequired))) {
        throw new AppError(
          'step_up_required',
          `Prove again who you are, and repeat the call: POST /auth/step-up. A proof counts for ${FRESH_MS / 60_000} minutes.`,
        )
      }
    },
  }

  async function isFresh({ sessionId }: AccountCaller, needsSecondFactor: boolean): Promise<boolean> {
    const { rows } = await pool.query<{ authenticated_by: string[]; is_fresh: boolean }>(
      sql`select authenticated_by, authenticated_at > ${new Date(now().getTime() - FRESH_MS)} as is_fresh
      from sessions
      where id = ${sessionId} and revoked_at is null`,
    )
    // The session has ended, but this process may not know it yet.
    if (rows[0] === undefined) throw invalidToken()
    return rows[0].is_fresh && (!needsSecondFactor || rows[0].authenticated_by.some(isSecondFactorMethod))
  }
}

interface AuthenticateOptions extends Pick<AuthContext, 'tokens' | 'revocations' | 'now'> {
  authenticateKey: AuthenticateKey
}

// RFC 6750 §2.1, with the case-insensitive scheme of RFC 9110 §11.1.
const BEARER = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i

/**
 * Authenticates a request, which needs an access token of an open session or a valid API key, in the Authorization
 * header.
 */
function createAuthenticate({ tokens, revocations, now, authenticateKey }: AuthenticateOptions): Authenticate {
  return async (request) => {
    if (containsKey(request.url)) throw keyInAddress()
    const { authorization } = request.headers
    if (authorization === undefined) throw new AppError('unauthenticated', 'Send an access token or an API key: Authorization: Bearer …')
    const [, token] = BEARER.exec(authorization) ?? []
    // With two headers, a proxy may have checked the other one.
    if (token === undefined || countHeaders(request.raw, 'authorization') > 1) throw invalidToken()
    if (isMeantAsKey(token)) return authenticateKey(token, clientOf(request))
    const caller = await tokens.verify(token, now())
    if (await revocations.isRevoked(caller.sessionId)) throw invalidToken()
    return caller
  }
}
