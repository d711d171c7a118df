import type { Queryable, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { AppError } from '../errors.ts'
import { encrypt, fingerprintOf, tryDecrypt } from './encryption.ts'

/** The kinds of data encrypted under the store's secret. Each has its own derived key. */
export type Purpose = 'signing key' | 'webhook secret' | 'account mail' | 'totp secret'

/** The fingerprint of the store's secret; null before the first encryption. */
export async function findFingerprint(db: Queryable): Promise<string | null> {
  const { rows } = await db.query<{ fingerprint: string }>('select fingerprint from encryption_secrets')
  return rows[0]?.fingerprint ?? null
}

/**
 * Like `findFingerprint`, but until `tx` ends no other process changes the secret or, with `update`, encrypts anything.
 */
export async function lockFingerprint(tx: Transaction, strength: 'key share' | 'update'): Promise<string | null> {
  const lock = strength === 'update' ? sql`for update` : sql`for key share`
  const { rows } = await tx.query<{ fingerprint: string }>(sql`select fingerprint from encryption_secrets ${lock}`)
  return rows[0]?.fingerprint ?? null
}

/** Records the secret that encrypts from now on. */
export async function updateFingerprint(tx: Transaction, secret: string): Promise<void> {
  await tx.query(sql`update encryption_secrets set fingerprint = ${fingerprintOf(secret)}, changed_at = now()`)
}

/** Whether this is the store's secret, which then stays until `tx` ends. A store without encrypted data adopts it. */
export async function claimSecret(tx: Transaction, secret: string): Promise<boolean> {
  const fingerprint = fingerprintOf(secret)
  const known = await lockFingerprint(tx, 'key share')
  if (known !== null) return known === fingerprint
  await tx.query(sql`insert into encryption_secrets (fingerprint) values (${fingerprint}) on conflict do nothing`)
  return (await lockFingerprint(tx, 'key share')) === fingerprint
}

/** Like `claimSecret`, but changes and locks nothing. */
export async function isStoreSecret(db: Queryable, secret: string): Promise<boolean> {
  const known = await findFingerprint(db)
  return known === null || known === fingerprintOf(secret)
}

/**
 * Call before encrypting in `tx`. Throws `unavailable` if the store's secret was changed after this process started.
 */
export async function assertStoreSecret(tx: Transaction, secret: string): Promise<void> {
  if (!(await claimSecret(tx, secret)))
    throw new AppError('unavailable', "The store's secret was changed, and this process still has the old one. Retry later.", {
      headers: { 'retry-after': '30' },
    })
}

/**
 * Encrypts and decrypts text for one purpose, so database, backups and WAL contain no token, address or secret in plain
 * text.
 */
export interface Encryption {
  /**
   * Returns base64 for a row that `tx` writes. Throws `unavailable` if this process's secret is no longer the store's.
   */
  encrypt(tx: Transaction, text: string): Promise<string>
  /** Returns null if the text was encrypted with another secret, or changed. */
  decrypt(text: string): string | null
  /** Throws `unavailable` if this process's secret is no longer the store's. */
  assertCurrent(tx: Transaction): Promise<void>
}

/** Replaces a text's encryption by another secret's; null for a text that the old secret does not decrypt. */
export type Reencrypt = (text: string) => string | null

export function createEncryption(secret: string, purpose: Purpose): Encryption {
  return {
    async encrypt(tx, text) {
      await assertStoreSecret(tx, secret)
      return encrypt(secret, purpose, text).toString('base64')
    },
    decrypt: (text) => tryDecrypt(secret, purpose, Buffer.from(text, 'base64')),
    assertCurrent: (tx) => assertStoreSecret(tx, secret),
  }
}

/** Encrypts with `to` what `from` encrypted for `purpose`. Null for bytes that `from` does not decrypt. */
export function reencrypt(from: string, to: string, purpose: Purpose, encrypted: Buffer): Buffer | null {
  const text = tryDecrypt(from, purpose, encrypted)
  return text === null ? null : encrypt(to, purpose, text)
}
