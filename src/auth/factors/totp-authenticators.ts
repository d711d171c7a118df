import type { Queryable, Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Encryption, Reencrypt } from '../store-secret.ts'
import { findTotpStep } from './totp.ts'

/**
 * Stores an unconfirmed secret, which replaces an earlier unconfirmed one. Returns false if the account has a confirmed
 * app.
 */
export async function insertTotp(tx: Transaction, userId: string, encryptedSecret: string, now: Date): Promise<boolean> {
  const { rowCount } = await tx.query(sql`insert into totp_authenticators as present (user_id, encrypted_secret, created_at)
    values (${userId}, ${encryptedSecret}, ${now})
    on conflict (user_id) do update set encrypted_secret = excluded.encrypted_secret, created_at = excluded.created_at, last_step = 0
    where present.confirmed_at is null`)
  return rowCount === 1
}

/** When the account's app was confirmed; null if there is none. */
export async function findTotpSince(db: Queryable, userId: string): Promise<Date | null> {
  const { rows } = await db.query<{ confirmed_at: Date | null }>(
    sql`select confirmed_at from totp_authenticators where user_id = ${userId}`,
  )
  return rows[0]?.confirmed_at ?? null
}

/**
 * Uses up a code, so this code and older ones are refused from now on. `isConfirmed` says whether the app has proven
 * its secret before.
 */
export async function useTotpCode(
  tx: Transaction,
  encryption: Encryption,
  { userId, code, isConfirmed, now }: { userId: string; code: string; isConfirmed: boolean; now: Date },
): Promise<boolean> {
  const { rows } = await tx.query<{ encrypted_secret: string }>(sql`select encrypted_secret from totp_authenticators
    where user_id = ${userId} and (confirmed_at is not null) = ${isConfirmed}
    for update`)
  if (rows[0] === undefined) return false
  const secret = encryption.decrypt(rows[0].encrypted_secret)
  if (secret === null) {
    await encryption.assertCurrent(tx)
    // The secret that encrypted the app's was lost, so no code is right.
    return false
  }
  const step = findTotpStep(secret, code, now)
  if (step === null) return false
  const { rowCount } = await tx.query(sql`update totp_authenticators
    set last_step = ${step}, confirmed_at = coalesce(confirmed_at, ${now})
    where user_id = ${userId} and last_step < ${step}`)
  return rowCount === 1
}

export async function deleteTotp(tx: Transaction, userId: string): Promise<boolean> {
  const { rowCount } = await tx.query(sql`delete from totp_authenticators where user_id = ${userId} and confirmed_at is not null`)
  return rowCount === 1
}

/**
 * Encrypts all apps' secrets with another store secret. Returns their number, and the accounts whose secret cannot be
 * decrypted and stays.
 */
export async function reencryptTotpSecrets(
  tx: Transaction,
  reencrypt: Reencrypt,
): Promise<{ reencrypted: number; undecryptable: string[] }> {
  const { rows } = await tx.query<{ user_id: string; encrypted_secret: string }>(
    'select user_id, encrypted_secret from totp_authenticators order by user_id for update',
  )
  const undecryptable: string[] = []
  const changed: { userId: string; secret: string }[] = []
  for (const { user_id: userId, encrypted_secret } of rows) {
    const secret = reencrypt(encrypted_secret)
    if (secret === null) undecryptable.push(userId)
    else changed.push({ userId, secret })
  }
  await tx.query(sql`update totp_authenticators set encrypted_secret = changed.secret
    from unnest(${changed.map(({ userId }) => userId)}::uuid[], ${changed.map(({ secret }) => secret)}::text[]) as changed (user_id, secret)
    where totp_authenticators.user_id = changed.user_id`)
  return { reencrypted: changed.length, undecryptable }
}
