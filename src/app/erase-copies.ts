import type { Transaction } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { IS_ERASED } from '../orders/erase-addresses.ts'

/** Erases the personal columns of these orders from the topic's table and the webhooks' copies. See docs/decisions/0136-erasing-events.md. */
export async function eraseCopies(tx: Transaction, orderIds: readonly string[]): Promise<void> {
  await tx.query(sql`select erase_addresses_in_topic(${orderIds})`)
  // At least thirty days old, the minimum of RETAIN_ORDER_ADDRESS_DAYS: too old to be posted again.
  await tx.query(sql`delete from webhook_events
    where event_id in (
      select orders.id || '.' || made.version
      from orders
      cross join generate_series(1, orders.version) as made (version)
      where orders.id = any(${orderIds}) and ${IS_ERASED}
    )`)
}
