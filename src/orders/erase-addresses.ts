import { isDatabaseOutage } from '../db/failures.ts'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { type OnFailed, rethrow } from './expire-orders.ts'
import { erasureOf } from './order-column-sql.ts'
import { statusesWhere } from './order-status.ts'
import { OPERATOR_KEY_PREFIX } from './placing/repeats.ts'

const DAY_MS = 86_400_000
const ORDERS_AT_ONCE = 200
const ACCOUNTS_AT_ONCE = 100

const { set: ERASE, isErased } = erasureOf()
export const IS_ERASED = isErased
const HAS_PERSONAL_DATA = sql`not (${IS_ERASED} and not exists (select from order_notes where order_id = orders.id))`

/** Erases the personal columns in copies of these orders, in the transaction that erases the rows. */
export type EraseCopies = (tx: Transaction, orderIds: readonly string[]) => Promise<void>

export interface Erasure {
  eraseCopies: EraseCopies
  retainDays: number
}

/** Erases up to 200 due orders. `eraseDueAddresses` erases the rest. The versions stay, so no event is published. */
export async function eraseAddressesOf(tx: Transaction, userId: string, { eraseCopies, retainDays }: Erasure, now: Date): Promise<number> {
  await deleteKeysOf(tx, [userId])
  // Waits for a transaction that adds an operator's note. See `order-notes.ts`.
  await tx.query('select from deleted_accounts where user_id = $1 for update', [userId])
  // An unshipped order needs its address at any age.
  const { rows } = await tx.query<{ id: string }>(
    sql`with due as (
      select id
      from orders
      where user_id = ${userId} and ${HAS_PERSONAL_DATA}
        and status <> all (${statusesWhere(({ phase }) => phase === 'open')}) and updated_at < ${cutoff(retainDays, now)}
      order by id
      limit ${ORDERS_AT_ONCE}
      for update
    )
    update orders
    set ${ERASE}
    from due
    where orders.id = due.id
    returning orders.id`,
  )
  const ids = rows.map(({ id }) => id)
  if (ids.length > 0) {
    await tx.query('delete from order_notes where order_id = any($1)', [ids])
    await eraseCopies(tx, ids)
  }
  await recordRest(tx, userId, now)
  return rows.length
}

/** The deleted keys have responses, which contain addresses. */
export async function deleteKeysOf(tx: Transaction, userIds: readonly string[]): Promise<void> {
  await tx.query(sql`delete from idempotency_keys where user_id = any(${userIds}::uuid[])`)
  // A retry of an operator must not place the order of an erased guest again.
  await tx.query(sql`delete from order_repeats where user_id = any(${userIds}::uuid[]) and not starts_with(name, ${OPERATOR_KEY_PREFIX})`)
}

/** An order in flight may be stored after the deletion, so the account is checked for another day. */
async function recordRest(tx: Transaction, userId: string, now: Date): Promise<void> {
  const { rows } = await tx.query<{ oldest: Date | null }>(
    sql`select min(updated_at) as oldest from orders where user_id = ${userId} and ${HAS_PERSONAL_DATA}`,
  )
  const oldest = rows[0]?.oldest ?? null
  await tx.query(`update deleted_accounts set oldest_change_at = coalesce($2::timestamptz, '-infinity') where user_id = $1`, [
    userId,
    oldest,
  ])
  if (oldest !== null) return
  await tx.query('delete from deleted_accounts where user_id = $1 and deleted_at < $2', [userId, new Date(now.getTime() - DAY_MS)])
}

/**
 * Returns the number of erased orders. Several processes may run it at once. An account that fails is told to
 * `onFailed`, and the others are still erased.
 */
export async function eraseDueAddresses(pool: Pool, erasure: Erasure, now: Date, onFailed: OnFailed = rethrow): Promise<number> {
  let erased = 0
  for (let after = '00000000-0000-0000-0000-000000000000'; ; ) {
    const userIds = await listDueAccounts(pool, after, cutoff(erasure.retainDays, now))
    for (const userId of userIds) {
      try {
        erased += await eraseAll(pool, userId, erasure, now)
      } catch (error) {
        if (isDatabaseOutage(error)) throw error
        onFailed(userId, error)
      }
    }
    const last = userIds.at(-1)
    if (last === undefined) return erased
    after = last
  }
}

async function eraseAll(pool: Pool, userId: string, erasure: Erasure, now: Date): Promise<number> {
  for (let total = 0; ; ) {
    const erased = await inTransaction(pool, (tx) => eraseAddressesOf(tx, userId, erasure, now))
    total += erased
    if (erased < ORDERS_AT_ONCE) return total
  }
}

async function listDueAccounts(db: Queryable, after: string, before: Date): Promise<string[]> {
  const { rows } = await db.query<{ user_id: string }>(
    'select user_id from deleted_accounts where oldest_change_at < $1 and user_id > $2 order by user_id limit $3',
    [before, after, ACCOUNTS_AT_ONCE],
  )
  return rows.map((row) => row.user_id)
}

function cutoff(retainDays: number, now: Date): Date {
  return new Date(now.getTime() - retainDays * DAY_MS)
}
