import { type Static, Type } from 'typebox'
import { translateConstraint } from '../db/constraints.ts'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { notFound } from '../errors.ts'
import { Cursor, DEFAULT_LIMIT, decodeCursor, encodeCursor, Limit, type Page, toPage } from '../http/pagination.ts'
import { type Order, type OrderView, presentOrder } from './order.ts'
import { ORDER_STATUSES, type OrderStatus } from './order-status.ts'

interface OrderRow {
  id: string
  number: number
  user_id: string
  status: OrderStatus
  items: Order['items']
  total_amount: number
  currency: string
  client_reference: string | null
  shipping_address: Order['shippingAddress']
  note: string | null
  version: number
  status_history: Order['statusHistory']
  traceparent: string | null
  created_at: Date
  updated_at: Date
}

const COLUMNS = `id, number, user_id, status, items, total_amount, currency, client_reference, shipping_address, note, version,
  status_history, traceparent, created_at, updated_at`

function toOrder(row: OrderRow): Order {
  return {
    id: row.id,
    number: String(row.number),
    userId: row.user_id,
    status: row.status,
    items: row.items,
    total: { amount: row.total_amount, currency: row.currency },
    clientReference: row.client_reference,
    shippingAddress: row.shipping_address,
    note: row.note,
    version: row.version,
    statusHistory: row.status_history,
    traceparent: row.traceparent,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

export const OrderQuery = Type.Object(
  {
    limit: Type.Optional(Limit),
    cursor: Type.Optional(Cursor),
    status: Type.Optional(Type.Enum([...ORDER_STATUSES])),
  },
  { additionalProperties: false },
)

const Position = Type.Tuple([
  Type.Integer({ minimum: 0, maximum: 8_640_000_000_000, description: 'Milliseconds since 1970.' }),
  Type.String({ format: 'uuid' }),
])

/** A page of one customer's orders, newest first. Throws `invalid_cursor`. */
export async function listOrders(pool: Pool, userId: string, query: Static<typeof OrderQuery>): Promise<Page<OrderView>> {
  const { limit = DEFAULT_LIMIT, status, cursor } = query
  const scope = ['orders', userId, status ?? null]
  const values: unknown[] = [limit + 1, userId]
  const conditions = ['user_id = $2']
  const parameter = (value: unknown) => `$${values.push(value)}`

  if (status !== undefined) conditions.push(`status = ${parameter(status)}`)
  if (cursor !== undefined) {
    const [createdAtMs, id] = decodeCursor(scope, cursor, Position)
    conditions.push(`(created_at, id) < (${parameter(new Date(createdAtMs))}::timestamptz, ${parameter(id)}::uuid)`)
  }
  const { rows } = await pool.query<OrderRow>(
    `select ${COLUMNS}
    from orders
    where ${conditions.join(' and ')}
    order by created_at desc, id desc
    limit $1`,
    values,
  )
  return toPage(
    rows,
    limit,
    (row) => presentOrder(toOrder(row)),
    (row) => encodeCursor(scope, [row.created_at.getTime(), row.id]),
  )
}

/** Another customer's order is as unknown as one that does not exist. */
export async function getOrder(db: Queryable, userId: string, id: string): Promise<Order> {
  const { rows } = await db.query<OrderRow>(`select ${COLUMNS} from orders where id = $1 and user_id = $2`, [id, userId])
  if (rows[0] === undefined) throw notFound('order')
  return toOrder(rows[0])
}

/** The same, and nobody else changes it before this transaction ends. */
export async function getOrderForUpdate(tx: Transaction, userId: string, id: string): Promise<Order> {
  const { rows } = await tx.query<OrderRow>(`select ${COLUMNS} from orders where id = $1 and user_id = $2 for update`, [id, userId])
  if (rows[0] === undefined) throw notFound('order')
  return toOrder(rows[0])
}

/** Stores a new order, which gets its number here. */
export async function insertOrder(tx: Transaction, order: Omit<Order, 'number'>): Promise<Order> {
  try {
    const { rows } = await tx.query<{ number: number }>(
      `insert into orders (id, user_id, status, items, total_amount, currency, client_reference, shipping_address, note, version,
        status_history, traceparent, created_at, updated_at)
      values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
      returning number`,
      [
        order.id,
        order.userId,
        order.status,
        JSON.stringify(order.items),
        order.total.amount,
        order.total.currency,
        order.clientReference,
        order.shippingAddress,
        order.note,
        order.version,
        JSON.stringify(order.statusHistory),
        order.traceparent,
        order.createdAt,
        order.updatedAt,
      ],
    )
    return { ...order, number: String(rows[0]?.number) }
  } catch (error) {
    throw translateConstraint(error)
  }
}

/** Writes what a change of status changes. The order must have been read with `getOrderForUpdate` in the same transaction. */
export async function updateOrderStatus(tx: Transaction, order: Order): Promise<void> {
  await tx.query('update orders set status = $2, version = $3, status_history = $4, traceparent = $5, updated_at = $6 where id = $1', [
    order.id,
    order.status,
    order.version,
    JSON.stringify(order.statusHistory),
    order.traceparent,
    order.updatedAt,
  ])
}
