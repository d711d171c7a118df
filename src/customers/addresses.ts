import { randomUUIDv7 } from 'node:crypto'
import { type Static, Type } from 'typebox'
import type { Pool, Queryable, Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { inTransaction } from '../db/transaction.ts'
import { AppError, notFound } from '../errors.ts'
import { assertDeliverable, type ShippingAddress, ShippingAddressSchema } from '../orders/postal-address.ts'
import { EXAMPLE_ADDRESS } from './examples.ts'

export const MAX_ADDRESSES = 50

export const AddressSchema = Type.Object(
  {
    id: Type.String({ format: 'uuid' }),
    address: ShippingAddressSchema,
    is_default: Type.Boolean({ description: 'Whether this is the default address. An account has at most one.' }),
    created_at: Type.String({ format: 'date-time' }),
  },
  { title: 'CustomerAddress', examples: [EXAMPLE_ADDRESS] },
)
export type CustomerAddress = Static<typeof AddressSchema>

interface AddressRow {
  id: string
  address: ShippingAddress
  is_default: boolean
  created_at: Date
}

const COLUMNS = sql`id, address, is_default, created_at`

/** All addresses of an account, oldest first. */
export async function listAddresses(db: Queryable, userId: string): Promise<CustomerAddress[]> {
  const { rows } = await db.query<AddressRow>(sql`select ${COLUMNS} from customer_addresses where user_id = ${userId} order by id`)
  return rows.map(present)
}

/** Throws `too_many_addresses`, or `invalid_body` for an address that lacks parts which its country needs. */
export async function addAddress(
  pool: Pool,
  userId: string,
  { address, isDefault }: { address: ShippingAddress; isDefault: boolean },
): Promise<CustomerAddress> {
  assertDeliverable(address, '#/address')
  return inTransaction(pool, async (tx) => {
    await lockAddresses(tx, userId)
    const { rows: counted } = await tx.query<{ count: number }>(
      sql`select count(*)::int as count from customer_addresses where user_id = ${userId}`,
    )
    if ((counted[0]?.count ?? 0) >= MAX_ADDRESSES) {
      throw new AppError('too_many_addresses', `You have ${MAX_ADDRESSES} addresses. Delete one first.`, {
        members: { limit: MAX_ADDRESSES },
      })
    }
    if (isDefault) await clearDefault(tx, userId)
    const { rows } = await tx.query<AddressRow>(
      sql`insert into customer_addresses (id, user_id, address, is_default)
      values (${randomUUIDv7()}, ${userId}, ${JSON.stringify(address)}::jsonb, ${isDefault})
      returning ${COLUMNS}`,
    )
    return first(rows)
  })
}

/** Changes the given properties. Throws `not_found`, or `invalid_body` when the country needs more parts. */
export async function changeAddress(
  pool: Pool,
  userId: string,
  id: string,
  { address, isDefault }: { address?: ShippingAddress | undefined; isDefault?: boolean | undefined },
): Promise<CustomerAddress> {
  assertDeliverable(address, '#/address')
  return inTransaction(pool, async (tx) => {
    await lockAddresses(tx, userId)
    if (isDefault === true) await clearDefault(tx, userId)
    const { rows } = await tx.query<AddressRow>(
      sql`update customer_addresses
      set address = coalesce(${address === undefined ? null : JSON.stringify(address)}::jsonb, address),
        is_default = coalesce(${isDefault ?? null}::boolean, is_default)
      where id = ${id} and user_id = ${userId}
      returning ${COLUMNS}`,
    )
    return first(rows)
  })
}

/** Throws `not_found`. */
export async function deleteAddress(db: Queryable, userId: string, id: string): Promise<void> {
  const { rowCount } = await db.query(sql`delete from customer_addresses where id = ${id} and user_id = ${userId}`)
  if (rowCount === 0) throw notFound('address')
}

// Changes to an account's addresses run one after the other, because limit and default depend on the other addresses.
// Throws `not_found`.
async function lockAddresses(tx: Transaction, userId: string): Promise<void> {
  const { rowCount } = await tx.query(sql`select from users where id = ${userId} for no key update`)
  if (rowCount === 0) throw notFound('account')
}

async function clearDefault(tx: Transaction, userId: string): Promise<void> {
  await tx.query(sql`update customer_addresses set is_default = false where user_id = ${userId} and is_default`)
}

function first(rows: readonly AddressRow[]): CustomerAddress {
  const [row] = rows
  if (row === undefined) throw notFound('address')
  return present(row)
}

function present({ created_at, ...row }: AddressRow): CustomerAddress {
  return { ...row, created_at: created_at.toISOString() }
}
