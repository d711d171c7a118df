import { inTransaction } from '../db/transaction.ts'
import type { Caller } from '../http/caller.ts'
import type { Client } from './client.ts'
import type { AuthContext } from './context.ts'
import { getUser } from './users.ts'

/** Erases the account and its sessions; its orders stay. See docs/decisions/0103-what-a-deleted-account-leaves.md. */
export async function deleteAccount({ pool, revocations, onAccountDeleted }: AuthContext, caller: Caller, client: Client): Promise<void> {
  const ended = await inTransaction(pool, async (tx) => {
    const user = await getUser(tx, caller.userId)
    await tx.query('delete from password_resets where user_id = $1', [user.id])
    await tx.query('delete from pending_registrations where email = $1', [user.email])
    const { rows } = await tx.query<{ id: string }>('delete from sessions where user_id = $1 returning id', [user.id])
    await tx.query('delete from users where id = $1', [user.id])
    await onAccountDeleted(tx, user.id)
    return rows.map((row) => row.id)
  })
  revocations.add(caller.sessionId, ...ended)
  client.record('account_deleted', { user_id: caller.userId, session_id: caller.sessionId })
}
