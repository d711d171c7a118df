import { type Sql, sql } from '../db/sql.ts'

/** A table for FROM: the products in the catalogue whose stock has reached zero since `since` and is still zero. */
export function productsSoldOutSince(since: Date): Sql {
  return sql`(
    select products.id, products.name, max(event.occurred_at) as sold_out_at
    from product_events as event
    join products on products.id = event.product_id and products.archived_at is null
    join inventory on inventory.product_id = event.product_id and inventory.available = 0
    where event.type = 'stock.depleted' and event.occurred_at >= ${since}
      -- Events without a known previous stock are not reported.
      and event.data ->> 'previous_available' is not null
    group by products.id
  )`
}
