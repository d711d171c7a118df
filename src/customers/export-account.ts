import { getUser } from '../auth/users.ts'
import type { Pool } from '../db/pool.ts'
import { type Sql, sql } from '../db/sql.ts'
import { listOrders } from '../orders/list-orders.ts'
import { buyersOf } from '../orders/orders.ts'

const ROWS_AT_ONCE = 500
const ORDERS_AT_ONCE = 100

/**
 * Everything that the store has about an account and its guests, as pieces of one JSON text. One page is in memory at a time, and no
 * connection waits for the client. Throws `invalid_token` when the account is gone. See docs/security.md for the tables.
 */
export async function* exportAccount(pool: Pool, userId: string, now: Date): AsyncGenerator<string> {
  // Before the first byte: an account that is gone is an answer.
  await getUser(pool, userId)
  yield `{"exported_at":${JSON.stringify(now)}`
  for (const [name, table] of Object.entries(tablesOf(userId))) yield* list(name, rowsOf(pool, table))
  yield* list('orders', ordersOf(pool, userId))
  yield '}'
}

async function* list(name: string, pages: AsyncIterable<readonly string[]>): AsyncGenerator<string> {
  yield `,${JSON.stringify(name)}:[`
  let isFirst = true
  for await (const page of pages) {
    if (page.length === 0) continue
    yield `${isFirst ? '' : ','}${page.join(',')}`
    isFirst = false
  }
  yield ']'
}

async function* ordersOf(pool: Pool, userId: string): AsyncGenerator<string[]> {
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await listOrders(pool, userId, { limit: ORDERS_AT_ONCE, ...(cursor === undefined ? {} : { cursor }) })
    yield page.orders
    cursor = page.next_cursor
  }
}

/** A query of `key`, by which its rows are read page by page, and of `row`, as JSON. */
type Table = Sql

function tablesOf(userId: string): Record<string, Table> {
  const buyers = sql`select user_id from (${buyersOf(userId)}) as buyer`
  return {
    accounts: sql`select id::text as key, to_jsonb(users) - 'password_hash' - 'owner_id' - 'guest_expires_at' - 'blocked_reason' as row
      from users where id in (${buyers})`,
    sessions: sql`select id::text as key, to_jsonb(sessions) as row from sessions where user_id in (${buyers})`,
    addresses: sql`select id::text as key, to_jsonb(customer_addresses) as row from customer_addresses where user_id in (${buyers})`,
    passkeys: sql`select id::text as key, to_jsonb(passkeys) - 'public_key' as row from passkeys where user_id in (${buyers})`,
    sign_ins: sql`select issuer as key, to_jsonb(oidc_identities) as row from oidc_identities where user_id in (${buyers})`,
    email_changes: sql`select id::text as key,
      to_jsonb(email_changes) - 'confirm_token_hash' - 'notice_token_hash' - 'revert_token_hash' as row
      from email_changes where user_id in (${buyers})`,
    mails: sql`select event_id as key, to_jsonb(email_deliveries) - 'last_error' as row from email_deliveries where user_id in (${buyers})`,
    requests: sql`select user_id || ' ' || key as key, jsonb_build_object('key', key, 'order_id', order_id, 'created_at', created_at) as row
      from idempotency_keys where user_id in (${buyers})`,
  }
}

async function* rowsOf(pool: Pool, table: Table): AsyncGenerator<string[]> {
  for (let after: string | null = null; ; ) {
    const { rows }: { rows: { key: string; row: string }[] } = await pool.query(
      sql`select key, row::text as row
      from (${table}) as stored
      where ${after}::text is null or key collate "C" > ${after}
      order by key collate "C"
      limit ${ROWS_AT_ONCE}`,
    )
    yield rows.map(({ row }) => row)
    const last = rows.at(-1)
    if (last === undefined || rows.length < ROWS_AT_ONCE) return
    after = last.key
  }
}
