import { type AuditContext, recordActivity } from '../../activity/record-activity.ts'
import { translateConstraint } from '../../db/constraints.ts'
import type { Queryable, Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { AppError, notFound } from '../../errors.ts'
import { type AccountRole, isOperatorRole, OPERATOR_ROLES, type OperatorRole, permits } from '../../http/scopes.ts'

export interface Operator {
  id: string
  email: string
  name: string | null
  role: OperatorRole
  is_email_verified: boolean
  is_invited: boolean
  has_second_factor: boolean
  created_at: Date
}

// Accepting an invitation proves the address. Operators made by a command have unproven addresses too, but no
// invitation.
const IS_INVITED = sql`email_verified_at is null and exists (
    select from activities where subject_id = users.id::text and action = 'createOperator'
  )`

const OPERATOR_COLUMNS = sql`id, email, name, role, email_verified_at is not null as is_email_verified, created_at,
  ${IS_INVITED} as is_invited,
  exists (select from passkeys where user_id = users.id)
    or exists (select from totp_authenticators where user_id = users.id and confirmed_at is not null) as has_second_factor`

export async function listOperators(
  db: Queryable,
  { after = null, limit = null }: { after?: string | null; limit?: number | null } = {},
): Promise<Operator[]> {
  const { rows } = await db.query<Operator>(
    sql`select ${OPERATOR_COLUMNS}
    from users
    where role not in ('customer', 'guest') and (${after}::uuid is null or id > ${after}::uuid)
    order by id
    limit ${limit}`,
  )
  return rows
}

/** Throws `not_found` for an account that is not an operator's. */
export async function getOperator(db: Queryable, id: string): Promise<Operator> {
  const { rows } = await db.query<Operator>(sql`select ${OPERATOR_COLUMNS} from users where id = ${id} and role = any(${OPERATOR_ROLES})`)
  if (rows[0] === undefined) throw notFound('operator')
  return rows[0]
}

interface RoleHolder {
  id: string
  email: string
  role: AccountRole
  isProven: boolean
  /** Whether an invitation was never accepted, so the account was never used. Stays true after a removal. */
  isInvited: boolean
  isBlocked: boolean
}

/**
 * Serializes changes of operators and checks that the caller may still make them, since processes accept tokens for up
 * to a second longer. Throws `forbidden`.
 */
export async function lockOperators(tx: Transaction, { actor }: AuditContext): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('storefront operators', 0))`)
  if (actor.type !== 'admin') return
  const { rows } = await tx.query<{ role: AccountRole }>(sql`select role from users where id = ${actor.id}`)
  const [present] = rows
  if (present === undefined || !permits(present.role, 'access:write'))
    throw new AppError('forbidden', 'The role of this account no longer permits this. Ask an admin.')
}

/** The account, locked until `tx` ends; null if there is none. An `email` never finds a guest. */
export async function lockRoleHolder(tx: Transaction, which: { id: string } | { email: string }): Promise<RoleHolder | null> {
  const condition = 'id' in which ? sql`id = ${which.id}` : sql`email = ${which.email} and role <> 'guest'`
  const { rows } = await tx.query<RoleHolder>(
    sql`select id, email, role, email_verified_at is not null as "isProven", ${IS_INVITED} as "isInvited",
        blocked_at is not null as "isBlocked"
      from users where ${condition} for update`,
  )
  return rows[0] ?? null
}

/**
 * Gives a locked account a role. Ends its sessions, and its mailed tokens for a new password or a former address, which
 * were meant for the previous role. Returns the session ids. Throws `forbidden` for the operator's own account,
 * `address_unproven` for a customer with an unproven address, and `last_admin`.
 */
export async function setRole(
  tx: Transaction,
  { id, role: before, isProven, isBlocked }: RoleHolder,
  role: AccountRole,
  auditContext: AuditContext,
): Promise<string[]> {
  if (auditContext.actor.type === 'admin' && auditContext.actor.id === id) throw new AppError('forbidden', 'Nobody changes their own role.')
  if (before === role) return []
  // The person who registered an unproven address may not own it, and must not become an operator.
  if (isOperatorRole(role) && !isOperatorRole(before) && !isProven)
    throw new AppError('address_unproven', 'Nobody has proven that this account belongs to the holder of its address.')
  if (isOperatorRole(role) && isBlocked) throw new AppError('forbidden', 'This account is blocked: unblock it first.')
  const { rows } = await tx.query<{ id: string }>(sql`select id from sessions where user_id = ${id} and revoked_at is null`)
  try {
    await tx.query(sql`update users set role = ${role} where id = ${id}`)
  } catch (error) {
    throw translateConstraint(error)
  }
  await tx.query(sql`delete from password_resets where user_id = ${id}`)
  // Otherwise the holder of a former mailbox, perhaps a stranger, could take over the account with its new role.
  await tx.query(sql`delete from email_changes where user_id = ${id}`)
  await recordActivity(tx, auditContext, { subjectType: 'account', subjectId: id, before: { role: before }, after: { role } })
  return rows.map((session) => session.id)
}
