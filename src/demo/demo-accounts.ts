import { randomBytes, randomUUIDv7 } from 'node:crypto'
import { auditContextOfCommand } from '../activity/record-activity.ts'
import { createAdmin } from '../auth/create-admin.ts'
import { Passwords } from '../auth/passwords/password.ts'
import { findUserByEmail, insertUser } from '../auth/users.ts'
import type { Pool } from '../db/pool.ts'
import { OperatorError } from '../errors.ts'
import type { ShippingAddress } from '../orders/postal-address.ts'

// Addresses below `.example` do not exist (RFC 2606), so no demo mail reaches a person.
const DOMAIN = 'demo-customers.example'
// The addresses for documents, which no customer has: https://www.rfc-editor.org/rfc/rfc2606
const EXAMPLE_ADDRESS = '[@.](example|example[.](com|net|org)|test|invalid|localhost)$'
const OPERATOR = `operator@${DOMAIN}`
const FIRST_NAMES = ['Ada', 'Ben', 'Chiara', 'David', 'Elif', 'Fatima', 'Greta', 'Hugo', 'Ines', 'Jonas']
const LAST_NAMES = ['Keller', 'Lindqvist', 'Moreau', 'Novak', 'Okafor', 'Petrov', 'Rossi', 'Silva']
const PLACES = [
  { city: 'Wien', postal_code: '1070', country: 'AT' },
  { city: 'Hamburg', postal_code: '20357', country: 'DE' },
  { city: 'Lyon', postal_code: '69002', country: 'FR' },
  { city: 'Bologna', postal_code: '40126', country: 'IT' },
  { city: 'Utrecht', postal_code: '3511', country: 'NL' },
]

export interface DemoCustomer {
  userId: string
  address: ShippingAddress
}

export interface DemoAccounts {
  customers: DemoCustomer[]
  operatorId: string
  /** The operator is null if the store had one. */
  newOperator: { email: string; password: string } | null
}

/**
 * Throws OperatorError if a customer has placed an order, even if the account is deleted. Addresses for examples are no
 * customers'.
 */
export async function assertNoForeignOrder(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ has_foreign_orders: boolean }>(
    `select exists (
      select
      from orders
      left join users on users.id = orders.user_id
      where users.email is null or users.email !~ $1
    ) as has_foreign_orders`,
    [EXAMPLE_ADDRESS],
  )
  if (rows[0]?.has_foreign_orders !== true) return
  throw new OperatorError(
    'this store has orders of customers: a demo would mix invented ones with them; set DATA_DIR to another folder, or give --force',
  )
}

/** The invented customers, and an operator. Missing ones are created as of `now`; nobody can log in as a customer. */
export async function openDemoAccounts(pool: Pool, now: Date): Promise<DemoAccounts> {
  const passwords = new Passwords({ threads: 1, maxWaiting: 0 })
  try {
    const unknownPassword = await passwords.hash(randomBytes(18).toString('base64url'))
    const customers: DemoCustomer[] = []
    for (const [index, name] of FIRST_NAMES.flatMap((first) => LAST_NAMES.map((last) => `${first} ${last}`)).entries()) {
      const email = `${name.toLowerCase().replace(' ', '.')}@${DOMAIN}`
      const found = await findUserByEmail(pool, email)
      const userId = found?.id ?? randomUUIDv7()
      if (found === null)
        await insertUser(pool, { id: userId, email, name, role: 'customer', language: null, created_at: now }, unknownPassword, now)
      const { city, postal_code, country } = PLACES[index % PLACES.length] ?? { city: 'Wien', postal_code: '1070', country: 'AT' }
      customers.push({ userId, address: { name, line1: `Gartenweg ${index + 1}`, city, postal_code, country } })
    }
    const { rows } = await pool.query<{ id: string }>("select id from users where role = 'admin' order by created_at limit 1")
    if (rows[0] !== undefined) return { customers, operatorId: rows[0].id, newOperator: null }
    const newOperator = { email: OPERATOR, password: randomBytes(18).toString('base64url') }
    const { id } = await createAdmin(pool, passwords, newOperator, auditContextOfCommand('demo'))
    return { customers, operatorId: id, newOperator }
  } finally {
    await passwords.stop()
  }
}
