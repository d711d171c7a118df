import type { Logger } from 'pino'
import type { FreshCopies } from '../db/fresh-copies.ts'
import { createAuthenticateKey } from './api-keys/authenticate-key.ts'
import { LastUses } from './api-keys/last-uses.ts'
import { LiveKeys } from './api-keys/live-keys.ts'
import { createAuthenticate } from './authenticate.ts'
import type { AuthContext } from './context.ts'
import { AdminFactorPolicy } from './factors/admin-factor-policy.ts'
import { createSessionGuard } from './factors/session-guard.ts'
import type { HashingOptions } from './passwords/hashing-threads.ts'
import { Passwords } from './passwords/password.ts'
import { createEncryption } from './store-secret.ts'
import { Throttle } from './throttle.ts'
import { AccessTokens } from './tokens/access-token.ts'
import { watchIssuer } from './tokens/issuer.ts'
import { KeyRing } from './tokens/key-ring.ts'
import { Revocations } from './tokens/revocations.ts'
import type { SigningKeys } from './tokens/signing-keys.ts'

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
  /** Encrypts signing keys and keys the throttle's hashes. */
  secret: string
  /** Issuer and audience of access tokens: the public address of the store. */
  issuer: string
  hashing: HashingOptions
  isThrottled: boolean
  /** Whether requests of all accounts together count for their network. */
  isByNetwork: boolean
  /** Whether admins need a second factor from when the first of them has one. */
  isAdminFactorRequired: boolean
  logger: Logger
}

/** Accounts and sessions as one service, which works without its copies started too, with more queries. */
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
