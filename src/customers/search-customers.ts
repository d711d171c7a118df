import { type Static, Type } from 'typebox'
import { canonicalEmail } from '../auth/email-address.ts'
import type { Pool } from '../db/pool.ts'
import { allOf, type Sql, sql } from '../db/sql.ts'
import { notFound } from '../errors.ts'
import { DEFAULT_LIMIT, decodeCursor, EmailFilter, encodeCursor, IdPosition, Limit, type Page, type PageQuery } from '../http/pagination.ts'
import { OrderNumber } from '../orders/order.ts'
import { type Customer, readCustomers } from './customers.ts'

export const CustomerLimit = Type.Integer({ ...Limit, maximum: 50 })
export const CustomerSearch = Type.Object({
  email: Type.Optional(EmailFilter('The beginning of the address.')),
  id: Type.Optional(Type.String({ format: 'uuid' })),
  number: Type.Optional(OrderNumber('Only the customer of the order with this number.')),
})

const EmailPosition = Type.Tuple([Type.String({ maxLength: 400 }), Type.String({ format: 'uuid' })])
/** Sorts behind every text that begins with what precedes it. */
const LAST_CHARACTER = '\u{10ffff}'

/** A page of customers and guests, by address when it is searched, otherwise newest first. Throws `invalid_cursor`. */
export async function searchCustomers(pool: Pool, search: Static<typeof CustomerSearch> & PageQuery): Promise<Page<Customer>> {
  const { limit = DEFAULT_LIMIT, cursor, ...filters } = search
  const prefix = filters.email === undefined ? null : canonicalEmail(filters.email)
  const scope = ['customers', prefix, filters.id ?? null, filters.number ?? null]
  const conditions: Sql[] = [sql`role in ('customer', 'guest')`]
  if (filters.id !== undefined) conditions.push(sql`id = ${filters.id}`)
  if (filters.number !== undefined) conditions.push(sql`id = (${buyerOfOrder(filters.number)})`)
  if (prefix !== null) conditions.push(sql`email collate "C" >= ${prefix} and email collate "C" < ${prefix + LAST_CHARACTER}`)
  if (cursor !== undefined) conditions.push(prefix === null ? behindId(scope, cursor) : behindEmail(scope, cursor))
  const order = prefix === null ? sql`id desc` : sql`email collate "C", id`
  const page = sql`select id from users where ${allOf(conditions)} order by ${order} limit ${limit + 1}`
  const found = await readCustomers(pool, page, prefix === null ? sql`customer.id desc` : sql`customer.email collate "C", customer.id`)
  const data = found.slice(0, limit)
  const last = data.at(-1)
  const isFollowed = found.length > limit && last !== undefined
  const next = isFollowed ? encodeCursor(scope, prefix === null ? [last.id] : [last.email, last.id]) : null
  return { data, has_more: isFollowed, next_cursor: next }
}

/** One customer or guest. Throws `not_found`, also for an operator. */
export async function getCustomer(pool: Pool, id: string): Promise<Customer> {
  const [customer] = await readCustomers(
    pool,
    sql`select id from users where id = ${id} and role in ('customer', 'guest')`,
    sql`customer.id`,
  )
  if (customer === undefined) throw notFound('customer')
  return customer
}

/** The account that has the order; for a guest's order the account that has taken it over. */
function buyerOfOrder(number: string): Sql {
  return sql`select coalesce(buyer.owner_id, buyer.id)
    from orders
    join users as buyer on buyer.id = orders.user_id
    where orders.number = ${number}::bigint`
}

function behindId(scope: readonly unknown[], cursor: string): Sql {
  const [id] = decodeCursor(scope, cursor, IdPosition)
  return sql`id < ${id}::uuid`
}

function behindEmail(scope: readonly unknown[], cursor: string): Sql {
  const [email, id] = decodeCursor(scope, cursor, EmailPosition)
  return sql`(email collate "C", id) > (${email}, ${id}::uuid)`
}
