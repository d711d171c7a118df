import type { Pool, Transaction } from '../db/pool.ts'
import type { SendAccountMail } from './account-mail.ts'
import type { Passwords } from './passwords/password.ts'
import type { Throttle } from './throttle.ts'
import type { AccessTokens } from './tokens/access-token.ts'
import type { Revocations } from './tokens/revocations.ts'

/** Does in the transaction that deletes an account what other slices keep of it. */
export type OnAccountDeleted = (tx: Transaction, userId: string) => Promise<void>

/** What the use cases of this slice work with. */
export interface AuthContext {
  pool: Pool
  passwords: Passwords
  tokens: AccessTokens
  revocations: Revocations
  throttle: Throttle
  sendAccountMail: SendAccountMail
  onAccountDeleted: OnAccountDeleted
  /** Whether an account is made only when its address has been proven. */
  isVerificationRequired: boolean
  refreshGraceSeconds: number
  now: () => Date
}
