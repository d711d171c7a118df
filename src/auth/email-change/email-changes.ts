import type { Queryable, Transaction } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Language } from '../../language.ts'
import type { AuthContext } from '../context.ts'
import { hashToken } from '../tokens/opaque-token.ts'

/** The lifetime of a token mailed to the new address. */
export const REQUEST_MS = 24 * 3_600_000

/** Counts a mail to the account's own address, which may belong to a stranger. Returns false past the limit. */
export async function mayMailOwner({ pool, throttle }: Pick<AuthContext, 'pool' | 'throttle'>, userId: string): Promise<boolean> {
  const { rows } = await pool.query<{ email: string }>(sql`select email from users where id = ${userId}`)
  return rows[0] === undefined || throttle.countMail(rows[0].email, 'own address')
}

interface NewChange {
  userId: string
  newEmail: string
  confirmToken: string
  noticeToken: string
  requestedAt: Date
  expiresAt: Date
}

/** Adds a change of the account's current address. It replaces an earlier unconfirmed one. */
export async function insertChange(tx: Transaction, change: NewChange): Promise<void> {
  await withdrawChanges(tx, change.userId)
  await tx.query(sql`insert into email_changes
      (user_id, old_email, old_email_verified_at, new_email, confirm_token_hash, notice_token_hash, requested_at, expires_at)
    select id, email, email_verified_at, ${change.newEmail}, ${hashToken(change.confirmToken)}, ${hashToken(change.noticeToken)},
      ${change.requestedAt}, ${change.expiresAt}
    from users
    where id = ${change.userId}`)
}

/** Withdraws every unconfirmed change. Their notices stay usable, so the owner can still report an unwanted change. */
export async function withdrawChanges(tx: Transaction, userId: string): Promise<void> {
  await tx.query(sql`update email_changes set confirm_token_hash = null where user_id = ${userId} and confirm_token_hash is not null`)
}

/** Whether the account's address is proven, and the address awaiting confirmation; null for none. */
export async function findAddressState(
  db: Queryable,
  { id, email }: { id: string; email: string },
  now: Date,
): Promise<{ is_email_verified: boolean; pending_email: string | null }> {
  const { rows } = await db.query<{ is_email_verified: boolean; pending_email: string | null }>(
    sql`select email_verified_at is not null as is_email_verified, (
      select new_email
      from email_changes
      where user_id = users.id and confirm_token_hash is not null and expires_at > ${now} and new_email <> ${email}
    ) as pending_email
    from users
    where id = ${id}`,
  )
  return rows[0] ?? { is_email_verified: false, pending_email: null }
}

/**
 * The language of the account that has, or lately had, the address; null if there is none. The account `besides` does
 * not count, since it may get the address back. `email` is canonical.
 */
export async function findHolder(
  db: Queryable,
  email: string,
  { besides, now }: { besides: string | null; now: Date },
): Promise<{ language: Language | null; isFormer: boolean } | null> {
  const { rows } = await db.query<{ language: Language | null; isFormer: boolean }>(
    sql`(select language, false as "isFormer" from users where email = ${email} and role <> 'guest')
    union all
    (
      select users.language, true
      from email_changes
      join users on users.id = email_changes.user_id
      where old_email = ${email} and changed_at is not null and expires_at > ${now} and user_id is distinct from ${besides}
      limit 1
    )`,
  )
  return rows[0] ?? null
}

/** A confirmed change. Old and new address are equal if the account proves its own address. */
export interface ConfirmedChange {
  id: number
  old_email: string
  new_email: string
}

/**
 * The change that a token of its account confirms. The account must still have the address from which the change was
 * requested.
 */
export async function findConfirmed(
  tx: Transaction,
  { userId, token, now }: { userId: string; token: string; now: Date },
): Promise<ConfirmedChange | null> {
  const { rows } = await tx.query<ConfirmedChange>(
    sql`select change.id, change.old_email, change.new_email
    from email_changes as change
    join users on users.id = change.user_id and users.email = change.old_email
    where change.user_id = ${userId} and change.confirm_token_hash = ${hashToken(token)} and change.expires_at > ${now}`,
  )
  return rows[0] ?? null
}

/** Marks a change as made. Notices of the account's other requests, mailed to the same address, can revert it too. */
export async function markMade(
  tx: Transaction,
  { userId, id, revertToken, now, expiresAt }: { userId: string; id: number; revertToken: string; now: Date; expiresAt: Date },
): Promise<void> {
  await tx.query(sql`update email_changes
    set confirm_token_hash = null, revert_token_hash = case when id = ${id} then ${hashToken(revertToken)}::bytea end, changed_at = ${now},
      expires_at = ${expiresAt}
    where user_id = ${userId} and changed_at is null and (id = ${id} or expires_at > ${now})`)
}

/** A confirmed or requested change whose old address got a token. */
export interface RevertibleChange {
  id: number
  user_id: string
  old_email: string
  old_email_verified_at: Date | null
  requested_at: Date
  isMade: boolean
}

export async function findRevertible(db: Queryable, token: string, now: Date): Promise<RevertibleChange | null> {
  const { rows } = await db.query<RevertibleChange>(
    sql`select id, user_id, old_email, old_email_verified_at, requested_at, changed_at is not null as "isMade"
    from email_changes
    where (notice_token_hash = ${hashToken(token)} or revert_token_hash = ${hashToken(token)}) and expires_at > ${now}`,
  )
  return rows[0] ?? null
}

/**
 * Deletes a change and the account's later ones, whose tokens lead to addresses it must not get back. Returns the
 * addresses that these changes gave the account. Other requests were marked as made too, but only a made change has a
 * revert token.
 */
export async function deleteChangesFrom(tx: Transaction, { id, user_id, old_email }: RevertibleChange): Promise<string[]> {
  const { rows } = await tx.query<{ new_email: string; isMade: boolean }>(
    sql`delete from email_changes
    where user_id = ${user_id} and (id >= ${id} or old_email = ${old_email})
    returning new_email, revert_token_hash is not null as "isMade"`,
  )
  return rows.filter(({ isMade }) => isMade).map(({ new_email }) => new_email)
}
