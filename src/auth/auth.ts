import type { Logger } from 'pino'
import type { Connect } from '../db/with-reconnect.ts'
import { createAuthenticate } from './authenticate.ts'
import type { AuthContext } from './context.ts'
import type { HashingOptions } from './passwords/hashing-threads.ts'
import { Passwords } from './passwords/password.ts'
import { Throttle } from './throttle.ts'
import { AccessTokens } from './tokens/access-token.ts'
import { createIssuerWatch } from './tokens/issuer.ts'
import { KeyRing } from './tokens/key-ring.ts'
import { Revocations } from './tokens/revocations.ts'
import type { SigningKeys } from './tokens/signing-keys.ts'

type SharedOptions = 'pool' | 'sendAccountMail' | 'onAccountDeleted' | 'isVerificationRequired' | 'refreshGraceSeconds' | 'now'

interface AuthOptions extends Pick<AuthContext, SharedOptions> {
  /** Opens a connection outside the pool, for news of ended sessions. */
  connect: Connect
  keys: SigningKeys
  /** Encrypts signing keys and keys the throttle's hashes. */
  secret: string
  /** Issuer and audience of access tokens: the public address of the store. */
  issuer: string
  hashing: HashingOptions
  isThrottled: boolean
  logger: Logger
}

/** Accounts and sessions as one service. Works before `start` too, with more queries. */
export function createAuth({ connect, keys, secret, issuer, hashing, isThrottled, logger, ...shared }: AuthOptions) {
  const { pool, now } = shared
  const keyRing = new KeyRing(keys, { pool, secret, logger })
  const revocations = new Revocations({ pool, connect, logger, now })
  const context: AuthContext = {
    ...shared,
    passwords: new Passwords(hashing),
    tokens: new AccessTokens(keyRing, issuer),
    revocations,
    throttle: new Throttle({ pool, secret, isEnabled: isThrottled }),
  }
  const parts = [keyRing, revocations, createIssuerWatch({ pool, issuer, logger })]
  return {
    context,
    authenticate: createAuthenticate(context),
    start: async () => void (await Promise.all(parts.map((part) => part.start()))),
    /** Idempotent, safe before start. */
    stop: async () => void (await Promise.all([...parts, context.passwords].map((part) => part.stop()))),
  }
}

export type Auth = ReturnType<typeof createAuth>
