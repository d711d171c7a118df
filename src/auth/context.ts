import type { Pool, Transaction } from '../db/pool.ts'
import type { OperatorRole } from '../http/scopes.ts'
import type { Language } from '../language.ts'
import type { LiveKeys } from './api-keys/live-keys.ts'
import type { AdminFactorPolicy } from './factors/admin-factor-policy.ts'
import type { RelyingParty } from './factors/webauthn.ts'
import type { Passwords } from './passwords/password.ts'
import type { Encryption } from './store-secret.ts'
import type { Throttle } from './throttle.ts'
import type { AccessTokens } from './tokens/access-token.ts'
import type { Revocations } from './tokens/revocations.ts'
import type { User } from './users.ts'

type TokenMail = 'verify_email' | 'reset_password' | 'confirm_email' | 'email_change_requested' | 'email_changed'
type FactorNotice = 'second_factor_added' | 'second_factor_removed' | 'second_factor_failed' | 'recovery_code_used'
type SignInNotice = 'password_changed' | 'sign_in_linked' | 'sign_in_unlinked' | FactorNotice
type Notice = 'already_registered' | 'address_in_use' | 'email_change_reverted' | SignInNotice

/**
 * An account mail. `token` is a one-time token; the console's page accepts it if `isForConsole` is set. `language` is
 * the account's; null for the store's.
 */
type AccountMail = { expiresAt: Date } & (
  | { kind: TokenMail; to: string; language: Language | null; token: string; isForConsole?: boolean }
  | { kind: 'operator_invited'; to: string; language: null; token: string; isForConsole: true; role: OperatorRole; inviter: string | null }
  | { kind: Notice; to: string; language: Language | null }
  /** Sends nothing. Queued when no mail is due, so the answer takes the same time. */
  | { kind: 'none' }
)

/** Queues a mail, which is sent if `tx` commits and retried until `expiresAt`. */
type SendAccountMail = (tx: Transaction, mail: AccountMail) => Promise<void>

const NOTICE_MS = 24 * 3_600_000

/**
 * Mails an account's address a notice of a change to the account. Drops the notice if it cannot be sent within a day.
 */
export function sendNotice(
  tx: Transaction,
  { sendAccountMail, now }: Pick<AuthContext, 'sendAccountMail' | 'now'>,
  kind: Notice,
  { email, language }: Pick<User, 'email' | 'language'>,
): Promise<void> {
  return sendAccountMail(tx, { kind, to: email, language, expiresAt: new Date(now().getTime() + NOTICE_MS) })
}

/** Erases what other slices store about an account and its guests, in the transaction that deletes them. */
type OnAccountDeleted = (tx: Transaction, userId: string, guestIds: readonly string[]) => Promise<void>

/** The dependencies of this slice's use cases. */
export interface AuthContext {
  pool: Pool
  passwords: Passwords
  tokens: AccessTokens
  revocations: Revocations
  liveKeys: LiveKeys
  throttle: Throttle
  sendAccountMail: SendAccountMail
  onAccountDeleted: OnAccountDeleted
  relyingParty: RelyingParty
  totpEncryption: Encryption
  adminFactors: AdminFactorPolicy
  /** Whether an account is created only after its e-mail address is verified. */
  isVerificationRequired: boolean
  refreshGraceSeconds: number
  now: () => Date
}
