import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import type { Pool } from '../db/pool.ts'
import { type Sql, sql } from '../db/sql.ts'
import { mayUse } from '../http/caller.ts'
import { EmailFilter, Instant, type Paging, readInstant } from '../http/pagination.ts'
import { EXAMPLE_ADMIN_ORDER } from './examples.ts'
import { type Finders, findOrders } from './find-orders.ts'
import { type Order, OrderNumber, OrderSchema, presentOrder, stateOf } from './order.ts'
import { RefundableSchema } from './order-changes.ts'
import { type OrderPage, type OrderPageQuery, type OrderPosition, readOrderPage } from './order-page.ts'
import { ORDER_STATUSES } from './order-status.ts'
import { orderOwnersOf } from './orders.ts'
import { ShippingAddressSchema } from './postal-address.ts'
import { readSearchText, SearchQuery } from './search-text.ts'
import { IS_UNPAID } from './unpaid-orders.ts'

export const OrderSearch = Type.Object({
  q: Type.Optional(
    SearchQuery(
      "Searches orders by number (with or without `#`), parts of the recipient's or a company's name, phone number in any spelling, postal code, tracking number, " +
        'reference of a payment or of the client, and VAT number. With the scope `customers:read` also by the name or e-mail address of the account. If no order matches, ' +
        'it searches by the SKU or name of a product, and then for names with typing errors.',
    ),
  ),
  status: Type.Optional(Type.Enum([...ORDER_STATUSES], { title: 'OrderStatus', description: 'Only orders with this status.' })),
  user_id: Type.Optional(
    Type.String({
      format: 'uuid',
      description: 'Only orders of this customer, and of the guests whose orders the account has taken over.',
    }),
  ),
  number: Type.Optional(OrderNumber('Only the order with this number.')),
  email: Type.Optional(
    EmailFilter('Only orders of the account or guest with this e-mail address, or orders to which an amendment has given this address.'),
  ),
  product_id: Type.Optional(Type.String({ format: 'uuid', description: 'Only orders with a line of this product.' })),
  unpaid: Type.Optional(
    Type.Boolean({
      enum: [true],
      description: 'Only orders that are not shipped as a whole and have no payment that is authorized or paid.',
    }),
  ),
  from: Instant('Only orders placed at this time or later. RFC 3339.'),
  to: Instant('Only orders placed before this time. RFC 3339.'),
})

const FormerValuesSchema = Type.Object({
  shipping_address: Type.Optional(Type.Union([ShippingAddressSchema, Type.Null()])),
  billing_address: Type.Optional(Type.Union([ShippingAddressSchema, Type.Null()])),
  vat_number: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  email: Type.Optional(Type.Union([Type.String(), Type.Null()])),
})

export const AdminOrderSchema = Type.Object(
  {
    ...OrderSchema.properties,
    user_id: Type.String({ format: 'uuid' }),
    refundable: Type.Array(RefundableSchema, { description: 'The payments that can still be refunded, at least in part.' }),
    former_values: Type.Optional(
      Type.Record(Type.String(), FormerValuesSchema, {
        description:
          'The values that amendments have replaced. The key is the index of the amendment in `status_history`, from 0. Absent in lists, and if nothing was replaced.',
      }),
    ),
  },
  { title: 'AdminOrder', examples: [EXAMPLE_ADMIN_ORDER] },
)
export type AdminOrder = Static<typeof AdminOrderSchema>

export function presentForAdmin(order: Order): AdminOrder {
  return { ...presentOrder(order), ...forOperators(order) }
}

export function forOperators(order: Order): Pick<AdminOrder, 'user_id' | 'refundable' | 'former_values'> {
  const { userId, formerValues } = order
  const { refundable } = stateOf(order)
  return { user_id: userId, refundable, ...(formerValues === null ? {} : { former_values: formerValues }) }
}

export type FindUserIds = (email: string) => Promise<readonly string[]>

interface Buyers {
  email: string
  userIds: readonly string[]
}

/** Number of text matches that the other filters examine for one page. The page may be short. */
const EXAMINED = 500

export interface OrderFinders extends Finders {
  findBuyers: (email: string) => Promise<Buyers>
}

/** Callers who may not read accounts cannot search by parts of an address: they could guess one letter by letter. */
export function permittedFinders({ findPeople, ...others }: OrderFinders, request: FastifyRequest): OrderFinders {
  return { ...others, findPeople: mayUse(request, 'customers:read') ? findPeople : null }
}

/** Sorts by time if there is a period and no `q`, otherwise by number. Throws `invalid_query`. */
export async function searchOrders(
  pool: Pool,
  finders: OrderFinders,
  filters: Static<typeof OrderSearch>,
  paging: Paging<Static<typeof OrderPosition>>,
): Promise<OrderPage> {
  const conditions: Sql[] = []
  if (filters.status !== undefined) conditions.push(sql`status = ${filters.status}`)
  if (filters.unpaid) conditions.push(IS_UNPAID)
  if (filters.number !== undefined) conditions.push(sql`number = ${filters.number}::bigint`)
  if (filters.product_id !== undefined) conditions.push(sql`product_ids @> array[${filters.product_id}::uuid]`)
  if (filters.from !== undefined) conditions.push(sql`created_at >= ${readInstant('from', filters.from)}::timestamptz`)
  if (filters.to !== undefined) conditions.push(sql`created_at < ${readInstant('to', filters.to)}::timestamptz`)
  const buyers = filters.email === undefined ? null : await finders.findBuyers(filters.email)
  const owners = orderOwnersIn(filters, buyers)
  const present = (order: Order) => presentForAdmin({ ...order, formerValues: null })
  const query = { paging, ...owners, conditions, present }
  if (filters.q === undefined) {
    return readOrderPage(pool, { ...query, sort: filters.from === undefined && filters.to === undefined ? 'number' : 'time' })
  }
  const before = paging.after?.[0] ?? Number.MAX_SAFE_INTEGER
  const most = conditions.length === 0 && owners === null ? paging.limit + 1 : EXAMINED
  const numbers = await findOrders(pool, await readSearchText(pool, filters.q), finders, { before, most })
  const page = await readOrderPage(pool, { ...query, sort: 'number', conditions: [...conditions, sql`number = any(${numbers}::bigint[])`] })
  const last = numbers.at(-1)
  if (page.next_cursor !== null || numbers.length < most || last === undefined) return page
  return { ...page, next_cursor: paging.cursorAfter([last]) }
}

/** A search for an amended address finds that order without the other orders of its customer. */
function orderOwnersIn(
  { user_id }: Static<typeof OrderSearch>,
  buyers: Buyers | null,
): Pick<OrderPageQuery<AdminOrder>, 'owners' | 'others'> | null {
  const owners = user_id === undefined ? undefined : orderOwnersOf(user_id)
  if (buyers === null) return owners === undefined ? null : { owners }
  const { email, userIds } = buyers
  const isOfOwners = owners === undefined ? sql`true` : sql`user_id in (${owners})`
  return {
    owners: sql`select user_id from unnest(${userIds}::uuid[]) as buyers (user_id) where ${isOfOwners}`,
    others: sql`email = ${email} and user_id <> all(${userIds}::uuid[]) and ${isOfOwners}`,
  }
}
