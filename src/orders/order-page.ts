import { type Static, Type } from 'typebox'
import type { Pool } from '../db/pool.ts'
import { allOf, identifier, limitTo, prepared, type Sql, sql } from '../db/sql.ts'
import { Limit, type PageText, type Paging } from '../http/pagination.ts'
import type { Order, OrderRow } from './order.ts'
import { selectList } from './order-column-sql.ts'
import { toOrder } from './orders.ts'

/** A page ends with the order that reaches this JSON size. See docs/decisions/orders-lists.md. */
export const PAGE_BYTES = 1_048_576
/** Stored, compressed size above which lines and histories are read separately. */
const LARGE_BYTES = 8_192
const LARGE_AT_ONCE_BYTES = 262_144

export const OrderLimit = Type.Integer({
  ...Limit,
  description: 'The maximum number of orders on a page. A page has fewer if they are large: continue while `has_more` is true.',
})

const TimePosition = Type.Tuple([
  Type.Integer({ minimum: 0, maximum: 8_640_000_000_000, description: 'Milliseconds since 1970.' }),
  Type.String({ format: 'uuid' }),
])
export const NumberPosition = Type.Tuple([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })])
export const OrderPosition = Type.Union([NumberPosition, TimePosition])

/** Order numbers ascend even if the clock goes back. See docs/decisions/orders-lists.md#by-number. */
export type OrderSort = 'number' | 'time'

const DIRECTIONS = { number: sql`number desc`, time: sql`created_at desc, id desc` } as const

export interface OrderPageQuery<T> {
  paging: Paging<Static<typeof OrderPosition>>
  /** A query that selects `user_id`s. Absent for all owners. */
  owners?: Sql
  /** A condition that an index serves. Its orders are listed together with the orders of `owners`. */
  others?: Sql
  conditions: readonly Sql[]
  sort: OrderSort
  present: (order: Order) => T
  statementName?: string
}

export interface OrderPage {
  orders: string[]
  next_cursor: string | null
}

export function pageText({ orders, next_cursor }: OrderPage): PageText {
  const text = `{"data":[${orders.join(',')}],"has_more":${next_cursor !== null},"next_cursor":${JSON.stringify(next_cursor)}}`
  return { text, next_cursor }
}

/** A page of the matching orders, newest first, bounded by orders and by bytes. */
export async function readOrderPage<T>(pool: Pool, query: OrderPageQuery<T>): Promise<OrderPage> {
  const { sort, present, statementName } = query
  const { limit, after, cursorAfter } = query.paging
  const conditions = [...query.conditions, ...(after === undefined ? [] : [behind(after)])]
  const statement = selectPage(query, conditions, limit + 1)
  const { rows } = await pool.query<PageRow>(statementName === undefined ? statement : prepared(statement, `${statementName} ${limit}`))
  const orders: string[] = []
  let sizeBytes = 0
  let next = 0
  for (let large = new Map<string, OrderRow>(); next < Math.min(limit, rows.length) && sizeBytes < PAGE_BYTES; next++) {
    const row = rows[next] as PageRow
    if (row.items === null && !large.has(row.id)) large = await readLarge(pool, conditions, rows.slice(next, limit))
    const whole = row.items === null ? large.get(row.id) : (row as OrderRow)
    if (whole === undefined) continue
    const text = JSON.stringify(present(toOrder(whole)))
    sizeBytes += Buffer.byteLength(text)
    orders.push(text)
  }
  const last = rows[next - 1]
  const isFollowed = rows.length > next && last !== undefined
  if (!isFollowed) return { orders, next_cursor: null }
  return { orders, next_cursor: cursorAfter(sort === 'number' ? [last.number] : [last.created_at.getTime(), last.id]) }
}

type PageRow = { stored_bytes: number } & Omit<OrderRow, 'items' | 'status_history'> &
  (Pick<OrderRow, 'items' | 'status_history'> | { items: null; status_history: null })

const unlessLarge = (value: Sql) => sql`case when stored_bytes <= ${LARGE_BYTES} then ${value} end`
const PAGE_COLUMNS = sql`stored_bytes, ${selectList((name) => {
  // Pages do not show former values.
  if (name === 'former_values') return sql`null::jsonb`
  return ['items', 'item_attributes', 'status_history'].includes(name) ? unlessLarge(identifier(name)) : undefined
})}`
const COLUMNS = selectList()
const SIZED_COLUMNS = sql`${COLUMNS}, pg_column_size(items) + coalesce(pg_column_size(item_attributes), 0) + pg_column_size(status_history)
  as stored_bytes`

/** Returns at least one order, in its current state. Orders that no longer match are left out. */
async function readLarge(pool: Pool, conditions: readonly Sql[], rows: readonly PageRow[]): Promise<Map<string, OrderRow>> {
  const ids: string[] = []
  let storedBytes = 0
  for (const { id, items, stored_bytes } of rows) {
    if (items !== null) continue
    storedBytes += stored_bytes
    if (ids.length > 0 && storedBytes > LARGE_AT_ONCE_BYTES) break
    ids.push(id)
  }
  const { rows: large } = await pool.query<OrderRow>(
    sql`select ${COLUMNS} from orders where ${allOf([sql`id = any(${ids}::uuid[])`, ...conditions])}`,
  )
  return new Map(large.map((row) => [row.id, row]))
}

/** Reads one page per owner and one of `others` from an index that ends in the sort key. Keeps the newest. */
function selectPage(
  { owners, others, sort }: Pick<OrderPageQuery<unknown>, 'owners' | 'others' | 'sort'>,
  conditions: readonly Sql[],
  rows: number,
): Sql {
  const newest = sql`order by ${DIRECTIONS[sort]} ${limitTo(rows)}`
  const selectNewest = (all: readonly Sql[]) => sql`select ${SIZED_COLUMNS} from orders where ${allOf(all)} ${newest}`
  if (owners === undefined) return sql`select ${PAGE_COLUMNS} from (${selectNewest(conditions)}) as newest ${newest}`
  const ofOwners = sql`(${owners}) as buyer (buyer_id) cross join lateral (${selectNewest([sql`user_id = buyer_id`, ...conditions])}) as newest`
  if (others === undefined) return sql`select ${PAGE_COLUMNS} from ${ofOwners} ${newest}`
  return sql`select ${PAGE_COLUMNS}
    from (select newest.* from ${ofOwners} union all (${selectNewest([others, ...conditions])})) as newest
    ${newest}`
}

function behind([first, id]: readonly [number, string?]): Sql {
  if (id === undefined) return sql`number < ${first}::bigint`
  return sql`(created_at, id) < (${new Date(first)}::timestamptz, ${id}::uuid)`
}
