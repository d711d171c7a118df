import { getUser } from '../auth/users.ts'
import type { Pool } from '../db/pool.ts'
import { noSql, type Sql, sql } from '../db/sql.ts'
import { pagingOf } from '../http/pagination.ts'
import { listOrders } from '../orders/list-orders.ts'
import { NumberPosition } from '../orders/order-page.ts'
import type { OrderStatus } from '../orders/order-status.ts'
import { orderOwnersOf } from '../orders/orders.ts'

const ROWS_AT_ONCE = 500
const ORDERS_AT_ONCE = 100

/**
 * All data of the store about an account and its guests, as parts of one JSON text. Memory holds one page at a time,
 * and no connection waits for the client. Throws `invalid_token` for a deleted account. See docs/inside/security.md for
 * the tables.
 */
export async function* exportAccount(pool: Pool, userId: string, now: Date, cancellable: readonly OrderStatus[]): AsyncGenerator<string> {
  // Fails for a deleted account before the first byte is sent.
  await getUser(pool, userId)
  yield `{"exported_at":${JSON.stringify(now)}`
  for (const [name, table] of Object.entries(TABLES)) yield* list(name, rowsOf(pool, userId, table))
  yield* list('mails', mailsOf(pool, userId))
  yield* list('orders', ordersOf(pool, userId, cancellable))
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

async function* ordersOf(pool: Pool, userId: string, cancellable: readonly OrderStatus[]): AsyncGenerator<string[]> {
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await listOrders(pool, userId, {}, pagingOf([userId], { limit: ORDERS_AT_ONCE, cursor }, NumberPosition), cancellable)
    yield page.orders
    cursor = page.next_cursor
  }
}

/** `owner` is the column with the id of the account or guest. `key` is unique for each owner. */
interface Table {
  from: Sql
  owner: Sql
  key: Sql
  row: Sql
}

const TABLES: Record<string, Table> = {
  accounts: {
    from: sql`users`,
    owner: sql`id`,
    key: sql`id`,
    row: sql`to_jsonb(users) - 'password_hash' - 'owner_id' - 'guest_expires_at' - 'blocked_reason'`,
  },
  sessions: ownedBy(sql`sessions`, sql`id`, sql`to_jsonb(sessions)`),
  addresses: ownedBy(sql`customer_addresses`, sql`id`, sql`to_jsonb(customer_addresses)`),
  passkeys: ownedBy(sql`passkeys`, sql`id`, sql`to_jsonb(passkeys) - 'public_key'`),
  sign_ins: ownedBy(sql`oidc_identities`, sql`issuer`, sql`to_jsonb(oidc_identities)`),
  email_changes: ownedBy(
    sql`email_changes`,
    sql`id`,
    sql`to_jsonb(email_changes) - 'confirm_token_hash' - 'notice_token_hash' - 'revert_token_hash'`,
  ),
  amendments: ownedBy(
    sql`(select user_id, number, id, former_values from orders where former_values is not null) as orders`,
    sql`number`,
    sql`jsonb_build_object('order_id', id, 'former_values', former_values)`,
  ),
  requests: ownedBy(sql`idempotency_keys`, sql`key`, sql`jsonb_build_object('key', key, 'order_id', order_id, 'created_at', created_at)`),
}

function ownedBy(from: Sql, key: Sql, row: Sql): Table {
  return { from, owner: sql`user_id`, key, row }
}

/** Reads pages by owner and key. With an index on both, a page reads no rows of earlier pages. */
async function* rowsOf(pool: Pool, userId: string, { from, owner, key, row }: Table): AsyncGenerator<string[]> {
  for (let after = noSql; ; ) {
    const { rows }: { rows: { owner: string; key: string; row: string }[] } = await pool.query(
      sql`select owner, key, row
      from (${orderOwnersOf(userId)}) as buyer (buyer_id)
      cross join lateral (
        select ${owner} as owner, ${key} as key, (${row})::text as row
        from ${from}
        where ${owner} = buyer_id ${after}
        order by ${key}
        limit ${ROWS_AT_ONCE}
      ) as stored
      order by owner, key
      limit ${ROWS_AT_ONCE}`,
    )
    yield rows.map((stored) => stored.row)
    const last = rows.at(-1)
    if (last === undefined || rows.length < ROWS_AT_ONCE) return
    after = sql`and (${owner}, ${key}) > (${last.owner}, ${last.key})`
  }
}

/** Reads mails by order number, which has an index, so a page reads no mails of other pages. */
async function* mailsOf(pool: Pool, userId: string): AsyncGenerator<string[]> {
  for (let before = Number.MAX_SAFE_INTEGER; ; ) {
    const { rows }: { rows: { number: number; row: string | null }[] } = await pool.query(
      sql`with page as materialized (
        select id, number
        from (${orderOwnersOf(userId)}) as buyer (buyer_id)
        cross join lateral (
          select id, number from orders where user_id = buyer_id and number < ${before} order by number desc limit ${ORDERS_AT_ONCE}
        ) as newest
        order by number desc
        limit ${ORDERS_AT_ONCE}
      )
      select page.number, (to_jsonb(mail) - 'last_error' - 'bounce_reason')::text as row
      from page
      left join email_deliveries as mail on mail.order_id = page.id
      order by page.number desc, mail.event_id`,
    )
    yield rows.flatMap(({ row }) => row ?? [])
    const last = rows.at(-1)
    if (last === undefined) return
    before = last.number
  }
}
