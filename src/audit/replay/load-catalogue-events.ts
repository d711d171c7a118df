import { type CatalogueEvent, catalogueEventId, type ProductEventRecord, toCatalogueEvent } from '../../catalogue/catalogue-event.ts'
import { findRecordDefect } from '../../catalogue/catalogue-event-defects.ts'
import type { Queryable } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { subjectOf } from '../../topic/incarnations.ts'

/** The events of the catalogue that `product_events` has, by id. Skips rows that no event can be made of. */
export async function loadCatalogueEvents(db: Queryable, ids: readonly string[]): Promise<Map<string, CatalogueEvent>> {
  const { rows } = await db.query<ProductEventRecord>(
    sql`select product_id, stream, version::text as version, type, occurred_at, traceparent, data
    from product_events
    where product_id = any(${[...new Set(ids.map(subjectOf))]}::uuid[])`,
  )
  const wanted = new Set(ids)
  const sound = rows.filter((row) => wanted.has(catalogueEventId(row)) && findRecordDefect(row) === null)
  return new Map(sound.map((row) => [catalogueEventId(row), toCatalogueEvent(row)]))
}
