import type { Logger } from 'pino'
import { toOrderEvent } from '../orders/events.ts'
import { ChangeStream, type Commit } from './change-stream.ts'
import { type LoggedEvent, toLoggedEvent } from './delivery-log.ts'
import type { OutgoingMessage, Topic } from './topic.ts'

export interface OrderStreamHandlerOptions {
  url: string
  slotName: string
  topic: Topic
  logger: Logger
  /** Hears of events that are on the topic now. */
  onPublished?: (events: LoggedEvent[]) => void
}

/** Reads order changes from the change stream and publishes an event for each to the notification topic. */
export function createOrderStreamHandler({ url, slotName, topic, logger, onPublished }: OrderStreamHandlerOptions): ChangeStream {
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
      const messages = commits.filter((commit) => mayBeMissing(commit.position, newest)).flatMap(toMessages)
      if (messages.length === 0) return
      try {
        await topic.publish(messages)
      } catch (error) {
        // Part of it may be stored: ask again before the retry.
        newest = null
        throw error
      }
      newest = commits.at(-1)?.position ?? newest
      onPublished?.(messages.map(({ event }) => toLoggedEvent(event)))
      logger.debug({ events: messages.length, position: newest }, 'published')
    },
  })
}

/** The events of a commit. Pure. */
export function toMessages({ position, changes }: Commit): OutgoingMessage[] {
  return changes.map(({ record, previous }) => ({ position, event: toOrderEvent(record, previous) }))
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
