import type { Logger } from 'pino'
import type { Queryable } from '../db/pool.ts'
import { findDefect, type OrderRecord, toOrderEvent } from '../orders/events.ts'
import { ChangeStream, type Commit, type OrderChange } from './change-stream.ts'
import { type ParkedChange, parkChanges } from './parked-changes.ts'
import type { OutgoingMessage, Topic } from './topic.ts'

export interface OrderStreamHandlerOptions {
  url: string
  /** Of the same database, for what cannot be published. */
  pool: Queryable
  slotName: string
  topic: Topic
  logger: Logger
  /** Hears how many events are on the topic now. */
  onPublished?: (events: number) => void
}

/** Reads order changes from the change stream and publishes an event for each to the notification topic. */
export function createOrderStreamHandler({ url, pool, slotName, topic, logger, onPublished }: OrderStreamHandlerOptions): ChangeStream {
  let newest: string | null = null
  return new ChangeStream({
    url,
    slotName,
    logger,
    onOpened() {
      // Another process may have published meanwhile, and the topic may have been lost.
      newest = null
    },
    async onCommits(commits) {
      // After a crash between publish and confirm the slot tells again what the topic has already.
      newest ??= await topic.newestPosition()
      const missing = commits.filter((commit) => mayBeMissing(commit.position, newest))
      const messages = missing.flatMap(toMessages)
      if (messages.length < missing.reduce((sum, { changes }) => sum + changes.length, 0)) {
        const parked = missing.flatMap(toParked)
        await parkChanges(pool, parked)
        for (const { eventId, reason } of parked)
          logger.error({ event: eventId, reason }, 'no event can be made of this change of an order')
      }
      if (messages.length === 0) return
      try {
        await topic.publish(messages)
      } catch (error) {
        // Part of it may be stored: ask again before the retry.
        newest = null
        throw error
      }
      newest = commits.at(-1)?.position ?? newest
      onPublished?.(messages.length)
      logger.debug({ events: messages.length, position: newest }, 'published')
    },
  })
}

/** The events of a commit, but for changes that none can be made of. Pure. */
export function toMessages({ position, changes }: Commit): OutgoingMessage[] {
  return changes
    .filter(({ record }) => findDefect(record) === null)
    .map((change) => ({ position, event: toOrderEvent(change.record, statusBefore(change)) }))
}

/** An operator who mends a row leaves its version as it is: the row before is then not the version before. */
function statusBefore({ record, previous }: OrderChange): Pick<OrderRecord, 'status'> | null {
  return previous?.version === record.version ? (record.status_history.at(-2) ?? null) : previous
}

function toParked({ position, changes }: Commit): ParkedChange[] {
  return changes.flatMap(({ record }) => {
    const reason = findDefect(record)
    return reason === null ? [] : { eventId: `${record.id}.${record.version}`, reason, position }
  })
}

/**
 * Whether the topic may lack something of the commit at `position`, given that of its newest message. Of that very commit it may
 * hold a part. Positions in two logs cannot be compared, such as those of a standby that was promoted and counts on below what its
 * primary had come to: then it may, and the topic drops what it has by event id.
 */
export function mayBeMissing(position: string, newest: string | null): boolean {
  if (newest === null) return true
  const [log, lsn = ''] = position.split('/')
  const [newestLog, newestLsn = ''] = newest.split('/')
  return log !== newestLog || lsn >= newestLsn
}
