import { type Static, Type } from 'typebox'
import { canonicalEmail } from '../auth/email-address.ts'
import type { Pool } from '../db/pool.ts'
import { allOf, type Sql, sql } from '../db/sql.ts'
import { notFound } from '../errors.ts'
import { EmailFilter, IdPosition, Limit, type Page, type Paging } from '../http/pagination.ts'
import { OrderNumber } from '../orders/order.ts'
import { type Customer, readCustomers } from './customers.ts'

export const CustomerLimit = Type.Integer({ ...Limit, maximum: 50 })
export const CustomerSearch = Type.Object({
  email: Type.Optional(EmailFilter('The beginning of the address.')),
  id: Type.Optional(Type.String({ format: 'uuid' })),
  number: Type.Optional(OrderNumber('Only the customer of the order with this number.')),
})

/** The id, or the address and the id. */
export const CustomerPosition = Type.Union([IdPosition, Type.Tuple([Type.String({ maxLength: 400 }), Type.String({ format: 'uuid' })])])
/** Sorts behind every text that begins with what precedes it. */
const LAST_CHARACTER = '\u{10ffff}'

/** A page of customers and guests, by address when it is searched, otherwise newest first. */
export async function searchCustomers(
  pool: Pool,
  filters: Static<typeof CustomerSearch>,
  { limit, after, page }: Paging<Static<typeof CustomerPosition>>,
): Promise<Page<Customer>> {
  const prefix = filters.email === undefined ? null : canonicalEmail(filters.email)
  const conditions: Sql[] = [sql`role in ('customer', 'guest')`]
  if (filters.id !== undefined) conditions.push(sql`id = ${filters.id}`)
  if (filters.number !== undefined) conditions.push(sql`id = (${buyerOfOrder(filters.number)})`)
  if (prefix !== null) conditions.push(sql`email collate "C" >= ${prefix} and email collate "C" < ${prefix + LAST_CHARACTER}`)
  if (after?.length === 1) conditions.push(sql`id < ${after[0]}::uuid`)
  if (after?.length === 2) conditions.push(sql`(email collate "C", id) > (${after[0]}, ${after[1]}::uuid)`)
  const order = prefix === null ? sql`id desc` : sql`email collate "C", id`
  const found = sql`select id from users where ${allOf(conditions)} order by ${order} limit ${limit + 1}`
  const customers = await readCustomers(pool, found, prefix === null ? sql`customer.id desc` : sql`customer.email collate "C", customer.id`)
  return page(
    customers,
    (customer) => customer,
    ({ id, email }) => (prefix === null ? [id] : [email, id]),
  )
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
