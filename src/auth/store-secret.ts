import type { Queryable, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { AppError } from '../errors.ts'
import { decrypt, encrypt, fingerprintOf } from './encryption.ts'

/** What is encrypted under the store's secret, each with a key of its own. */
export type Purpose = 'signing key' | 'webhook secret' | 'account mail'

/** The fingerprint of the secret that encrypts now, null before anything was encrypted. */
export async function findFingerprint(db: Queryable): Promise<string | null> {
  const { rows } = await db.query<{ fingerprint: string }>('select fingerprint from encryption_secrets')
  return rows[0]?.fingerprint ?? null
}

/** Whether anything was ever encrypted. A store of a release that kept no fingerprint has its signing keys. */
export async function hasSecret(db: Queryable): Promise<boolean> {
  const { rows } = await db.query<{ yes: boolean }>(
    `select exists (select from encryption_secrets) or exists (select from signing_keys where sealed_private_key is not null) as yes`,
  )
  return rows[0]?.yes === true
}

/** What `findFingerprint` gives, and no other process changes the secret before `tx` ends; `update`: nor encrypts anything. */
export async function lockFingerprint(tx: Transaction, strength: 'key share' | 'update'): Promise<string | null> {
  const { rows } = await tx.query<{ fingerprint: string }>(
    strength === 'update'
      ? 'select fingerprint from encryption_secrets for update'
      : 'select fingerprint from encryption_secrets for key share',
  )
  return rows[0]?.fingerprint ?? null
}

/** Notes which secret encrypts from now on. */
export async function updateFingerprint(tx: Transaction, secret: string): Promise<void> {
  await tx.query(sql`update encryption_secrets set fingerprint = ${fingerprintOf(secret)}, changed_at = now()`)
}

/**
 * Whether the store's secret is this one, which then stays so until `tx` ends. A store without a fingerprint takes it, unless its signing
 * keys were encrypted with another.
 */
export async function claimSecret(tx: Transaction, secret: string): Promise<boolean> {
  const fingerprint = fingerprintOf(secret)
  const known = await lockFingerprint(tx, 'key share')
  if (known !== null) return known === fingerprint
  if (!(await decryptsNewestKey(tx, secret))) return false
  await tx.query(sql`insert into encryption_secrets (fingerprint) values (${fingerprint}) on conflict do nothing`)
  return (await lockFingerprint(tx, 'key share')) === fingerprint
}

/** As `claimSecret`, but changes nothing and locks nothing. */
export async function isStoreSecret(db: Queryable, secret: string): Promise<boolean> {
  const known = await findFingerprint(db)
  return known === null ? decryptsNewestKey(db, secret) : known === fingerprintOf(secret)
}

/** For a process that is about to encrypt something in `tx`. Throws `unavailable` when the store's secret is another one by now. */
export async function assertStoreSecret(tx: Transaction, secret: string): Promise<void> {
  if (!(await claimSecret(tx, secret)))
    throw new AppError('unavailable', "The store's secret was changed, and this process still has the one before. Try again later.", {
      headers: { 'retry-after': '30' },
    })
}

/** Encrypts and decrypts text for one purpose: the database, its backups and its WAL contain no token, address or secret in plain text. */
export interface Encryption {
  /** For a row that `tx` writes, as base64. Throws `unavailable` when the store's secret is no longer that of this process. */
  encrypt(tx: Transaction, text: string): Promise<string>
  /** Null when the text was encrypted with another secret, or changed. */
  decrypt(text: string): string | null
}

/** Encrypts with one secret what was encrypted with another; null for a text that the other does not decrypt. */
export type Reencrypt = (text: string) => string | null

export function createEncryption(secret: string, purpose: Purpose): Encryption {
  return {
    async encrypt(tx, text) {
      await assertStoreSecret(tx, secret)
      return encrypt(secret, purpose, text).toString('base64')
    },
    decrypt: (text) => tryDecrypt(secret, purpose, Buffer.from(text, 'base64')),
  }
}

/** Encrypts with one secret what another has encrypted for `purpose`. Null for what the other one does not decrypt. */
export function reencrypt(from: string, to: string, purpose: Purpose, encrypted: Buffer): Buffer | null {
  const text = tryDecrypt(from, purpose, encrypted)
  return text === null ? null : encrypt(to, purpose, text)
}

function tryDecrypt(secret: string, purpose: Purpose, encrypted: Buffer): string | null {
  try {
    return decrypt(secret, purpose, encrypted)
  } catch {
    // Of AES-GCM the only fault there is: not these bytes under this key.
    return null
  }
}

/** True without keys. */
async function decryptsNewestKey(db: Queryable, secret: string): Promise<boolean> {
  const { rows } = await db.query<{ encrypted: Buffer }>(
    `select sealed_private_key as encrypted
    from signing_keys
    where sealed_private_key is not null
    order by created_at desc, id
    limit 1`,
  )
  return rows.every(({ encrypted }) => tryDecrypt(secret, 'signing key', encrypted) !== null)
}
