import { translateConstraint } from '../../db/constraints.ts'
import { plainArray, textRows, uuidArray } from '../../db/list-parameters.ts'
import type { Transaction } from '../../db/pool.ts'
import { prepared, sql } from '../../db/sql.ts'
import { IS_IN_TRANSACTION } from '../../db/transaction.ts'
import type { Order } from '../order.ts'

/** Text that is the same for the same `client_reference` of the same customer, and for nothing else. */
export function nameOfReference(userId: string, clientReference: string): string {
  return `reference ${userId} ${clientReference}`
}

/** Ids of the orders that have these references already, by `nameOfReference`. The caller holds the locks of the references. */
export async function findOrdersByReference(
  tx: Transaction,
  requests: readonly { userId: string; clientReference: string | null }[],
): Promise<Map<string, string>> {
  const wanted = requests.filter((request) => request.clientReference !== null)
  if (wanted.length === 0) return new Map()
  const { rows } = await tx.query<{ id: string; user_id: string; client_reference: string }>({
    name: 'find_orders_by_reference',
    text: `select present.id, wanted.user_id, wanted.client_reference
    from unnest($1::uuid[], $2::text[]) as wanted (user_id, client_reference)
    cross join lateral (
      select id from orders where user_id = wanted.user_id and client_reference = wanted.client_reference limit 1
    ) as present`,
    values: [wanted.map(({ userId }) => userId), wanted.map(({ clientReference }) => clientReference)],
  })
  return new Map(rows.map((row) => [nameOfReference(row.user_id, row.client_reference), row.id]))
}

/**
 * Stores new orders, all placed at the same time, in a pipelined transaction. Returns the numbers that they were given, by id, ascending in
 * the order of the drafts. Throws `client_reference_taken`.
 */
export function insertOrders(tx: Transaction, drafts: readonly { order: Order; itemsJson: string }[]): Promise<Map<string, string>> {
  const orders = drafts.map(({ order }) => order)
  const [first] = orders
  if (first === undefined) return Promise.resolve(new Map())
  const statement = sql`insert into orders (id, user_id, status, items, product_ids, total_amount, currency, client_reference,
      shipping_address, note, version, status_history, traceparent, created_at, updated_at)
    select id, user_id, ${first.status}, items::json, string_to_array(product_ids, ',')::uuid[], total_amount, currency, client_reference,
      shipping_address, note, ${first.version}, status_history::jsonb, traceparent, ${first.createdAt}, ${first.createdAt}
    from rows from (
        unnest(${uuidArray(orders.map((order) => order.id))}::uuid[]),
        unnest(${uuidArray(orders.map((order) => order.userId))}::uuid[]),
        ${textRows(drafts.map(({ itemsJson }) => itemsJson))},
        unnest(${plainArray(orders.map((order) => order.total.amount))}::bigint[]),
        unnest(${orders.map((order) => order.total.currency)}::text[]),
        unnest(${orders.map((order) => order.clientReference)}::text[]),
        unnest(${orders.map((order) => (order.shippingAddress === null ? null : JSON.stringify(order.shippingAddress)))}::jsonb[]),
        unnest(${orders.map((order) => order.note)}::text[]),
        unnest(${orders.map((order) => order.traceparent)}::text[]),
        ${textRows(orders.map((order) => JSON.stringify(order.statusHistory)))},
        ${textRows(orders.map((order) => order.items.map((item) => item.product_id).join(',')))})
      as placed (id, user_id, items, total_amount, currency, client_reference, shipping_address, note, traceparent,
        status_history, product_ids)
    where ${IS_IN_TRANSACTION}
    returning id, number`
  const inserted = tx.query<{ id: string; number: number }>(prepared(statement, 'insert_orders'))
  return inserted.then(
    ({ rows }) => new Map(rows.map(({ id, number }) => [id, String(number)])),
    (error) => {
      throw translateConstraint(error)
    },
  )
}
