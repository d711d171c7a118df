import { type Sql, sql } from '../db/sql.ts'

/** For FROM: the catalogue's products whose stock has reached zero since then and is still zero, each once. */
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
