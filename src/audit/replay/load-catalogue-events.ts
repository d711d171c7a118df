import { type CatalogueEvent, catalogueEventId, type ProductEventRecord, toCatalogueEvent } from '../../catalogue/catalogue-event.ts'
import type { Queryable } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { subjectOf } from '../../topic/incarnations.ts'
import type { TopicPartition } from '../../topic/topic.ts'

/** The events of the catalogue that `product_events` has, by id. Skips rows of which no event of the partition can be made. */
export async function loadCatalogueEvents(
  db: Queryable,
  { findDefect }: TopicPartition<CatalogueEvent>,
  ids: readonly string[],
): Promise<Map<string, CatalogueEvent>> {
  const { rows } = await db.query<ProductEventRecord>(
    sql`select product_id, stream, version::text as version, type, occurred_at, traceparent, data
    from product_events
    where product_id = any(${[...new Set(ids.map(subjectOf))]}::uuid[])`,
  )
  const wanted = new Set(ids)
  const events = rows.filter((row) => wanted.has(catalogueEventId(row))).map(toCatalogueEvent)
  return new Map(events.filter((event) => findDefect(event) === null).map((event) => [event.id, event]))
}
