import { type Static, Type } from 'typebox'
import type { Pool } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { Cursor, DEFAULT_LIMIT, decodeCursor, encodeCursor, Limit, type Page, toPage } from '../http/pagination.ts'
import { type Order, OrderSchema, OrderStatusSchema, presentOrder } from './order.ts'
import { ORDER_COLUMNS, type OrderRow, Position, toOrder } from './orders.ts'

const Instant = (description: string) => Type.Optional(Type.String({ format: 'date-time', maxLength: 40, description }))

export const OrderSearch = Type.Object(
  {
    limit: Type.Optional(Limit),
    cursor: Type.Optional(Cursor),
    status: Type.Optional(OrderStatusSchema),
    user_id: Type.Optional(Type.String({ format: 'uuid' })),
    number: Type.Optional(Type.String({ pattern: '^[0-9]{1,18}$' })),
    email: Type.Optional(Type.String({ minLength: 3, maxLength: 254, description: 'Of an account that exists.' })),
    product_id: Type.Optional(Type.String({ format: 'uuid', description: 'Orders with a line of this product.' })),
    from: Instant('Placed then or later. RFC 3339.'),
    to: Instant('Placed before. RFC 3339.'),
  },
  { additionalProperties: false },
)

/** An order as operators see it. */
export const AdminOrderSchema = Type.Object({ ...OrderSchema.properties, user_id: Type.String({ format: 'uuid' }) })
export type AdminOrder = Static<typeof AdminOrderSchema>

export function presentForAdmin(order: Order): AdminOrder {
  return { ...presentOrder(order), user_id: order.userId }
}

/** The id of the account with an e-mail address, null for none. */
export type FindUserId = (email: string) => Promise<string | null>

/** A page of everybody's orders that match, newest first. Throws `invalid_cursor` or `invalid_query`. */
export async function searchOrders(pool: Pool, findUserId: FindUserId, search: Static<typeof OrderSearch>): Promise<Page<AdminOrder>> {
  const { limit = DEFAULT_LIMIT, cursor, ...filters } = search
  const scope = ['admin orders', ...Object.entries(filters).sort(([a], [b]) => (a < b ? -1 : 1))]
  const conditions: string[] = []
  const values: unknown[] = [limit + 1]
  const where = (condition: (parameter: string) => string, value: unknown) => conditions.push(condition(`$${values.push(value)}`))

  if (filters.status !== undefined) where((it) => `status = ${it}`, filters.status)
  if (filters.number !== undefined) where((it) => `number = ${it}::bigint`, filters.number)
  if (filters.user_id !== undefined) where((it) => `user_id = ${it}::uuid`, filters.user_id)
  if (filters.email !== undefined) where((it) => `user_id = ${it}::uuid`, await findUserId(filters.email))
  if (filters.product_id !== undefined) where((it) => `product_ids @> array[${it}::uuid]`, filters.product_id)
  if (filters.from !== undefined) where((it) => `created_at >= ${it}::timestamptz`, readInstant('from', filters.from))
  if (filters.to !== undefined) where((it) => `created_at < ${it}::timestamptz`, readInstant('to', filters.to))
  if (cursor !== undefined) {
    const [createdAtMs, id] = decodeCursor(scope, cursor, Position)
    const createdAt = `$${values.push(new Date(createdAtMs))}`
    where((it) => `(created_at, id) < (${createdAt}::timestamptz, ${it}::uuid)`, id)
  }
  const { rows } = await pool.query<OrderRow>(
    `select ${ORDER_COLUMNS}
    from orders
    ${conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`}
    order by created_at desc, id desc
    limit $1`,
    values,
  )
  return toPage(
    rows,
    limit,
    (row) => presentForAdmin(toOrder(row)),
    (row) => encodeCursor(scope, [row.created_at.getTime(), row.id]),
  )
}

/** The format allows a leap second, which is no time here. */
function readInstant(parameter: string, text: string): Date {
  const time = new Date(text)
  if (!Number.isNaN(time.getTime())) return time
  throw new AppError('invalid_query', 'A query parameter is not valid.', { errors: [{ parameter, detail: 'is not a time' }] })
}
