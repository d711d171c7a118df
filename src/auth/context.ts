import type { Pool, Transaction } from '../db/pool.ts'
import type { Passwords } from './passwords/password.ts'
import type { Throttle } from './throttle.ts'
import type { AccessTokens } from './tokens/access-token.ts'
import type { Revocations } from './tokens/revocations.ts'

/** A mail about an account. `token` is a one-time token. */
type AccountMail = { expiresAt: Date } & (
  | { kind: 'verify_email' | 'reset_password'; to: string; token: string }
  | { kind: 'already_registered' | 'password_changed'; to: string }
  /** Sends nothing. Queued for an address that gets no mail, so that its answer takes the same time. */
  | { kind: 'none' }
)

/** Queues a mail that is sent if `tx` commits, and retried until it is sent or `expiresAt` is past. */
type SendAccountMail = (tx: Transaction, mail: AccountMail) => Promise<void>

/** Erases what other slices store about an account, in the transaction that deletes it. */
type OnAccountDeleted = (tx: Transaction, userId: string) => Promise<void>

/** The dependencies of this slice's use cases. */
export interface AuthContext {
  pool: Pool
  passwords: Passwords
  tokens: AccessTokens
  revocations: Revocations
  throttle: Throttle
  sendAccountMail: SendAccountMail
  onAccountDeleted: OnAccountDeleted
  /** Whether an account is created only after its e-mail address is verified. */
  isVerificationRequired: boolean
  refreshGraceSeconds: number
  now: () => Date
}
