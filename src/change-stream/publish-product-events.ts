import {
  type CatalogueEvent,
  catalogueEventId,
  OLD_EVENTS_LOCK,
  type ProductEventRecord,
  toCatalogueEvent,
} from '../catalogue/catalogue-event.ts'
import { findRecordDefect } from '../catalogue/catalogue-event-defects.ts'
import { connectClient, type Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { CATALOGUE_DEAD_LETTERS } from './dead-letters.ts'
import { type PublishOptions, publishStoredEvents, type StoredEvents } from './publish-stored-events.ts'

const BATCH_SIZE = 1_000
/** Stored, compressed size. Larger products would take seconds of this process, in which orders wait. */
const BATCH_BYTES = 1_000_000

export const PRODUCT_EVENTS: StoredEvents<ProductEventRecord, CatalogueEvent> = {
  deadLetters: CATALOGUE_DEAD_LETTERS,
  subject: 'a product',
  readAfter,
  findDefect: findRecordDefect,
  eventIdOf: catalogueEventId,
  toEvents: (record) => [toCatalogueEvent(record)],
  readOf,
}

/** No old event is removed meanwhile, because one read earlier would return. `url` is the database's, for the lock. */
export function publishProductEvents({ url, ...options }: PublishOptions<CatalogueEvent> & { url: string }): Promise<boolean> {
  return keepProductEvents(url, (assertKept) => publishStoredEvents(PRODUCT_EVENTS, options, assertKept), options.signal)
}

/** `assertKept` throws when the lock was lost with its connection. */
export async function keepProductEvents<T>(
  url: string,
  work: (assertKept: () => Promise<unknown>) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  await using lock = await connectClient(url, 'storefront-catalogue-publish', signal)
  await lock.query(sql`select pg_advisory_lock_shared(hashtextextended(${OLD_EVENTS_LOCK}, 0))`)
  return await work(() => lock.query('select'))
}

const BEFORE_ALL = { product_id: '00000000-0000-0000-0000-000000000000', stream: 'product', version: '0' }

async function readAfter(db: Queryable, last: ProductEventRecord | null): Promise<ProductEventRecord[]> {
  const { product_id, stream, version } = last ?? BEFORE_ALL
  const { rows } = await db.query<ProductEventRecord>(
    sql`select product_id, stream, version::text as version, type, occurred_at, traceparent, data
    from (
      select product_id, stream, version, type, occurred_at, traceparent, data,
        sum(pg_column_size(data)) over (order by product_id, stream, version) - pg_column_size(data) as bytes_before
      from (
        select product_id, stream, version, type, occurred_at, traceparent, data
        from product_events
        where (product_id, stream, version) > (${product_id}, ${stream}, ${version}::bigint)
        order by product_id, stream, version
        limit ${BATCH_SIZE}
      ) as next
    ) as event
    where bytes_before < ${BATCH_BYTES}
    -- The column, not the text of the same name, which would put 10 before 9.
    order by product_id, stream, event.version`,
  )
  return rows
}

const EVENT_ID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}(\.stock)?\.\d{1,18}$/

/** Reads events by their keys, so a product with many events is read once. */
async function readOf(db: Queryable, ids: readonly string[]): Promise<ProductEventRecord[]> {
  const keys = ids.filter((id) => EVENT_ID.test(id)).map((id) => id.split('.'))
  const { rows } = await db.query<ProductEventRecord>(
    sql`select product_id, stream, version::text as version, type, occurred_at, traceparent, data
    from product_events
    where (product_id, stream, version) in (
      select *
      from unnest(
        ${keys.map(([product]) => product)}::uuid[],
        ${keys.map(({ length }) => (length === 3 ? 'stock' : 'product'))}::text[],
        ${keys.map((parts) => parts.at(-1))}::bigint[]
      )
    )`,
  )
  return rows
}
