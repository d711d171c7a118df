import { randomUUIDv7 } from 'node:crypto'
import { type AuditContext, recordActivity } from '../activity/record-activity.ts'
import type { Pool } from '../db/pool.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError } from '../errors.ts'
import type { OperatorRole } from '../http/scopes.ts'
import { parseEmail } from './email-address.ts'
import { PASSWORD_MAX_LENGTH, PASSWORD_MIN_LENGTH, type Passwords } from './passwords/password.ts'
import { insertUser, type User } from './users.ts'

/**
 * Creates an operator's account. Throws `email_taken` for an existing account, whose registrant may not own the address
 * (see operators/operators.ts). Throws `invalid_body` and `password_too_common` like a registration.
 */
export async function createAdmin(
  pool: Pool,
  passwords: Passwords,
  input: { email: string; password: string; role?: OperatorRole },
  auditContext: AuditContext,
): Promise<User> {
  const email = parseEmail(input.email)
  if (!isWithinLength(input.password)) {
    throw new AppError(
      'invalid_body',
      `The password must have ${PASSWORD_MIN_LENGTH} to ${PASSWORD_MAX_LENGTH} characters, none of them NUL.`,
    )
  }
  await passwords.assertAcceptable(input.password, email)
  const user: User = { id: randomUUIDv7(), email, name: null, role: input.role ?? 'admin', language: null, created_at: new Date() }
  const passwordHash = await passwords.hash(input.password)
  await inTransaction(pool, async (tx) => {
    await insertUser(tx, user, passwordHash, null)
    await recordActivity(tx, auditContext, { subjectType: 'account', subjectId: user.id, before: null, after: { role: user.role } })
  })
  return user
}

function isWithinLength(password: string): boolean {
  const length = [...password].length
  return length >= PASSWORD_MIN_LENGTH && length <= PASSWORD_MAX_LENGTH && password.isWellFormed() && !password.includes('\0')
}
