import type { AuditContext } from '../../activity/record-activity.ts'
import { inTransaction } from '../../db/transaction.ts'
import { notFound } from '../../errors.ts'
import { isOperatorRole, type OperatorRole } from '../../http/scopes.ts'
import type { AuthContext } from '../context.ts'
import { mailInvitation } from './invite-operator.ts'
import { lockOperators, lockRoleHolder, setRole } from './operators.ts'

/**
 * Changes an operator's role; null makes the account a customer's again. Mails a pending invitation again with the new
 * role. Throws `not_found`, and the errors of `setRole`.
 */
export async function changeOperatorRole(
  context: AuthContext,
  id: string,
  role: OperatorRole | null,
  auditContext: AuditContext,
): Promise<void> {
  const ended = await inTransaction(context.pool, async (tx) => {
    await lockOperators(tx, auditContext)
    const holder = await lockRoleHolder(tx, { id })
    if (holder === null || !isOperatorRole(holder.role)) throw notFound('operator')
    const endedSessions = await setRole(tx, holder, role ?? 'customer', auditContext)
    if (role !== null && role !== holder.role && holder.isInvited) await mailInvitation(tx, context, { ...holder, role }, auditContext)
    return endedSessions
  })
  context.revocations.add(...ended)
}
