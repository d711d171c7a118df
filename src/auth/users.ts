import { translateConstraint } from '../db/constraints.ts'
import type { Queryable, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { assertNoLink } from '../http/link-in-text.ts'
import { invalidToken } from './tokens/access-token.ts'

export interface User {
  id: string
  email: string
  name: string | null
  role: 'customer' | 'admin'
  created_at: Date
}

export type UserWithPassword = User & { password_hash: string }

const COLUMNS = sql`id, email, name, role, created_at`

/** Throws `email_taken`. `email` is canonical. `emailVerifiedAt` is null for an address that is not verified. */
export async function insertUser(db: Queryable, user: User, passwordHash: string, emailVerifiedAt: Date | null): Promise<void> {
  try {
    await db.query(
      `insert into users (id, email, name, role, password_hash, created_at, email_verified_at)
      values ($1, $2, $3, $4, $5, $6, $7)`,
      [user.id, user.email, user.name, user.role, passwordHash, user.created_at, emailVerifiedAt],
    )
  } catch (error) {
    throw translateConstraint(error)
  }
}

/** `email` is canonical. */
export async function findUserByEmail(db: Queryable, email: string): Promise<UserWithPassword | null> {
  const { rows } = await db.query<UserWithPassword>(sql`select ${COLUMNS}, password_hash from users where email = ${email}`)
  return rows[0] ?? null
}

/** The account of an access token. Throws `invalid_token` when it was deleted after the token was issued. */
export async function getUser(db: Queryable, id: string): Promise<UserWithPassword> {
  const { rows } = await db.query<UserWithPassword>(sql`select ${COLUMNS}, password_hash from users where id = ${id}`)
  if (rows[0] === undefined) throw invalidToken()
  return rows[0]
}

/** Whether the account still has the checked password, locked until the end of `tx`: its change ends the sessions opened with it. */
export async function lockPassword(tx: Transaction, user: UserWithPassword): Promise<boolean> {
  const { rowCount } = await tx.query('select from users where id = $1 and password_hash = $2 for share', [user.id, user.password_hash])
  return rowCount === 1
}

/** Sets a password. Returns false, and changes nothing, when the stored one is no longer the one that was checked. */
export async function replacePassword(db: Queryable, checked: UserWithPassword, passwordHash: string): Promise<boolean> {
  const { rowCount } = await db.query(sql`update users set password_hash = ${passwordHash}
    where id = ${checked.id} and password_hash = ${checked.password_hash}`)
  return rowCount === 1
}

/** Throws `invalid_token` as `getUser` does, and `invalid_body` for a name with a link. */
export async function updateName(db: Queryable, userId: string, name: string | null): Promise<User> {
  assertNoLink(name, '#/name')
  const { rows } = await db.query<User>(sql`update users set name = ${name} where id = ${userId} returning ${COLUMNS}`)
  if (rows[0] === undefined) throw invalidToken()
  return rows[0]
}
