import type { Queryable } from '../db/pool.ts'
import { findDefect } from '../orders/event-defects.ts'
import {
  hasWholeHistory,
  type OrderEvent,
  type OrderRecord,
  orderEventId,
  RECORD_COLUMNS,
  toOrderEvent,
  toOrderEvents,
} from '../orders/events.ts'
import type { OutgoingMessage } from '../topic/topic.ts'
import type { ChangeStream } from './change-stream.ts'
import { findDeadLetters, ORDER_DEAD_LETTERS } from './dead-letters.ts'
import { publishOrderEvents } from './publish-order-events.ts'
import { PUBLICATION } from './replication-slot.ts'
import type { Commit, OrderChange, StreamSource } from './slot-reader.ts'
import { createStreamHandler, type StreamHandlerOptions } from './stream-handler.ts'

/** A lost slot is refilled from `orders`. */
export function createOrderStreamHandler(options: StreamHandlerOptions<OrderEvent>): ChangeStream<OrderRecord, 'status' | 'version'> {
  const { pool, topic, logger } = options
  return createStreamHandler(options, {
    source: ORDER_SOURCE,
    deadLetters: ORDER_DEAD_LETTERS,
    subject: 'an order',
    findDefect,
    eventIdOf: orderEventId,
    toMessages: (commits) => withoutRepeats(pool, commits),
    publishStored: (signal) => publishOrderEvents({ db: pool, topic, logger, signal }),
  })
}

export function toMessages({ position, changes }: Commit): OutgoingMessage[] {
  return messagesOf({ position, changes: changes.filter(({ record }) => findDefect(record) === null) })
}

function messagesOf({ position, changes }: Commit): OutgoingMessage[] {
  return changes.flatMap(eventsOf).map((event) => ({ position, event }))
}

/** An order that was moved in is inserted with its whole history, so it has the events of all versions. */
function eventsOf(change: OrderChange): OrderEvent[] {
  const { record, previous } = change
  const isMovedIn = previous === null && record.version > 1 && hasWholeHistory(record)
  return isMovedIn ? toOrderEvents(record) : [toOrderEvent(record, statusBefore(change))]
}

/** A change that keeps the version is a correction or an erasure, so the version's event exists already. */
async function withoutRepeats(db: Queryable, commits: readonly Commit[]): Promise<OutgoingMessage[]> {
  const changes = commits.flatMap((commit) => commit.changes)
  const isRepeat = ({ record, previous }: OrderChange) => previous?.version === record.version
  const repeated = changes.filter(isRepeat).map(({ record }) => orderEventId(record))
  if (repeated.length === 0) return commits.flatMap(messagesOf)
  const deadLetters = await findDeadLetters(db, ORDER_DEAD_LETTERS, repeated)
  return commits.flatMap(({ position, changes }) =>
    messagesOf({ position, changes: changes.filter((change) => !isRepeat(change) || deadLetters.has(orderEventId(change.record))) }),
  )
}

/** An operator's correction keeps the version, so the previous row is then not the previous version. */
function statusBefore({ record, previous }: OrderChange): Pick<OrderRecord, 'status'> | null {
  return previous?.version === record.version ? (record.status_history.at(-2) ?? null) : previous
}

export const ORDER_SOURCE: StreamSource<OrderRecord, 'status' | 'version'> = {
  publication: PUBLICATION,
  shape: { table: 'orders', columns: RECORD_COLUMNS, previousColumns: ['status', 'version'] },
}
