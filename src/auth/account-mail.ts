import type { Transaction } from '../db/pool.ts'

/** A mail about an account. `token` is the one-time token it carries. */
export type AccountMail = { expiresAt: Date } & (
  | { kind: 'verify_email' | 'reset_password'; to: string; token: string }
  | { kind: 'already_registered' | 'password_changed'; to: string }
  /** Sends nothing. Queued for an address that gets no mail, so that the answer takes as long as for one that does. */
  | { kind: 'none' }
)

/** Has a mail sent if `tx` commits, soon, and tried again until it goes out or `expiresAt` has come. */
export type SendAccountMail = (tx: Transaction, mail: AccountMail) => Promise<void>
