import { plainArray } from '../db/list-parameters.ts'
import type { Transaction } from '../db/pool.ts'
import { prepared, sql } from '../db/sql.ts'
import { AppError } from '../errors.ts'

/** How many orders of some customers are pending, this transaction's own included. */
export class PendingOrders {
  readonly #limit: number
  readonly #counts: Map<string, number>

  constructor(limit: number, counts: Map<string, number>) {
    this.#limit = limit
    this.#counts = counts
  }

  /** Counts one more order of a customer. Throws `too_many_pending_orders` when there is no room for it. */
  add(userId: string): void {
    const pending = this.#counts.get(userId) ?? 0
    if (pending >= this.#limit) {
      throw new AppError(
        'too_many_pending_orders',
        `${pending} of your orders wait to be confirmed, and no more than ${this.#limit} may.`,
        {
          members: { pending, limit: this.#limit },
        },
      )
    }
    this.#counts.set(userId, pending + 1)
  }
}

/** Reads how many orders of customers are pending. Nobody else changes that before this transaction ends. */
export async function lockPendingOrders(tx: Transaction, userIds: readonly string[], limit: number): Promise<PendingOrders> {
  // An upsert locks the rows of first orders, too. In the order of users, as the triggers do, so that no two deadlock.
  const lock = sql`insert into pending_order_counts (user_id, pending)
    select distinct user_id, 0 from unnest(${plainArray(userIds)}::uuid[]) as buyer (user_id) order by user_id
    on conflict (user_id) do update set pending = pending_order_counts.pending
    returning user_id, pending`
  const { rows } = await tx.query<{ user_id: string; pending: number }>(prepared(lock, 'lock_pending_orders'))
  return new PendingOrders(limit, new Map(rows.map((row) => [row.user_id, row.pending])))
}

/**
 * Ends the transaction with SQLSTATE SF001 when a customer has more than `limit` pending orders. Exact behind the insert of its orders: that
 * has locked the counts.
 */
export async function assertPendingOrders(tx: Transaction, userIds: readonly string[], limit: number): Promise<void> {
  // Lateral, so that each is looked up in the index: a plan made while the table was small would read all of it for long.
  const check = sql`select insist(coalesce(bool_and(counted.pending <= ${limit}), true))
    from unnest(${plainArray(userIds)}::uuid[]) as buyer (user_id)
    cross join lateral (
      select pending from pending_order_counts where user_id = buyer.user_id limit 1
    ) as counted`
  await tx.query(prepared(check, 'assert_pending_orders'))
}
