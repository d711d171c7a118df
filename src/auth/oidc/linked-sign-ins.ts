import type { Queryable, Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { AccountRole } from '../../http/scopes.ts'

// An account has one for each issuer. The settings allow ten, so this covers former issuers too.
const MAX_SIGN_INS = 100

/** A person at a provider, independent of their current address there. */
export interface Person {
  issuer: string
  subject: string
}

export interface LinkedSignIn {
  issuer: string
  /** RFC 3339. */
  linked_at: string
}

/** The providers with which an account signs in. */
export async function listSignIns(db: Queryable, userId: string): Promise<LinkedSignIn[]> {
  const { rows } = await db.query<{ issuer: string; linked_at: Date }>(
    sql`select issuer, linked_at from oidc_identities where user_id = ${userId} order by linked_at, issuer limit ${MAX_SIGN_INS}`,
  )
  return rows.map(({ issuer, linked_at }) => ({ issuer, linked_at: linked_at.toISOString() }))
}

/** Serializes links of one person until `tx` ends, so the second finds the first's result. */
export async function lockPerson(tx: Transaction, { issuer, subject }: Person): Promise<void> {
  await tx.query(sql`select pg_advisory_xact_lock(hashtextextended(${JSON.stringify([issuer, subject])}, 0))`)
}

/** The account that a person signs in to. */
export async function findLinkedAccount(
  tx: Transaction,
  { issuer, subject }: Person,
): Promise<{ id: string; role: AccountRole; linked_at: Date } | null> {
  const { rows } = await tx.query<{ id: string; role: AccountRole; linked_at: Date }>(
    sql`select users.id, users.role, oidc_identities.linked_at
    from oidc_identities
    join users on users.id = oidc_identities.user_id
    where issuer = ${issuer} and subject = ${subject}`,
  )
  return rows[0] ?? null
}

/**
 * Links a person without an account; `lockPerson` must have locked them. Returns false if the account is linked to
 * another person of this provider.
 */
export async function insertSignIn(tx: Transaction, userId: string, { issuer, subject }: Person, now: Date): Promise<boolean> {
  const { rowCount } = await tx.query(sql`insert into oidc_identities (issuer, subject, user_id, linked_at)
    values (${issuer}, ${subject}, ${userId}, ${now})
    on conflict on constraint oidc_identities_one_of_issuer do nothing`)
  return rowCount === 1
}

export async function deleteSignIn(tx: Transaction, userId: string, issuer: string): Promise<boolean> {
  const { rowCount } = await tx.query(sql`delete from oidc_identities where user_id = ${userId} and issuer = ${issuer}`)
  return rowCount === 1
}
