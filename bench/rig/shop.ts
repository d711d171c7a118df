import type { Pool } from '../../src/db/pool.ts'
import type { HttpLoad } from './http-load.ts'

/** Customers and products of a store, and the requests for their orders. */

export interface Account {
  userId: string
  token: string
}

export type Basket = { product_id: string; quantity: number }[]

const PRODUCTS = 2_000
const BASKETS = 200
export const PASSWORD = 'a long enough passphrase'

/** Registers customers over HTTP. */
export async function registerCustomers(port: number, count: number): Promise<Account[]> {
  const accounts: Account[] = []
  for (let i = 0; i < count; i++) accounts.push(await register(port, newCredentials()))
  return accounts
}

/** Registers an operator. */
export async function registerOperator(port: number, pool: Pool): Promise<Account> {
  const mine = newCredentials()
  const { userId } = await register(port, mine)
  await pool.query(`update users set role = 'admin' where id = $1`, [userId])
  return logIn(port, mine)
}

export function register(port: number, credentials: object): Promise<Account> {
  return send(port, '/auth/register', credentials)
}

export function logIn(port: number, credentials: object): Promise<Account> {
  return send(port, '/auth/login', credentials)
}

function newCredentials() {
  return { email: `${crypto.randomUUID()}@example.com`, password: PASSWORD }
}

async function send(port: number, path: string, body: object): Promise<Account> {
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${path} was answered with ${answer.status}: ${text}`)
  const { user, access_token } = JSON.parse(text) as { user: { id: string }; access_token: string }
  return { userId: user.id, token: access_token }
}

/** Adds products that never sell out. Returns their ids. */
export async function addProducts(pool: Pool, count = PRODUCTS): Promise<string[]> {
  const { rows } = await pool.query<{ id: string }>(
    `with added as (
      insert into products (id, sku, name, category, price_amount, price_currency, in_stock)
      select gen_random_uuid(), 'SKU-' || lpad(n::text, 5, '0'), 'A product of the benchmark', 'bench', 1250, 'EUR', true
      from generate_series(1, $1) as n
      returning id
    )
    insert into inventory (product_id, available) select id, 1000000000 from added returning product_id as id`,
    [count],
  )
  await pool.query('analyze products, inventory')
  return rows.map((row) => row.id)
}

/**
 * Makes each client's baskets of `lines` products. With `isHot`, every basket contains the first product, and one of a
 * single line contains only it.
 */
export function makeBaskets(
  products: readonly string[],
  { lines, isHot = false, clients }: { lines: number; isHot?: boolean; clients: number },
) {
  const make = (): Basket => {
    const chosen = new Set(isHot ? products.slice(0, 1) : [])
    while (chosen.size < lines) chosen.add(products[Math.floor(Math.random() * products.length)] ?? '')
    return [...chosen].map((product_id) => ({ product_id, quantity: 1 }))
  }
  return Array.from({ length: clients }, () => Array.from({ length: BASKETS }, make))
}

/** Makes a connection for each client that places its baskets, with a new key each time. */
export function placingConnections(accounts: readonly Account[], baskets: readonly Basket[][]): HttpLoad['connections'] {
  return baskets.map((mine, client) => ({
    head:
      'POST /orders HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n' +
      `authorization: Bearer ${accounts[client % accounts.length]?.token}\r\nidempotency-key: "{number}"\r\n`,
    bodies: mine.map((items) => JSON.stringify({ items })),
  }))
}

/** Makes connections that get a path. `{number}` in it becomes a number that was never sent before. */
export function gettingConnections(count: number, path: string, headers: Record<string, string> = {}): HttpLoad['connections'] {
  const lines = Object.entries({ host: 'localhost', ...headers }).map(([name, value]) => `${name}: ${value}\r\n`)
  return Array.from({ length: count }, () => ({ head: `GET ${path} HTTP/1.1\r\n${lines.join('')}`, bodies: [''] }))
}
