import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Outcome } from './batch-decision.ts'

const REMEMBERED_MS = 10_000
/** Above this number the oldest owners are forgotten. Their next order costs its batch a second attempt. */
const MAX_OWNERS = 10_000

/** Owners whose last order was recently refused, replayed or in progress. Their next orders probably fail, too. */
export class UnusualOwners {
  readonly #untilOf = new Map<string, number>()

  has(owner: string): boolean {
    return (this.#untilOf.get(owner) ?? 0) > performance.now()
  }

  note(owner: string, outcome: Outcome | undefined): void {
    this.#untilOf.delete(owner)
    // An order that waits for a row is usual.
    if (outcome === undefined || outcome.kind === 'blocked' || (outcome.kind === 'placed' && !outcome.order.isReplay)) return
    const now = performance.now()
    this.#untilOf.set(owner, now + REMEMBERED_MS)
    for (const [oldest, until] of this.#untilOf) {
      if (until > now && this.#untilOf.size <= MAX_OWNERS) return
      this.#untilOf.delete(oldest)
    }
  }
}

/** Whether the address is unproven and not imported. Such an account is as easy to create as a guest. */
export async function isUnproven(pool: Pool, userId: string): Promise<boolean> {
  const { rowCount } = await pool.query(
    sql`select
    from users
    where id = ${userId} and role = 'customer' and email_verified_at is null
      and not exists (select from imported_customers where imported_customers.user_id = users.id)`,
  )
  return rowCount !== 0
}

/** Unproven addresses do not count, because anybody could block another person's address with them. */
const IS_ADDRESS_BLOCKED = sql`exists (
  select
  from users as customer
  where customer.email = guest.email and customer.role <> 'guest' and customer.blocked_at is not null
    and customer.email_verified_at is not null
)`

export async function findGuestAddress(pool: Pool, guestId: string): Promise<{ email: string; isBlocked: boolean } | null> {
  const { rows } = await pool.query<{ email: string; isBlocked: boolean }>(
    sql`select email, ${IS_ADDRESS_BLOCKED} as "isBlocked" from users as guest where id = ${guestId}`,
  )
  return rows[0] ?? null
}

interface OrderingCustomer {
  userId: string
  guestEmail: string | null
  ownerId: string | null
  isBlocked: boolean
}

/**
 * The customer or guest of an operator's order, or null for operators and erased accounts. `isBlocked` is true when the
 * account, the guest's owner or a customer with the guest's proven address is blocked.
 */
export async function findCustomer(pool: Pool, id: string | null): Promise<OrderingCustomer | null> {
  const { rows } = await pool.query<OrderingCustomer>(
    sql`select guest.id as "userId", case when guest.role = 'guest' then guest.email end as "guestEmail", guest.owner_id as "ownerId",
      guest.blocked_at is not null or owner.blocked_at is not null or guest.role = 'guest' and ${IS_ADDRESS_BLOCKED} as "isBlocked"
    from users as guest
    left join users as owner on owner.id = guest.owner_id
    where guest.id = ${id} and guest.role in ('customer', 'guest')`,
  )
  return rows[0] ?? null
}
