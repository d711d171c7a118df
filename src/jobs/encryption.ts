import type { Transaction } from '../db/pool.ts'

/** Makes a text unreadable in the database, whose backups and WAL must hold no token, address or secret, and undoes it. */
export interface Encryption {
  /** For a row that `tx` writes. Throws `unavailable` when the store's secret is no longer that of this process. */
  encrypt(tx: Transaction, text: string): Promise<string>
  /** Null when the text was encrypted with another secret, or changed. */
  decrypt(text: string): string | null
}

/** Encrypts with one secret what was encrypted with another; null for what was not. */
export type Reencrypt = (text: string) => string | null
