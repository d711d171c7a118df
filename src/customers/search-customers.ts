import { type Static, Type } from 'typebox'
import { canonicalEmail } from '../auth/email-address.ts'
import type { Pool } from '../db/pool.ts'
import { allOf, type Sql, sql } from '../db/sql.ts'
import { notFound } from '../errors.ts'
import { EmailFilter, IdPosition, Limit, type Page, type Paging } from '../http/pagination.ts'
import { findTexts } from '../orders/find-orders.ts'
import { OrderNumber } from '../orders/order.ts'
import { containing, readSearchText, SearchQuery, type SearchText } from '../orders/search-text.ts'
import { type Customer, readCustomers } from './customers.ts'
import { findPeople } from './find-people.ts'

export const CustomerLimit = Type.Integer({ ...Limit, maximum: 50 })
export const CustomerSearch = Type.Object({
  email: Type.Optional(EmailFilter('The beginning of the address.')),
  id: Type.Optional(Type.String({ format: 'uuid' })),
  role: Type.Optional(Type.Enum(['customer', 'guest'], { description: 'Only accounts, or only guests.' })),
  number: Type.Optional(OrderNumber('Only the customer who placed the order with this number.')),
  q: Type.Optional(
    SearchQuery(
      'Parts of the e-mail address or the name. With the scope `orders:read` it also searches the newest orders by number, name or phone of the recipient, postal code, ' +
        'references and tracking numbers. If nothing matches, it searches for names with typing errors.',
    ),
  ),
})

/** The last id of a page, or its address and id when the page is sorted by address. */
export const CustomerPosition = Type.Union([IdPosition, Type.Tuple([Type.String({ maxLength: 400 }), Type.String({ format: 'uuid' })])])
/** Sorts after every text with the same prefix. */
const LAST_CHARACTER = '\u{10ffff}'

/** Largest number of matching customers, and of matching orders, that one page examines. */
const EXAMINED = 500

/** A page of customers and guests, sorted by address if the search is only by address, and otherwise newest first. */
export async function searchCustomers(
  pool: Pool,
  filters: Static<typeof CustomerSearch>,
  { limit, after, page }: Paging<Static<typeof CustomerPosition>>,
  { mayReadOrders }: { mayReadOrders: boolean },
): Promise<Page<Customer>> {
  const prefix = filters.email === undefined ? null : canonicalEmail(filters.email)
  const isByAddress = prefix !== null && filters.q === undefined
  const filtering: Sql[] = []
  if (filters.id !== undefined) filtering.push(sql`id = ${filters.id}`)
  if (filters.role !== undefined) filtering.push(sql`role = ${filters.role}`)
  if (filters.number !== undefined) filtering.push(sql`id = (${buyerOfOrder(filters.number)})`)
  if (prefix !== null) filtering.push(sql`email collate "C" >= ${prefix} and email collate "C" < ${prefix + LAST_CHARACTER}`)
  const conditions: Sql[] = [sql`role in ('customer', 'guest')`, ...filtering]
  if (after?.length === 1) conditions.push(sql`id < ${after[0]}::uuid`)
  if (after?.length === 2) conditions.push(sql`(email collate "C", id) > (${after[0]}, ${after[1]}::uuid)`)
  if (filters.q !== undefined) {
    const ids = await findIds(
      pool,
      await readSearchText(pool, filters.q),
      mayReadOrders,
      filtering,
      (after?.length === 1 && after[0]) || null,
    )
    conditions.push(sql`id = any(${ids}::uuid[])`)
  }
  const order = isByAddress ? sql`email collate "C", id` : sql`id desc`
  const found = sql`select id from users where ${allOf(conditions)} order by ${order} limit ${limit + 1}`
  const customers = await readCustomers(pool, found, isByAddress ? sql`customer.email collate "C", customer.id` : sql`customer.id desc`)
  return page(
    customers,
    (customer) => customer,
    ({ id, email }) => (isByAddress ? [email, id] : [id]),
  )
}

/**
 * The newest accounts below an id that match or whose orders match. If there are none, the accounts with similar names.
 */
async function findIds(
  pool: Pool,
  text: SearchText,
  mayReadOrders: boolean,
  conditions: readonly Sql[],
  before: string | null,
): Promise<string[]> {
  const owners = mayReadOrders ? await findOwners(pool, text) : []
  const behind = before === null ? conditions : [...conditions, sql`id < ${before}::uuid`]
  for (const isResembling of [false, true]) {
    const people = text.q.startsWith('#') ? [] : await findPeople(pool, text, { isResembling, most: EXAMINED, conditions: behind })
    if (people.length + owners.length > 0) return [...people, ...owners]
    if (before !== null && (await findPeople(pool, text, { isResembling, most: 1, conditions })).length > 0) return []
  }
  return []
}

async function findOwners(pool: Pool, text: SearchText): Promise<string[]> {
  const match = text.q.startsWith('#') ? null : containing(text)(sql`words`)
  const numbers: (number | string)[] = await findTexts(pool, match, { before: Number.MAX_SAFE_INTEGER, most: EXAMINED })
  if (text.number !== null) numbers.push(text.number)
  const { rows } = await pool.query<{ user_id: string }>(sql`select distinct user_id from orders where number = any(${numbers}::bigint[])`)
  return rows.map((row) => row.user_id)
}

/** One customer or guest. Throws `not_found` for an unknown id and for an operator's id. */
export async function getCustomer(pool: Pool, id: string): Promise<Customer> {
  const [customer] = await readCustomers(
    pool,
    sql`select id from users where id = ${id} and role in ('customer', 'guest')`,
    sql`customer.id`,
  )
  if (customer === undefined) throw notFound('customer')
  return customer
}

/** The account that owns the order. A guest's order belongs to the account that owns the guest, if any. */
function buyerOfOrder(number: string): Sql {
  return sql`select coalesce(buyer.owner_id, buyer.id)
    from orders
    join users as buyer on buyer.id = orders.user_id
    where orders.number = ${number}::bigint`
}
