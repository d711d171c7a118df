import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import type { AccountCaller } from '../http/caller.ts'
import type { Client } from './client.ts'
import type { AuthContext } from './context.ts'
import { deleteUser, getUser } from './users.ts'

/** Erases the caller's account and its sessions; its orders stay. See docs/decisions/customers.md#erasure. */
export async function deleteAccount(context: AuthContext, caller: AccountCaller, client: Client): Promise<void> {
  const ended = await inTransaction(context.pool, async (tx) => eraseAccount(tx, context, await getUser(tx, caller.userId)))
  context.revocations.add(caller.sessionId, ...ended)
  client.record('account_deleted', { user_id: caller.userId, session_id: caller.sessionId })
}

/**
 * Erases an account and the guests whose orders it has taken over. Returns their ended sessions. Throws `last_admin`.
 */
export async function eraseAccount(
  tx: Transaction,
  { onAccountDeleted }: Pick<AuthContext, 'onAccountDeleted'>,
  user: { id: string; email: string },
): Promise<string[]> {
  const { rows: guests } = await tx.query<{ id: string }>(sql`select id from users where owner_id = ${user.id} for update`)
  const guestIds = guests.map(({ id }) => id)
  await tx.query(sql`delete from password_resets where user_id = ${user.id}`)
  await tx.query(sql`delete from pending_registrations where email = ${user.email}`)
  const { rows } = await tx.query<{ id: string }>(
    sql`delete from sessions where user_id = any(${[user.id, ...guestIds]}::uuid[]) returning id`,
  )
  // This deletes the account's guests too.
  await deleteUser(tx, user.id)
  await onAccountDeleted(tx, user.id, guestIds)
  return rows.map(({ id }) => id)
}
