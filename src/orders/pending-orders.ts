import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { AppError } from '../errors.ts'

/** The number of pending orders of some customers, with the accepted orders of the present batch. */
export class PendingOrders {
  readonly #limit: number
  readonly #counts: Map<string, number>

  constructor(limit: number, counts: Map<string, number>) {
    this.#limit = limit
    this.#counts = counts
  }

  /** Throws `too_many_pending_orders` when a customer may have no more. */
  assertOneMore(userId: string): void {
    const pending = this.#counts.get(userId) ?? 0
    if (pending >= this.#limit) {
      throw new AppError('too_many_pending_orders', `You have ${pending} pending orders; the limit is ${this.#limit}.`, {
        members: { pending, limit: this.#limit },
      })
    }
  }

  /** Counts one more order of a customer. */
  add(userId: string): void {
    this.#counts.set(userId, (this.#counts.get(userId) ?? 0) + 1)
  }
}

/** Counts the pending orders of customers. */
export async function findPendingOrders(tx: Transaction, userIds: readonly string[], limit: number): Promise<PendingOrders> {
  const { rows } = await tx.query<{ user_id: string; pending: number }>(
    sql`select user_id, pending from pending_order_counts where user_id = any(${userIds}::uuid[])`,
  )
  return new PendingOrders(limit, new Map(rows.map((row) => [row.user_id, row.pending])))
}
