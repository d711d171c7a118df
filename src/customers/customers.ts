import { type Static, Type } from 'typebox'
import type { Queryable } from '../db/pool.ts'
import { type Sql, sql } from '../db/sql.ts'
import { LANGUAGES, type Language } from '../language.ts'
import { MoneySchema } from '../money.ts'
import { statusesWhere } from '../orders/order-status.ts'
import { EXAMPLE_CUSTOMER } from './examples.ts'

/**
 * Largest number of orders that a page counts for one customer, beginning with the newest. The answer says when there
 * are more. A stored counter would cost a write per order. See docs/decisions/customers.md#sums-of-customers.
 */
export const COUNTED_ORDERS = 1_000
const SOLD = statusesWhere(({ phase }) => phase !== 'ended')

const Time = Type.String({ format: 'date-time' })
const nullable = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Union([schema, Type.Null()])

export const CustomerSchema = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    email: Type.String(),
    name: nullable(Type.String()),
    role: Type.Enum(['customer', 'guest']),
    is_email_verified: Type.Boolean({ description: 'Whether a mailed token has proven the address.' }),
    language: Type.Union([Type.Enum([...LANGUAGES]), Type.Null()], {
      description: "The language of the customer's mails. Null if none was chosen: the store's language then applies.",
    }),
    owner_id: Type.Union([Type.String({ format: 'uuid' }), Type.Null()], {
      description: "For a guest: the account that has proven the guest's address and has taken over the orders.",
    }),
    blocked_at: nullable(Time),
    blocked_reason: nullable(Type.String()),
    created_at: Time,
    orders: Type.Object(
      {
        count: Type.Integer({ description: 'Counts the orders of the account and of its guests.' }),
        is_complete: Type.Boolean({
          description: `False if there are more orders: count and totals then include only the newest ${COUNTED_ORDERS}.`,
        }),
        totals: Type.Array(MoneySchema, {
          description:
            'The current totals of the orders, one for each currency, without cancelled and returned orders. A total is at most 9007199254740991.',
        }),
        last_order_at: nullable(Time),
      },
      { title: 'CustomerOrders' },
    ),
  },
  { title: 'Customer', examples: [EXAMPLE_CUSTOMER] },
)
export type Customer = Static<typeof CustomerSchema>

interface CustomerRow {
  id: string
  email: string
  name: string | null
  role: 'customer' | 'guest'
  is_email_verified: boolean
  language: Language | null
  owner_id: string | null
  blocked_at: Date | null
  blocked_reason: string | null
  created_at: Date
  count: number
  totals: Customer['orders']['totals'] | null
  last_order_at: Date | null
}

/** The customers and guests that the query `page` selects by id, with totals of their orders. `order` sorts them. */
export async function readCustomers(db: Queryable, page: Sql, order: Sql): Promise<Customer[]> {
  const { rows } = await db.query<CustomerRow>(
    sql`select customer.id, customer.email, customer.name, customer.role, customer.email_verified_at is not null as is_email_verified,
      customer.language, customer.owner_id, customer.blocked_at, customer.blocked_reason, customer.created_at, ordered.count, ordered.totals,
      ordered.last_order_at
    from (${page}) as page (page_id)
    join users as customer on customer.id = page_id
    cross join lateral (
      select sum(orders)::int as count, max(last_at) as last_order_at,
        json_agg(json_build_object('amount', amount, 'currency', currency) order by currency) filter (where paid > 0) as totals
      from (
        select currency, count(*) as orders, max(created_at) as last_at,
          count(*) filter (where place <= ${COUNTED_ORDERS} and status = any(${SOLD})) as paid,
          least(${Number.MAX_SAFE_INTEGER}, sum(total_amount + case
            when status_history @? '$[*].change.amount'
            then (select sum(amount::bigint) from jsonb_path_query(status_history, '$[*].change.amount') as amount)
            else 0
          end) filter (where place <= ${COUNTED_ORDERS} and status = any(${SOLD}))) as amount
        from (
          select newest.currency, newest.created_at, newest.status, newest.total_amount, newest.status_history,
            row_number() over (order by newest.number desc) as place
          from (select customer.id union all select id from users where owner_id = customer.id) as buyer (buyer_id)
          cross join lateral (
            select number, currency, created_at, status, total_amount, status_history
            from orders
            where user_id = buyer_id
            order by number desc
            limit ${COUNTED_ORDERS + 1}
          ) as newest
          order by newest.number desc
          limit ${COUNTED_ORDERS + 1}
        ) as counted
        group by currency
      ) as by_currency
    ) as ordered
    order by ${order}`,
  )
  return rows.map(present)
}

function present({ count, totals, last_order_at, ...row }: CustomerRow): Customer {
  return {
    ...row,
    blocked_at: row.blocked_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    orders: {
      count: Math.min(count ?? 0, COUNTED_ORDERS),
      is_complete: (count ?? 0) <= COUNTED_ORDERS,
      totals: totals ?? [],
      last_order_at: last_order_at?.toISOString() ?? null,
    },
  }
}
