import type { Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { AppError } from '../../errors.ts'

/** Call it after removing a way to sign in, with the account locked. Throws `last_sign_in` when none is left besides a mail for a new password. */
export async function assertCanSignIn(tx: Transaction, userId: string): Promise<void> {
  const { rows } = await tx.query<{ can_sign_in: boolean }>(
    sql`select password_hash is not null
      or exists (select from passkeys where user_id = users.id)
      -- Providers open no account of an operator.
      or (role = 'customer' and exists (select from oidc_identities where user_id = users.id)) as can_sign_in
    from users
    where id = ${userId}`,
  )
  if (rows[0]?.can_sign_in !== true)
    throw new AppError('last_sign_in', 'The account could not sign in any more. Set a password first: POST /auth/password-reset.')
}
