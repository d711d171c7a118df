import type { Transaction } from '../db/pool.ts'

/** Makes a text unreadable in the database, whose backups and WAL must hold no token, address or secret, and undoes it. */
export interface Sealing {
  /** For a row that `tx` writes. Throws `unavailable` when the store's secret is no longer that of this process. */
  seal(tx: Transaction, text: string): Promise<string>
  /** Null when the text was sealed with another secret, or changed. */
  open(sealed: string): string | null
}

/** Seals with one secret what was sealed with another; null for what was not. */
export type Reseal = (sealed: string) => string | null
