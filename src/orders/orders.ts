import { plainArray } from '../db/list-parameters.ts'
import type { Queryable, Transaction } from '../db/pool.ts'
import { type Sql, sql } from '../db/sql.ts'
import { notFound } from '../errors.ts'
import { joinAttributes } from './line-attributes.ts'
import { type Order, type OrderRow, stateOf } from './order.ts'
import { selectList } from './order-column-sql.ts'
import { toGiven } from './order-columns.ts'

const COLUMNS = selectList()

export function toOrder(row: OrderRow): Order {
  return {
    id: row.id,
    number: String(row.number),
    userId: row.user_id,
    status: row.status,
    items: joinAttributes(row.items, row.item_attributes),
    total: { amount: row.total_amount, currency: row.currency },
    ...toGiven(row),
    email: row.email,
    formerValues: row.former_values,
    version: row.version,
    statusHistory: row.status_history,
    traceparent: row.traceparent,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

/** The user ids that own a customer's orders: the account and its guests. See docs/decisions/auth-guests.md. */
export function orderOwnersOf(userId: string): Sql {
  return sql`select ${userId}::uuid as user_id union all select id from users where owner_id = ${userId}`
}

/** Throws `not_found` for a missing order and for another customer's order. */
export async function getOrder(db: Queryable, userId: string, id: string): Promise<Order> {
  const { rows } = await db.query<OrderRow>(sql`select ${COLUMNS} from orders where id = ${id} and user_id in (${orderOwnersOf(userId)})`)
  if (rows[0] === undefined) throw notFound('order')
  return toOrder(rows[0])
}

export async function getAnyOrder(db: Queryable, id: string): Promise<Order> {
  const { rows } = await db.query<OrderRow>(sql`select ${COLUMNS} from orders where id = ${id}`)
  if (rows[0] === undefined) throw notFound('order')
  return toOrder(rows[0])
}

/** Locks the rows in id order until the transaction ends. */
export async function findOrdersForUpdate(tx: Transaction, ids: readonly string[]): Promise<Map<string, Order>> {
  const { rows } = await tx.query<OrderRow>(sql`select ${COLUMNS} from orders where id = any(${ids}::uuid[]) order by id for update`)
  return new Map(rows.map((row) => [row.id, toOrder(row)]))
}

/** Call `findOrdersForUpdate` first, in the same transaction. The database chooses the version after a restore. */
export async function updateOrderStatuses(tx: Transaction, orders: readonly Order[]): Promise<Order[]> {
  if (orders.length === 0) return []
  const { rows } = await tx.query<Pick<OrderRow, 'id' | 'version' | 'status_history'>>(
    `update orders
    set status = moved.status, version = moved.version, status_history = moved.status_history, traceparent = moved.traceparent,
      updated_at = moved.updated_at, shipping_address = coalesce(moved.shipping_address, orders.shipping_address),
      billing_address = case when moved.is_amended then moved.billing_address else orders.billing_address end,
      vat_number = case when moved.is_amended then moved.vat_number else orders.vat_number end,
      email = case when moved.is_amended then moved.email else orders.email end, former_values = coalesce(moved.former_values, orders.former_values),
      product_ids = coalesce(moved.product_ids::uuid[], orders.product_ids)
    from unnest($1::uuid[], $2::text[], $3::integer[], $4::jsonb[], $5::text[], $6::timestamptz[], $7::jsonb[], $8::text[], $9::jsonb[], $10::boolean[], $11::text[],
      $12::jsonb[], $13::text[])
      as moved (id, status, version, status_history, traceparent, updated_at, shipping_address, email, former_values, is_amended, product_ids,
        billing_address, vat_number)
    where orders.id = moved.id
    returning orders.id, orders.version, orders.status_history`,
    [
      orders.map((order) => order.id),
      orders.map((order) => order.status),
      orders.map((order) => order.version),
      orders.map((order) => JSON.stringify(order.statusHistory)),
      orders.map((order) => order.traceparent),
      orders.map((order) => order.updatedAt),
      // Other changes keep these columns.
      orders.map((order) => ifAmended(order, toJson(order.shippingAddress))),
      orders.map((order) => ifAmended(order, order.email)),
      orders.map((order) => ifAmended(order, toJson(order.formerValues))),
      orders.map((order) => ifAmended(order, true) ?? false),
      orders.map((order) => ifAmended(order, plainArray([...new Set(stateOf(order).items.map((item) => item.product_id))]))),
      orders.map((order) => ifAmended(order, toJson(order.billingAddress))),
      orders.map((order) => ifAmended(order, order.vatNumber)),
    ],
  )
  const written = new Map(rows.map((row) => [row.id, row]))
  return orders.map((order) => {
    const { version, status_history: statusHistory } = written.get(order.id) ?? {}
    return version === undefined || statusHistory === undefined ? order : { ...order, version, statusHistory }
  })
}

function ifAmended<T>({ statusHistory }: Order, value: T): T | null {
  return statusHistory.at(-1)?.change?.type === 'amended' ? value : null
}

function toJson(value: object | null): string | null {
  return value === null ? null : JSON.stringify(value)
}
