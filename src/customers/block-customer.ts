import { type AuditContext, recordActivity } from '../activity/record-activity.ts'
import type { AuthContext } from '../auth/context.ts'
import { eraseAccount } from '../auth/delete-account.ts'
import { revokeSessionsOf } from '../auth/sessions.ts'
import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { notFound } from '../errors.ts'

type Context = Pick<AuthContext, 'pool' | 'revocations' | 'onAccountDeleted' | 'now'>

/**
 * Blocks a customer or guest. The sessions end and no new ones open, but the orders stay. A second call changes the
 * reason. Throws `not_found`.
 */
export async function blockCustomer(
  { pool, revocations, now }: Context,
  id: string,
  reason: string,
  auditContext: AuditContext,
): Promise<void> {
  const ended = await inTransaction(pool, async (tx) => {
    const before = await getForUpdate(tx, id)
    // The database's trigger is slower, and this process must refuse the tokens at once.
    const sessions = await revokeSessionsOf(tx, id, null, now())
    await tx.query(sql`update users set blocked_at = coalesce(blocked_at, ${now()}), blocked_reason = ${reason} where id = ${id}`)
    await record(tx, auditContext, id, before.is_blocked, true)
    return sessions
  })
  revocations.add(...ended)
}

/** Throws `not_found`. */
export async function unblockCustomer({ pool }: Context, id: string, auditContext: AuditContext): Promise<void> {
  await inTransaction(pool, async (tx) => {
    const before = await getForUpdate(tx, id)
    await tx.query(sql`update users set blocked_at = null, blocked_reason = null where id = ${id}`)
    await record(tx, auditContext, id, before.is_blocked, false)
  })
}

/** Erases a customer or guest like `DELETE /me`. Throws `not_found`. */
export async function eraseCustomer(context: Context, id: string, auditContext: AuditContext): Promise<void> {
  const ended = await inTransaction(context.pool, async (tx) => {
    const user = await getForUpdate(tx, id)
    const sessions = await eraseAccount(tx, context, user)
    await recordActivity(tx, auditContext, { subjectType: 'account', subjectId: id, before: { exists: true }, after: { exists: false } })
    return sessions
  })
  context.revocations.add(...ended)
}

async function record(tx: Transaction, auditContext: AuditContext, id: string, before: boolean, after: boolean): Promise<void> {
  // The activity log leaves out the reason, which may name a person.
  await recordActivity(tx, auditContext, { subjectType: 'account', subjectId: id, before: { blocked: before }, after: { blocked: after } })
}

async function getForUpdate(tx: Transaction, id: string): Promise<{ id: string; email: string; is_blocked: boolean }> {
  const { rows } = await tx.query<{ id: string; email: string; is_blocked: boolean }>(
    sql`select id, email, blocked_at is not null as is_blocked
    from users
    where id = ${id} and role in ('customer', 'guest')
    for update`,
  )
  if (rows[0] === undefined) throw notFound('customer')
  return rows[0]
}
