import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { findDefect } from '../orders/event-defects.ts'
import { hasWholeHistory, type OrderEvent, type OrderRecord, orderEventId, toOrderEvents } from '../orders/events.ts'
import { getOrderRecords, STREAMED_COLUMNS, selectList } from '../orders/order-column-sql.ts'
import { subjectOf } from '../topic/incarnations.ts'
import { ORDER_DEAD_LETTERS } from './dead-letters.ts'
import { type PublishOptions, publishStoredEvents, type StoredEvents } from './publish-stored-events.ts'

const BATCH_SIZE = 500
/** The compressed size of a stored batch. Each event has its order with the history until then. */
const BATCH_BYTES = 1_000_000
const COLUMNS = selectList()
const BEFORE_ALL = '00000000-0000-0000-0000-000000000000'

const AFTER_ALL = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

export const ORDER_EVENTS: StoredEvents<OrderRecord, OrderEvent> = {
  deadLetters: ORDER_DEAD_LETTERS,
  subject: 'an order',
  findDefect: (record) => findDefect(record) ?? (hasWholeHistory(record) ? null : 'its status history does not have every version'),
  eventIdOf: orderEventId,
  toEvents: toOrderEvents,
  readAfter: (db, last) => readAfter(db, last, AFTER_ALL),
  readOf: (db, ids) => getOrderRecords(db, [...new Set(ids.map(subjectOf))]),
}

export function orderEventsIn({ from, below }: { from: string; below: string }): StoredEvents<OrderRecord, OrderEvent> {
  return { ...ORDER_EVENTS, readAfter: (db, last) => readAfter(db, last ?? { id: from }, below) }
}

/**
 * Publishes the events of all stored orders. Later orders come through the slot, because a busy shop may place them as
 * fast as they are published.
 */
export async function publishOrderEvents(options: PublishOptions<OrderEvent>): Promise<boolean> {
  const { rows } = await options.db.query<{ id: string }>(sql`select id from orders order by id desc limit 1`)
  const upTo = rows[0]?.id ?? BEFORE_ALL
  return publishStoredEvents({ ...ORDER_EVENTS, readAfter: (db, last: OrderRecord | null) => readAfter(db, last, upTo) }, options)
}

async function readAfter(db: Queryable, last: Pick<OrderRecord, 'id'> | null, upTo: string): Promise<OrderRecord[]> {
  const { rows } = await db.query<OrderRecord>(
    sql`select ${STREAMED_COLUMNS}
    from (
      select ${COLUMNS}, sum(bytes) over (order by id) - bytes as bytes_before
      from (
        select ${COLUMNS}, (pg_column_size(items) + pg_column_size(status_history)) *
          greatest(case jsonb_typeof(status_history) when 'array' then jsonb_array_length(status_history) end, 1)::bigint as bytes
        from orders
        where id > ${last?.id ?? BEFORE_ALL} and id <= ${upTo}
        order by id
        limit ${BATCH_SIZE}
      ) as next
    ) as orders
    where bytes_before < ${BATCH_BYTES}
    order by id`,
  )
  return rows
}
