import { randomUUIDv7 } from 'node:crypto'
import { translateConstraint } from '../../db/constraints.ts'
import type { Queryable, Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { User } from '../users.ts'
import type { CredentialDescriptor, NewCredential } from './webauthn.ts'

export interface Passkey {
  id: string
  name: string
  created_at: Date
  last_used_at: Date | null
}

export interface OwnedPasskey {
  id: string
  credentialId: string
  publicKey: Buffer
  owner: User
}

/** The oldest first. Accounts have few passkeys, because registrations are limited. */
export async function listPasskeys(db: Queryable, userId: string): Promise<Passkey[]> {
  const { rows } = await db.query<Passkey>(
    sql`select id, name, created_at, last_used_at from passkeys where user_id = ${userId} order by id`,
  )
  return rows
}

export async function listCredentials(db: Queryable, userId: string): Promise<CredentialDescriptor[]> {
  const { rows } = await db.query<CredentialDescriptor>(
    sql`select credential_id as "credentialId", transports from passkeys where user_id = ${userId} order by id`,
  )
  return rows
}

/** Locks the passkey until `tx` ends, so its counter follows the order of its uses. */
export async function lockPasskey(tx: Transaction, credentialId: string): Promise<OwnedPasskey | null> {
  const { rows } = await tx.query<Omit<OwnedPasskey, 'owner'> & { user_id: string } & Omit<User, 'id'> & { passkey_id: string }>(
    sql`select passkeys.id as passkey_id, passkeys.credential_id as "credentialId", passkeys.public_key as "publicKey",
      passkeys.user_id, users.email, users.name, users.role, users.language, users.created_at
    from passkeys
    join users on users.id = passkeys.user_id
    where passkeys.credential_id = ${credentialId}
    for update of passkeys`,
  )
  const [row] = rows
  if (row === undefined) return null
  const { passkey_id: id, publicKey, user_id, email, name, role, language, created_at } = row
  return { id, credentialId, publicKey, owner: { id: user_id, email, name, role, language, created_at } }
}

/** Throws `passkey_taken`. */
export async function insertPasskey(
  tx: Transaction,
  userId: string,
  { credentialId, publicKey, signCount, transports }: NewCredential,
  name: string,
  now: Date,
): Promise<Passkey> {
  const id = randomUUIDv7()
  try {
    await tx.query(sql`insert into passkeys (id, user_id, credential_id, public_key, sign_count, transports, name, created_at)
      values (${id}, ${userId}, ${credentialId}, ${publicKey}, ${signCount}, ${[...transports]}, ${name}, ${now})`)
  } catch (error) {
    throw translateConstraint(error)
  }
  return { id, name, created_at: now, last_used_at: null }
}

/** Records a use. An authenticator whose counter has not increased may be a copy: returns false and changes nothing. */
export async function countPasskeyUse(tx: Transaction, id: string, signCount: number, now: Date): Promise<boolean> {
  const { rowCount } = await tx.query(sql`update passkeys set sign_count = ${signCount}, last_used_at = ${now}
    where id = ${id} and (sign_count < ${signCount} or (sign_count = 0 and ${signCount}::bigint = 0))`)
  return rowCount === 1
}

/** Renames a passkey. Returns null for another account's. */
export async function updatePasskey(tx: Transaction, userId: string, id: string, name: string): Promise<Passkey | null> {
  const { rows } = await tx.query<Passkey>(
    sql`update passkeys set name = ${name} where user_id = ${userId} and id = ${id} returning id, name, created_at, last_used_at`,
  )
  return rows[0] ?? null
}

export async function deletePasskey(tx: Transaction, userId: string, id: string): Promise<boolean> {
  const { rowCount } = await tx.query(sql`delete from passkeys where user_id = ${userId} and id = ${id}`)
  return rowCount === 1
}
