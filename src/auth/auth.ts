import type { Logger } from 'pino'
import type { Pool } from '../db/pool.ts'
import type { Connect } from '../db/with-reconnect.ts'
import type { Authenticate } from '../http/caller.ts'
import type { SendAccountMail } from './account-mail.ts'
import { createAuthenticate } from './authenticate.ts'
import type { AuthContext, OnAccountDeleted } from './context.ts'
import type { HashingOptions } from './passwords/hashing-threads.ts'
import { Passwords } from './passwords/password.ts'
import { Throttle } from './throttle.ts'
import { AccessTokens } from './tokens/access-token.ts'
import { IssuerWatch } from './tokens/issuer.ts'
import { KeyRing } from './tokens/key-ring.ts'
import { Revocations } from './tokens/revocations.ts'
import type { SigningKeys } from './tokens/signing-keys.ts'

export interface AuthOptions {
  pool: Pool
  /** Opens a connection outside the pool, for news of ended sessions. */
  connect: Connect
  keys: SigningKeys
  /** Encrypts signing keys and keys the throttle's hashes. */
  secret: string
  /** Issuer and audience of access tokens: the public address of the store. */
  issuer: string
  hashing: HashingOptions
  refreshGraceSeconds: number
  isVerificationRequired: boolean
  isThrottled: boolean
  sendAccountMail: SendAccountMail
  onAccountDeleted: OnAccountDeleted
  logger: Logger
  now: () => Date
}

/** Accounts and sessions as one service. Works before `start` too, with more queries. */
export interface Auth {
  readonly context: AuthContext
  readonly authenticate: Authenticate
  start(): Promise<void>
  /** Idempotent, safe before start. */
  stop(): Promise<void>
}

export function createAuth(options: AuthOptions): Auth {
  const { pool, logger, secret, now } = options
  const keyRing = new KeyRing(options.keys, { pool, secret, logger })
  const revocations = new Revocations({ pool, connect: options.connect, logger, now })
  const context: AuthContext = {
    pool,
    passwords: new Passwords(options.hashing),
    tokens: new AccessTokens(keyRing, options.issuer),
    revocations,
    throttle: new Throttle({ pool, secret, isEnabled: options.isThrottled }),
    sendAccountMail: options.sendAccountMail,
    onAccountDeleted: options.onAccountDeleted,
    isVerificationRequired: options.isVerificationRequired,
    refreshGraceSeconds: options.refreshGraceSeconds,
    now,
  }
  const parts = [keyRing, revocations, new IssuerWatch({ pool, issuer: options.issuer, logger })]
  return {
    context,
    authenticate: createAuthenticate(context),
    async start() {
      await Promise.all(parts.map((part) => part.start()))
    },
    async stop() {
      await Promise.all([...parts, context.passwords].map((part) => part.stop()))
    },
  }
}
