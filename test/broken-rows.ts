import type { Queryable } from '../src/db/pool.ts'

/** Drops rules of the test's database, so that it stores rows which the rules would refuse. */
export async function allowBrokenRows(db: Queryable): Promise<void> {
  await db.query(`alter table orders
    disable trigger orders_lines_add_up,
    disable trigger orders_history_is_whole`)
  await db.query('alter table products drop constraint products_price_in_range, drop constraint products_currency_iso')
  await db.query('alter table inventory drop constraint inventory_available_not_negative')
}

/**
 * Changes the status of orders by SQL, without the use cases' rules, with the history entry that the database
 * requires.
 */
export async function setStatus(db: Queryable, ids: readonly string[], status: string): Promise<void> {
  await db.query(
    `update orders
    set status = $2, version = version + 1, updated_at = now(), status_history = status_history || jsonb_build_array(jsonb_build_object(
      'status', $2::text, 'at', to_char(now() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'actor', jsonb_build_object('type', 'admin', 'id', null), 'reason', null))
    where id = any($1::uuid[])`,
    [ids, status],
  )
}
