import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Outcome } from './batch-decision.ts'

const REMEMBERED_MS = 10_000
/** The oldest are forgotten above it, which costs others an attempt. */
const MAX_OWNERS = 10_000

/**
 * Owners whose last order was lately not placed as a new one. Their next ones probably will not be, either, so the
 * usual state is not assumed for them.
 */
export class UnusualOwners {
  /** The time until which an owner counts, in order of time. */
  readonly #untilOf = new Map<string, number>()

  has(owner: string): boolean {
    return (this.#untilOf.get(owner) ?? 0) > performance.now()
  }

  note(owner: string, outcome: Outcome | undefined): void {
    this.#untilOf.delete(owner)
    // An order that waits for a row is as usual as the others.
    if (outcome === undefined || outcome.kind === 'blocked' || (outcome.kind === 'placed' && !outcome.order.isReplay)) return
    const now = performance.now()
    this.#untilOf.set(owner, now + REMEMBERED_MS)
    for (const [oldest, until] of this.#untilOf) {
      if (until > now && this.#untilOf.size <= MAX_OWNERS) return
      this.#untilOf.delete(oldest)
    }
  }
}

/**
 * Whether a customer has not proven its address, and was not moved in from another shop either: such an account costs
 * as little as a guest.
 */
export async function isUnproven(pool: Pool, userId: string): Promise<boolean> {
  const { rowCount } = await pool.query(
    sql`select
    from users
    where id = ${userId} and role = 'customer' and email_verified_at is null
      and not exists (select from imported_customers where imported_customers.user_id = users.id)`,
  )
  return rowCount !== 0
}

/**
 * The address of a guest, and whether it is that of a customer that the shop has blocked; null when the guest is
 * gone. The customer must have proven the address: otherwise anybody could register the address of another person,
 * and have it blocked.
 */
export async function findGuestAddress(pool: Pool, guestId: string): Promise<{ email: string; isBlocked: boolean } | null> {
  const { rows } = await pool.query<{ email: string; isBlocked: boolean }>(
    sql`select email, exists (
      select
      from users as customer
      where customer.email = guest.email and customer.role <> 'guest' and customer.blocked_at is not null
        and customer.email_verified_at is not null
    ) as "isBlocked"
    from users as guest
    where id = ${guestId}`,
  )
  return rows[0] ?? null
}
