import { recordActivity } from '../../activity/record-activity.ts'
import { inTransaction } from '../../db/transaction.ts'
import { AppError } from '../../errors.ts'
import { invalidBody } from '../../http/problem.ts'
import { isOperatorRole } from '../../http/scopes.ts'
import type { OwnChange } from '../client.ts'
import type { AuthContext } from '../context.ts'
import { parseEmail } from '../email-address.ts'
import { lockCaller } from '../factors/second-factors.ts'
import { newToken } from '../tokens/opaque-token.ts'
import { findHolder, insertChange, mayMailOwner, REQUEST_MS } from './email-changes.ts'

/**
 * Mails the new address a confirmation token, and the current address a notice with a token. If the new address is
 * taken, it does the same work and mails there that the address is taken. Throws `invalid_body`, also for the account's
 * own address, and `rate_limited`.
 */
export async function requestEmailChange(
  context: AuthContext,
  address: string,
  { caller, client, auditContext }: OwnChange,
): Promise<void> {
  const { pool, throttle, sendAccountMail, now } = context
  const email = parseEmail(address)
  await throttle.countEmailChange(client, caller.userId)
  const mayMail = await throttle.countNewAddressMail(caller.userId, email)
  const mayNotify = await mayMailOwner(context, caller.userId)
  const [confirmToken, noticeToken] = [newToken(), newToken()]
  await inTransaction(pool, async (tx) => {
    const account = await lockCaller(tx, caller, now())
    if (account.email === email) throw invalidBody('#/email', 'is the address of the account', 'The account has this address already.')
    const holder = await findHolder(tx, email, { besides: account.id, now: now() })
    const expiresAt = new Date(now().getTime() + REQUEST_MS)
    await insertChange(tx, { userId: account.id, newEmail: email, confirmToken, noticeToken, requestedAt: now(), expiresAt })
    const mail = { language: account.language, expiresAt, isForConsole: isOperatorRole(account.role) }
    if (!mayMail) await sendAccountMail(tx, { kind: 'none', expiresAt })
    else if (holder === null) await sendAccountMail(tx, { kind: 'confirm_email', to: email, token: confirmToken, ...mail })
    else await sendAccountMail(tx, { kind: 'address_in_use', to: email, language: holder.language, expiresAt })
    if (!mayNotify) await sendAccountMail(tx, { kind: 'none', expiresAt })
    else await sendAccountMail(tx, { kind: 'email_change_requested', to: account.email, token: noticeToken, ...mail })
    if (auditContext !== null)
      await recordActivity(tx, auditContext, {
        subjectType: 'account',
        subjectId: account.id,
        before: null,
        after: { email: 'change requested' },
      })
  })
  client.record('email_change_requested', { user_id: caller.userId, session_id: caller.sessionId })
}

/**
 * Mails the account's own address a token, with which `confirmEmailChange` proves it. A proven address may be proven
 * again, because each proof takes over new guest orders. Throws `rate_limited`, and `forbidden` for guests.
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
    // This notice token is not mailed, because there is no change to revert.
    await insertChange(tx, { userId: id, newEmail: email, confirmToken: token, noticeToken: newToken(), requestedAt: now(), expiresAt })
    const mail = { language, expiresAt, isForConsole: isOperatorRole(role) }
    await sendAccountMail(tx, mayMail ? { kind: 'confirm_email', to: email, token, ...mail } : { kind: 'none', expiresAt })
  })
  client.record('email_proof_requested', { user_id: caller.userId, session_id: caller.sessionId })
}
