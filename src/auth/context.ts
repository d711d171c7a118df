import type { Pool, Transaction } from '../db/pool.ts'
import type { SendAccountMail } from './account-mail.ts'
import type { Passwords } from './passwords/password.ts'
import type { Throttle } from './throttle.ts'
import type { AccessTokens } from './tokens/access-token.ts'
import type { Revocations } from './tokens/revocations.ts'

/** Erases what other slices store about an account, in the transaction that deletes it. */
export type OnAccountDeleted = (tx: Transaction, userId: string) => Promise<void>

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
