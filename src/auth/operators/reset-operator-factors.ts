import type { AuditContext } from '../../activity/record-activity.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError, notFound } from '../../errors.ts'
import type { AccountCaller } from '../../http/caller.ts'
import { isOperatorRole } from '../../http/scopes.ts'
import type { AuthContext } from '../context.ts'
import { resetFactors } from '../factors/reset-factors.ts'
import { lockCaller } from '../factors/second-factors.ts'
import { lockOperators, lockRoleHolder } from './operators.ts'

/**
 * Removes every factor except the password of another operator, and ends their sessions. Throws `not_found`,
 * `forbidden`, and `invalid_token` for a caller who was reset meanwhile. If two reset each other at once, one keeps the
 * factors.
 */
export async function resetOperatorFactors(
  { pool, revocations, adminFactors, sendAccountMail, now }: AuthContext,
  id: string,
  { caller, auditContext }: { caller: AccountCaller; auditContext: AuditContext },
): Promise<void> {
  if (caller.userId === id) throw new AppError('forbidden', 'Nobody resets their own second factors: change them in your account.')
  const { ended } = await inTransaction(pool, async (tx) => {
    await lockOperators(tx, auditContext)
    await lockCaller(tx, caller, now())
    const holder = await lockRoleHolder(tx, { id })
    if (holder === null || !isOperatorRole(holder.role)) throw notFound('operator')
    return resetFactors(tx, id, { sendAccountMail, auditContext, now: now() })
  })
  revocations.add(...ended)
  await adminFactors.refresh()
}
