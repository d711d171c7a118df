import { Type } from 'typebox'
import type { Pool } from '../db/pool.ts'
import { allOf, prepared, type Sql, sql } from '../db/sql.ts'
import { DEFAULT_LIMIT, decodeCursor, encodeCursor, invalidCursor, Limit, type Page } from '../http/pagination.ts'
import type { Order } from './order.ts'
import { ORDER_COLUMNS, type OrderRow, toOrder } from './orders.ts'

/** A page ends with the order that brings it to this number of lines. An order has at most 1,000. See decision 0117. */
export const PAGE_LINES = 2_000

export const OrderLimit = Type.Integer({
  ...Limit,
  description: 'Orders on a page, at most. A page has fewer when they are large: continue while `has_more` is true.',
})

/** Where a page by time ends, and where one by number ended in releases before: when its last order was placed, and that order's id. */
const TimePosition = Type.Tuple([
  Type.Integer({ minimum: 0, maximum: 8_640_000_000_000, description: 'Milliseconds since 1970.' }),
  Type.String({ format: 'uuid' }),
])
/** Where a page by number ends: the number of its last order. */
const NumberPosition = Type.Tuple([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })])
const AnyPosition = Type.Union([NumberPosition, TimePosition])

/** Orders get ascending numbers, whatever the clock does: see decision 0151. */
export type OrderSort = 'number' | 'time'

const DIRECTIONS = { number: sql`number desc`, time: sql`created_at desc, id desc` } as const

export interface OrderPageQuery<T> {
  /** What a cursor is for: the list and its filters. */
  scope: readonly unknown[]
  /** A query of `user_id`s whose orders alone are listed; everybody's unless given. */
  buyers?: Sql
  conditions: readonly Sql[]
  sort: OrderSort
  limit?: number
  cursor?: string
  present: (order: Order) => T
  /** Names the prepared statement of this set of conditions, with or without cursor. */
  statementName?: string
}

/** A page of the orders that meet the conditions, newest first, bounded by orders and by lines. Throws `invalid_cursor`. */
export async function readOrderPage<T>(pool: Pool, query: OrderPageQuery<T>): Promise<Page<T>> {
  const { scope, sort, limit = DEFAULT_LIMIT, cursor, present, statementName } = query
  const conditions = [...query.conditions]
  if (cursor !== undefined) {
    conditions.push(sort === 'number' ? await behindNumber(pool, query, cursor) : behindTime(scope, cursor))
  }
  const statement = selectPage(query.buyers, conditions, sort, limit + 1)
  const { rows } = await pool.query<OrderRow>(statementName === undefined ? statement : prepared(statement, statementName))
  const shown = rows.slice(0, Math.min(limit, countWithin(rows, PAGE_LINES)))
  const last = shown.at(-1)
  const isFollowed = rows.length > shown.length && last !== undefined
  const nextCursor = isFollowed ? encodeCursor(scope, sort === 'number' ? [last.number] : [last.created_at.getTime(), last.id]) : null
  return { data: shown.map((row) => present(toOrder(row))), has_more: nextCursor !== null, next_cursor: nextCursor }
}

/** Of each buyer as many as the page may have, read from an index that ends in the sort key; then the newest of them. */
function selectPage(buyers: Sql | undefined, conditions: readonly Sql[], sort: OrderSort, rows: number): Sql {
  const newest = sql`order by ${DIRECTIONS[sort]} limit ${rows}`
  if (buyers === undefined) return sql`select ${ORDER_COLUMNS} from orders where ${allOf(conditions)} ${newest}`
  return sql`select ${ORDER_COLUMNS}
    from (${buyers}) as buyer (buyer_id)
    cross join lateral (
      select ${ORDER_COLUMNS} from orders where ${allOf([sql`user_id = buyer_id`, ...conditions])} ${newest}
    ) as newest
    ${newest}`
}

function behindTime(scope: readonly unknown[], cursor: string): Sql {
  const [createdAtMs, id] = decodeCursor(scope, cursor, TimePosition)
  return sql`(created_at, id) < (${new Date(createdAtMs)}::timestamptz, ${id}::uuid)`
}

async function behindNumber(
  pool: Pool,
  { scope, buyers, conditions }: Pick<OrderPageQuery<unknown>, 'scope' | 'buyers' | 'conditions'>,
  cursor: string,
): Promise<Sql> {
  const position = decodeCursor(scope, cursor, AnyPosition)
  const number =
    position.length === 1
      ? position[0]
      : await findNumber(pool, buyers === undefined ? conditions : [sql`user_id in (${buyers})`, ...conditions], position[1])
  if (number === null) throw invalidCursor()
  return sql`number < ${number}::bigint`
}

/** Only among the orders of the list: a forged cursor must not reveal the orders of other customers. */
async function findNumber(pool: Pool, conditions: readonly Sql[], orderId: string): Promise<number | null> {
  const { rows } = await pool.query<{ number: number }>(
    sql`select number from orders where ${allOf([sql`id = ${orderId}`, ...conditions])}`,
  )
  return rows[0]?.number ?? null
}

/** The number of leading orders, up to and including the one with which they reach `maxLines` lines. */
function countWithin(orders: readonly { items: unknown }[], maxLines: number): number {
  let lines = 0
  const index = orders.findIndex(({ items }) => {
    lines += Array.isArray(items) ? Math.max(1, items.length) : 1
    return lines >= maxLines
  })
  return index === -1 ? orders.length : index + 1
}
