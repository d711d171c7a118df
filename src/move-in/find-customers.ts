import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { Refusal } from './move-in.ts'

/** Who ordered, as a line names them. */
export interface OrderedBy {
  /** Order id. */
  id: string
  /** Customer id in the other shop; null where the line has only an address. */
  customerId: string | null
  /** Canonical. */
  email: string | null
}

/**
 * The account of each order: by the customer's id in the other shop, else by the address of an account that was imported or whose holder has proven it.
 * An account that a stranger may have registered must not get somebody's orders.
 */
export async function findCustomers(tx: Transaction, orders: readonly OrderedBy[]): Promise<Map<string, { userId: string } | Refusal>> {
  const ids = orders.flatMap(({ customerId }) => customerId ?? [])
  const emails = orders.flatMap(({ email }) => email ?? [])
  const { rows: known } = await tx.query<{ id: string; user_id: string | null }>(
    sql`select id, user_id from imported_customers where id = any(${ids}::uuid[])`,
  )
  const { rows: accounts } = await tx.query<{ id: string; email: string }>(sql`select id, email
    from users
    where email = any(${emails}) and role <> 'guest'
      and (email_verified_at is not null or exists (select from imported_customers where imported_customers.user_id = users.id))`)
  const byId = new Map(known.map((row) => [row.id, row.user_id]))
  const byEmail = new Map(accounts.map(({ id, email }) => [email, id]))
  return new Map(orders.map((order) => [order.id, decide(order, byId, byEmail)]))
}

function decide(
  { customerId, email }: OrderedBy,
  byId: ReadonlyMap<string, string | null>,
  byEmail: ReadonlyMap<string, string>,
): { userId: string } | Refusal {
  const imported = customerId === null ? undefined : byId.get(customerId)
  if (imported === null) return { refusal: 'its customer has deleted their account here' }
  const userId = imported ?? (email === null ? undefined : byEmail.get(email))
  if (userId !== undefined) return { userId }
  const hint = customerId === null ? '; a guest is found by external_id only' : ''
  return { refusal: `there is no such customer: import the customers first${hint}` }
}
