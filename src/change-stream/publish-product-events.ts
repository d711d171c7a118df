import type { Logger } from 'pino'
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
import { publishAcceptable } from '../topic/publish-acceptable.ts'
import type { Topic } from '../topic/topic.ts'
import { CATALOGUE_DEAD_LETTERS, recordDeadLetters } from './dead-letters.ts'

const BATCH_SIZE = 1_000
/**
 * Stored, compressed size of a batch. Products of 100 kB would otherwise take seconds of this process, in which orders
 * wait.
 */
const BATCH_BYTES = 1_000_000
// Unknown, so after a restart the change stream may publish events again, which the topic drops by event id.
const NO_POSITION = ''

type Key = Pick<ProductEventRecord, 'product_id' | 'stream' | 'version'>

export interface PublishOptions {
  /** Address of the database, for the lock. */
  url: string
  db: Queryable
  topic: Topic<CatalogueEvent>
  logger: Logger
  signal?: AbortSignal | undefined
  /** Called after each batch with the number of events so far. */
  onProgress?: (events: number) => void
}

/**
 * Publishes every event that `product_events` has, in the order of each product; the topic drops those that it has already. No old event is
 * removed meanwhile: one that was read before would come back to the topic. Returns whether it came to the end, which it does not when
 * `signal` aborts.
 */
export async function publishProductEvents({ url, db, topic, logger, signal, onProgress }: PublishOptions): Promise<boolean> {
  await using lock = await connectClient(url, 'storefront-catalogue-publish', signal)
  await lock.query(sql`select pg_advisory_lock_shared(hashtextextended(${OLD_EVENTS_LOCK}, 0))`)
  let after: Key = { product_id: '00000000-0000-0000-0000-000000000000', stream: 'product', version: '0' }
  for (let events = 0; signal?.aborted !== true; ) {
    const records = await readAfter(db, after)
    const last = records.at(-1)
    if (last === undefined) return true
    // Throws when the lock was lost with its connection.
    await lock.query('select')
    await publishRecords(db, topic, logger, records)
    after = last
    events += records.length
    onProgress?.(events)
  }
  return false
}

/** Publishes the events of rows; those of which none can be made, or that the broker refuses, become dead letters. */
async function publishRecords(
  db: Queryable,
  topic: Topic<CatalogueEvent>,
  logger: Logger,
  records: readonly ProductEventRecord[],
): Promise<void> {
  const defects = records.flatMap((record) => {
    const reason = findRecordDefect(record)
    return reason === null ? [] : [{ eventId: catalogueEventId(record), reason, position: NO_POSITION }]
  })
  if (defects.length > 0) {
    await recordDeadLetters(db, CATALOGUE_DEAD_LETTERS, defects)
    for (const { eventId, reason } of defects) logger.error({ event: eventId, reason }, 'no event can be made of this change of a product')
  }
  const valid = records.filter((record) => findRecordDefect(record) === null)
  const messages = valid.map((record) => ({ position: NO_POSITION, event: toCatalogueEvent(record) }))
  const published = new Set(messages.map(({ event }) => event.id))
  await publishAcceptable(topic, messages, (refused, reason) => {
    for (const { event } of refused) published.delete(event.id)
    return recordDeadLetters(
      db,
      CATALOGUE_DEAD_LETTERS,
      refused.map(({ event }) => ({ eventId: event.id, reason, position: NO_POSITION })),
    )
  })
  // Rows that were repaired lose their dead letters. A broker does not list what it has, so a remaining one would count
  // as unpublished.
  await db.query(sql`delete from catalogue_dead_letters where event_id = any(${[...published]}::text[])`)
}

async function readAfter(db: Queryable, { product_id, stream, version }: Key): Promise<ProductEventRecord[]> {
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
