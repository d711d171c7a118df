import type { Pool } from '../../db/pool.ts'
import { type Sql, sql } from '../../db/sql.ts'

export interface InvalidRowsFound {
  place: 'orders' | 'order counts' | 'order search' | 'products' | 'stock'
  count: number
  examples: string[]
}

/** The database refuses such new rows. They precede the rule, or were written while it was disabled. */
export async function findInvalidRows(pool: Pool, maxExamples: number): Promise<InvalidRowsFound[]> {
  const found: InvalidRowsFound[] = []
  for (const [place, ...statements] of CHECKS) {
    const invalid: InvalidRowsFound = { place, count: 0, examples: [] }
    for (const statement of statements) {
      const { rows } = await pool.query<{ id: string; reason: string; found: number }>(
        sql`select id, reason, count(*) over () as found from (${statement}) as invalid order by id limit ${maxExamples}`,
      )
      invalid.count += rows[0]?.found ?? 0
      invalid.examples.push(...rows.slice(0, maxExamples - invalid.examples.length).map(({ id, reason }) => `${id}: ${reason}`))
    }
    if (invalid.count > 0) found.push(invalid)
  }
  return found
}

const CHECKS: [InvalidRowsFound['place'], ...Sql[]][] = [
  [
    'orders',
    sql`select id, concat_ws('; ',
        case when not order_lines_are_sound(items, total_amount, currency)
          then 'the lines lack a product, a quantity or a price, or do not add up to the total' end,
        case when not order_history_is_whole(status_history, version, status)
          then 'the status history does not lead from pending to the status, one entry a version' end,
        case when not order_changes_add_up(items, total_amount, status_history)
          then 'the changes ship, cancel or return more units than there are, or make the total negative' end
      ) as reason
    from orders
    where not (order_lines_are_sound(items, total_amount, currency) and order_history_is_whole(status_history, version, status)
      and order_changes_add_up(items, total_amount, status_history))`,
  ],
  // Triggers maintain these counts, so a wrong one was written while the triggers were disabled.
  [
    'order counts',
    sql`select user_id as id,
      format('%s orders are counted as pending, %s are', coalesce(kept.pending, 0), coalesce(counted.pending, 0)) as reason
    from pending_order_counts as kept
    full join (
      select user_id, count(*)::integer as pending from orders where status = 'pending' group by user_id
    ) as counted using (user_id)
    where coalesce(kept.pending, 0) <> coalesce(counted.pending, 0)`,
  ],
  // Triggers maintain these texts, too. The API mends them: see mendSearchTexts.
  [
    'order search',
    sql`select coalesce(orders.id::text, 'number ' || kept.number) as id, case
        when kept.number is null then 'the order has no search text'
        when orders.id is null then 'the search text belongs to no order'
        else 'the search text differs from the order'
      end as reason
    from orders
    full join order_search_texts as kept using (number)
    where orders.id is null
      or kept.words is distinct from order_search_text(
        orders.shipping_address, orders.client_reference, orders.status_history, orders.billing_address, orders.vat_number
      )`,
  ],
  [
    'products',
    sql`select id, format('the price of %s is no amount from 0 in a currency of three capitals', sku) as reason
    from products
    where price_amount not between 0 and 9007199254740991 or price_currency !~ '^[A-Z]{3}$'`,
  ],
  [
    'stock',
    sql`select product_id as id, available || ' are available' as reason from inventory where available < 0`,
    // Each adjustment must begin at the end of the previous one and end at the stock of its version.
    sql`select product_id as id, format('its adjustment of version %s does not fit the one before it, or its stock', adjustment.version) as reason
    from (
      select product_id, version, available_before, available_after,
        lag(version) over history as version_before, lag(available_after) over history as after_before
      from stock_adjustments
      window history as (partition by product_id order by version)
    ) as adjustment
    join inventory using (product_id)
    where (version_before = adjustment.version - 1 and after_before is distinct from available_before)
      or adjustment.version > inventory.version
      or (adjustment.version = inventory.version and available_after is distinct from available)`,
  ],
]
