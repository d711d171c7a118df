import type { Transaction } from '../db/pool.ts'

/** A mail about an account. `token` is a one-time token. */
export type AccountMail = { expiresAt: Date } & (
  | { kind: 'verify_email' | 'reset_password'; to: string; token: string }
  | { kind: 'already_registered' | 'password_changed'; to: string }
  /** Sends nothing. Queued for an address that gets no mail, so that its answer takes the same time. */
  | { kind: 'none' }
)

/** Queues a mail that is sent if `tx` commits, and retried until it is sent or `expiresAt` is past. */
export type SendAccountMail = (tx: Transaction, mail: AccountMail) => Promise<void>
