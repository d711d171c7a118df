import { hash } from 'node:crypto'
import { translateConstraint } from '../db/constraints.ts'
import type { Queryable, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { assertNoLink, containsLink } from '../http/link-in-text.ts'
import type { AccountRole } from '../http/scopes.ts'
import type { Language } from '../language.ts'
import { invalidToken } from './tokens/access-token.ts'

export interface User {
  id: string
  email: string
  name: string | null
  role: AccountRole
  /** The chosen language; null for the store's. */
  language: Language | null
  created_at: Date
}

/** `password_hash` is null for an account without a password. */
export type UserWithPassword = User & { password_hash: string | null }

const COLUMNS = sql`id, email, name, role, language, created_at`

/** Throws `email_taken`. `email` is canonical. `emailVerifiedAt` is null for an unverified address. */
export async function insertUser(db: Queryable, user: User, passwordHash: string | null, emailVerifiedAt: Date | null): Promise<void> {
  try {
    await db.query(
      `insert into users (id, email, name, role, language, password_hash, created_at, email_verified_at)
      values ($1, $2, $3, $4, $5, $6, $7, $8)`,
      [user.id, user.email, user.name, user.role, user.language, passwordHash, user.created_at, emailVerifiedAt],
    )
  } catch (error) {
    throw translateConstraint(error)
  }
}

/** Finds an account by its canonical address. Ignores guests, whose address is unproven. */
export async function findUserByEmail(db: Queryable, email: string): Promise<UserWithPassword | null> {
  const { rows } = await db.query<UserWithPassword>(
    sql`select ${COLUMNS}, password_hash from users where email = ${email} and role <> 'guest'`,
  )
  return rows[0] ?? null
}

// An operator's search shows the orders of the account and of this many newest guests.
const IDS_OF_ADDRESS = 1_000

/** The account with an address, its guests, and other guests with the address. `email` is canonical. */
export async function findUserIdsByEmail(db: Queryable, email: string): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    sql`with account as (
      select id from users where email = ${email} and role <> 'guest'
    )
    select id from account
    union
    select users.id from users join account on users.owner_id = account.id
    union
    (select id from users where email = ${email} and role = 'guest' order by created_at desc limit ${IDS_OF_ADDRESS})`,
  )
  return rows.map(({ id }) => id)
}

/**
 * Some imported account's foreign hash for `Passwords.verify`, or null. An address gets the same hash while that
 * account keeps it, so its checks always cost the same. The pattern is the cost of `Passwords`, and of an index.
 */
export async function findForeignHash(db: Queryable, email: string): Promise<string | null> {
  const from = hash('sha256', email).slice(0, 32)
  const { rows } = await db.query<{ password_hash: string }>(sql`select password_hash
    from (
      (select 1 as turn, password_hash from users where password_hash not like '$argon2id$v=19$m=19456,t=2,p=1$%' and id >= ${from}::uuid order by id limit 1)
      union all
      (select 2, password_hash from users where password_hash not like '$argon2id$v=19$m=19456,t=2,p=1$%' order by id limit 1)
    ) as found
    order by turn
    limit 1`)
  return rows[0]?.password_hash ?? null
}

/** An access token's account. Throws `invalid_token` if it was deleted after the token was issued. */
export async function getUser(db: Queryable, id: string): Promise<UserWithPassword> {
  const { rows } = await db.query<UserWithPassword>(sql`select ${COLUMNS}, password_hash from users where id = ${id}`)
  if (rows[0] === undefined) throw invalidToken()
  return rows[0]
}

/**
 * Whether the account still has the checked address and password. Locks it until `tx` ends, since changing them ends
 * the sessions opened with them.
 */
export async function lockPassword(tx: Transaction, { id, email, password_hash }: UserWithPassword): Promise<boolean> {
  const { rowCount } = await tx.query(
    sql`select from users where id = ${id} and email = ${email} and password_hash = ${password_hash} for share`,
  )
  return rowCount === 1
}

/** Sets a password. Returns false and changes nothing if the stored password differs from the checked one. */
export async function replacePassword(db: Queryable, checked: UserWithPassword, passwordHash: string): Promise<boolean> {
  const { rowCount } = await db.query(sql`update users set password_hash = ${passwordHash}
    where id = ${checked.id} and password_hash = ${checked.password_hash}`)
  return rowCount === 1
}

/** Throws `last_admin`. */
export async function deleteUser(tx: Transaction, id: string): Promise<void> {
  try {
    await tx.query(sql`delete from users where id = ${id}`)
  } catch (error) {
    throw translateConstraint(error)
  }
}

/**
 * Leaves undefined properties unchanged. Throws `invalid_token` like `getUser`, and `invalid_body` for a name with a
 * link while the address is unproven, because mails to that address, perhaps a stranger's, begin with the name.
 */
export async function updateUser(
  db: Queryable,
  userId: string,
  { name, language }: { name?: string | null; language?: Language | null },
): Promise<User> {
  if (containsLink(name ?? '') && !(await isAddressProven(db, userId))) assertNoLink(name, '#/name')
  const { rows } = await db.query<User>(sql`update users
    set name = case when ${name !== undefined} then ${name ?? null} else name end,
      language = case when ${language !== undefined} then ${language ?? null} else language end
    where id = ${userId}
    returning ${COLUMNS}`)
  if (rows[0] === undefined) throw invalidToken()
  return rows[0]
}

async function isAddressProven(db: Queryable, userId: string): Promise<boolean> {
  const { rowCount } = await db.query(sql`select from users where id = ${userId} and email_verified_at is not null`)
  return rowCount === 1
}
