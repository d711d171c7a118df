import { inTransaction } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import { isOperatorRole } from '../../http/scopes.ts'
import type { AuthContext } from '../context.ts'
import { lockCaller } from '../factors/second-factors.ts'
import type { OwnChange } from '../own-change.ts'
import { newToken } from '../tokens/opaque-token.ts'
import { insertChange, mayMailOwner, REQUEST_MS } from './email-changes.ts'

/**
 * Mails a token to the account's own address, with which `confirmEmailChange` proves it. A proven address may be proven
 * again, because guest orders come with the next proof. Throws `rate_limited`, `forbidden` for guests.
 */
export async function requestEmailProof(context: AuthContext, { caller, client }: Omit<OwnChange, 'auditContext'>): Promise<void> {
  const { pool, throttle, sendAccountMail, now } = context
  if (caller.role === 'guest') throw new AppError('forbidden', 'Guests have no account: register with the address first.')
  await throttle.countEmailChange(client, caller.userId)
  const mayMail = await mayMailOwner(context, caller.userId)
  const token = newToken()
  await inTransaction(pool, async (tx) => {
    const { id, role, email, language } = await lockCaller(tx, caller, now())
    const expiresAt = new Date(now().getTime() + REQUEST_MS)
    // Nobody gets the token of a notice: there is no change to revert.
    await insertChange(tx, { userId: id, newEmail: email, confirmToken: token, noticeToken: newToken(), requestedAt: now(), expiresAt })
    const mail = { language, expiresAt, isForConsole: isOperatorRole(role) }
    await sendAccountMail(tx, mayMail ? { kind: 'confirm_email', to: email, token, ...mail } : { kind: 'none', expiresAt })
  })
  client.record('email_proof_requested', { user_id: caller.userId, session_id: caller.sessionId })
}
