import { randomUUIDv7 } from 'node:crypto'
import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { AppError } from '../../errors.ts'
import type { AccountRole } from '../../http/scopes.ts'
import type { Language } from '../../language.ts'
import type { Client } from '../client.ts'
import { type AuthContext, sendNotice } from '../context.ts'
import { parseEmail } from '../email-address.ts'
import { takeOverGuests } from '../take-over-guests.ts'
import { insertUser } from '../users.ts'
import { findLinkedAccount, insertSignIn, lockPerson } from './linked-sign-ins.ts'
import type { Claims } from './provider.ts'

/** The names that a registration accepts too. */
const NAME = /^[^\p{Cc}\u2028\u2029]{1,200}$/u

/** Why a person with an account at the provider gets no session. The page shows the reason. */
export type Refusal = 'email_unproven' | 'account_unproven' | 'refused'

export type Identified = { userId: string; isNew: boolean; endedSessions: string[] } | { refusal: Refusal }

/**
 * The account of a person at a provider: the linked one, the one with the same address if both sides have proven it, or
 * a new one. Operators are refused, because a provider must not replace their second factor.
 */
export async function identify(tx: Transaction, context: AuthContext, claims: Claims, client: Client): Promise<Identified> {
  await lockPerson(tx, claims)
  const linked = await findLinkedAccount(tx, claims)
  if (linked !== null) return linked.role === 'customer' ? { userId: linked.id, isNew: false, endedSessions: [] } : { refusal: 'refused' }
  const email = claims.isEmailVerified ? plainEmail(claims.email) : null
  if (email === null) return { refusal: 'email_unproven' }
  const owner = await lockOwner(tx, email)
  if (owner === null) return createAccount(tx, context, claims, email, client)
  if (owner.role !== 'customer') return { refusal: 'refused' }
  // A stranger may have registered the address and would then share the account.
  if (owner.email_verified_at === null) return { refusal: 'account_unproven' }
  // The account is linked to another person of this provider, which reassigns addresses.
  if (!(await insertSignIn(tx, owner.id, claims, context.now()))) return { refusal: 'refused' }
  await sendNotice(tx, context, 'sign_in_linked', { email, language: owner.language })
  client.record('oidc_linked', { user_id: owner.id })
  return { userId: owner.id, isNew: false, endedSessions: await takeOverGuests(tx, { id: owner.id, email }, context.now()) }
}

interface Owner {
  id: string
  role: AccountRole
  language: Language | null
  email_verified_at: Date | null
}

/** Guests are excluded, because their address is unproven. */
async function lockOwner(tx: Transaction, email: string): Promise<Owner | null> {
  const { rows } = await tx.query<Owner>(
    sql`select id, role, language, email_verified_at from users where email = ${email} and role <> 'guest' for update`,
  )
  return rows[0] ?? null
}

/**
 * Creates an account without a password; `POST /auth/password-reset` can set one. Throws `email_taken` if the address
 * is registered meanwhile.
 */
async function createAccount(tx: Transaction, { now }: AuthContext, claims: Claims, email: string, client: Client): Promise<Identified> {
  const id = randomUUIDv7()
  const name = claims.name !== null && NAME.test(claims.name) ? claims.name : null
  await insertUser(tx, { id, email, name, role: 'customer', language: client.language, created_at: now() }, null, now())
  // Others may have registered this address, which is now proven.
  await tx.query(sql`delete from pending_registrations where email = ${email}`)
  await insertSignIn(tx, id, claims, now())
  // The provider's proof is as good as a mailed token.
  return { userId: id, isNew: true, endedSessions: await takeOverGuests(tx, { id, email }, now()) }
}

function plainEmail(address: string | null): string | null {
  try {
    return address === null ? null : parseEmail(address)
  } catch (error) {
    if (error instanceof AppError && error.code === 'invalid_body') return null
    throw error
  }
}
