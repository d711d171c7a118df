import type { Queryable, Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { AccountCaller } from '../../http/caller.ts'
import { isOperatorRole } from '../../http/scopes.ts'
import { isSessionAlive } from '../sessions.ts'
import { invalidToken } from '../tokens/access-token.ts'
import type { User } from '../users.ts'

/** A sign-in's first factor, which may need a second one. */
export type FirstFactor = 'password' | 'oidc'

/** A method of proof. Sessions record theirs. */
export type ProofMethod = FirstFactor | SecondFactorMethod

/** The proofs that complete a sign-in with a password. */
export const SECOND_FACTOR_METHODS = ['passkey', 'totp', 'recovery_code'] as const
export type SecondFactorMethod = (typeof SECOND_FACTOR_METHODS)[number]

export interface SecondFactors {
  hasTotp: boolean
  passkeys: number
  recoveryCodesLeft: number
  /**
   * Whether a password alone is not enough. True with an authenticator app, and for operators with a passkey. See
   * docs/decisions/auth-factors.md.
   */
  isRequired: boolean
}

export async function findSecondFactors(db: Queryable, user: Pick<User, 'id' | 'role'>): Promise<SecondFactors> {
  const { rows } = await db.query<Omit<SecondFactors, 'isRequired'>>(sql`select
    exists (select from totp_authenticators where user_id = ${user.id} and confirmed_at is not null) as "hasTotp",
    (select count(*)::int from passkeys where user_id = ${user.id}) as passkeys,
    (select count(*)::int from recovery_codes where user_id = ${user.id} and used_at is null) as "recoveryCodesLeft"`)
  const { hasTotp = false, passkeys = 0, recoveryCodesLeft = 0 } = rows[0] ?? {}
  return { hasTotp, passkeys, recoveryCodesLeft, isRequired: hasTotp || (passkeys > 0 && isOperatorRole(user.role)) }
}

/** The account's methods of proof besides its password. */
export function methodsOf({ hasTotp, passkeys, recoveryCodesLeft }: SecondFactors): SecondFactorMethod[] {
  const has = { passkey: passkeys > 0, totp: hasTotp, recovery_code: recoveryCodesLeft > 0 }
  return SECOND_FACTOR_METHODS.filter((method) => has[method])
}

export function isSecondFactorMethod(method: string): method is SecondFactorMethod {
  return (SECOND_FACTOR_METHODS as readonly string[]).includes(method)
}

export type Account = Pick<User, 'id' | 'role' | 'email' | 'language'>

/**
 * Locks the account until `tx` ends. Changes of its factors then follow one another, and a sign-in either sees a change
 * or is ended by it.
 */
export async function lockAccount(db: Queryable, userId: string): Promise<Account | null> {
  const { rows } = await db.query<Account>(sql`select id, role, email, language from users where id = ${userId} for no key update`)
  return rows[0] ?? null
}

/**
 * Like `lockAccount`, for a change by the caller. Throws `invalid_token` if the session has ended, which this process
 * may not know yet.
 */
export async function lockCaller(tx: Transaction, { userId, sessionId }: AccountCaller, now: Date): Promise<Account> {
  const account = await lockAccount(tx, userId)
  if (account === null || !(await isSessionAlive(tx, sessionId, now))) throw invalidToken()
  return account
}
