import type { Logger } from 'pino'
import type { Queryable } from '../db/pool.ts'
import { findDefect } from '../orders/event-defects.ts'
import { hasWholeHistory, type OrderEvent, type OrderRecord, toOrderEvent, toOrderEvents } from '../orders/events.ts'
import { listIncarnations } from '../topic/incarnations.ts'
import { publishAcceptable } from '../topic/publish-acceptable.ts'
import type { OutgoingMessage, Topic } from '../topic/topic.ts'
import { ChangeStream } from './change-stream.ts'
import { type DeadLetter, findDeadLetters, recordDeadLetters } from './dead-letters.ts'
import { assertRefilled } from './replication-slot.ts'
import type { Commit, OrderChange } from './slot-reader.ts'

export interface OrderStreamHandlerOptions {
  url: string
  /** Of the same database, for changes that cannot be published. */
  pool: Queryable
  slotName: string
  topic: Topic
  logger: Logger
  /** Called with the number of events that were just published. */
  onPublished?: (events: number) => void
  /** Called with the events that are about to be published. Its result is called at the end, with an error, or null for none. */
  onPublishing?: (events: readonly OrderEvent[]) => (error: unknown) => void
  /** Called each time the slot has been opened. Throws when nothing may be published yet. */
  beforePublishing?: () => Promise<void>
}

/** Reads order changes from the change stream and publishes an event for each to the notification topic. */
export function createOrderStreamHandler(options: OrderStreamHandlerOptions): ChangeStream {
  const { url, pool, slotName, topic, logger, onPublished, onPublishing, beforePublishing } = options
  let newest: string | null = null
  let incarnation = 0
  return new ChangeStream({
    url,
    slotName,
    logger,
    async onOpened() {
      // Another process may have published meanwhile, and the topic may have been lost.
      newest = null
      // A refill is recorded before its slot exists, so every reader of that slot sees it.
      await assertRefilled(pool, slotName)
      await beforePublishing?.()
      incarnation = (await listIncarnations(pool)).at(-1)?.number ?? 0
    },
    async onCommits(read) {
      const commits = read.map((commit) => ({ ...commit, position: inIncarnation(commit.position, incarnation) }))
      // After a crash between publish and confirm, the slot delivers commits again that the topic has already.
      newest ??= await topic.newestPosition()
      const missing = commits.filter((commit) => mayBeMissing(commit.position, newest))
      const sound = missing.map(withoutDefects)
      if (countChanges(sound) < countChanges(missing)) {
        const deadLetters = missing.flatMap(toDeadLetters)
        await recordDeadLetters(pool, deadLetters)
        for (const { eventId, reason } of deadLetters)
          logger.error({ event: eventId, reason }, 'no event can be made of this change of an order')
      }
      const messages = await withoutRepeats(pool, sound)
      if (messages.length === 0) return
      let published: number
      const onEnd = onPublishing?.(messages.map(({ event }) => event))
      try {
        published = await publishAcceptable(topic, messages, (refused, reason) => {
          logger.error({ events: refused.map(({ event }) => event.id), reason }, 'events of an order are left out')
          return recordDeadLetters(
            pool,
            refused.map(({ event, position }) => ({ eventId: event.id, reason, position })),
          )
        })
      } catch (error) {
        // Some of the messages may be stored: ask the topic again before the retry.
        newest = null
        onEnd?.(error)
        throw error
      }
      onEnd?.(null)
      newest = commits.at(-1)?.position ?? newest
      onPublished?.(published)
      logger.debug({ events: published, position: newest }, 'published')
    },
  })
}

/** A database restored from its files reuses positions of its log. The incarnation makes them positions of another log. Pure. */
function inIncarnation(position: string, incarnation: number): string {
  return incarnation === 0 ? position : position.replace('/', `.${incarnation}/`)
}

/** The events of a commit, without those of changes that no event can be made of. Pure. */
export function toMessages(commit: Commit): OutgoingMessage[] {
  return messagesOf(withoutDefects(commit))
}

function withoutDefects({ position, changes }: Commit): Commit {
  return { position, changes: changes.filter(({ record }) => findDefect(record) === null) }
}

function countChanges(commits: readonly Commit[]): number {
  return commits.reduce((sum, { changes }) => sum + changes.length, 0)
}

function messagesOf({ position, changes }: Commit): OutgoingMessage[] {
  return changes.flatMap(eventsOf).map((event) => ({ position, event }))
}

/** The events of a change: one, or that of each version of an order that was moved in, which is inserted with its whole history. */
function eventsOf(change: OrderChange): OrderEvent[] {
  const { record, previous } = change
  const isMovedIn = previous === null && record.version > 1 && hasWholeHistory(record)
  return isMovedIn ? toOrderEvents(record) : [toOrderEvent(record, statusBefore(change))]
}

/**
 * A row that changes under the same version is no change of the order's life: an operator corrected it, or its address was erased.
 * The event of that version has been published, unless it went to the dead letters.
 */
async function withoutRepeats(db: Queryable, commits: readonly Commit[]): Promise<OutgoingMessage[]> {
  const changes = commits.flatMap((commit) => commit.changes)
  const isRepeat = ({ record, previous }: OrderChange) => previous?.version === record.version
  const repeated = changes.filter(isRepeat).map(({ record }) => eventIdOf(record))
  if (repeated.length === 0) return commits.flatMap(messagesOf)
  const deadLetters = await findDeadLetters(db, repeated)
  return commits.flatMap(({ position, changes }) =>
    messagesOf({ position, changes: changes.filter((change) => !isRepeat(change) || deadLetters.has(eventIdOf(change.record))) }),
  )
}

function eventIdOf({ id, version }: Pick<OrderRecord, 'id' | 'version'>): string {
  return `${id}.${version}`
}

/** An operator's correction keeps the version, so the previous row is then not the previous version. */
function statusBefore({ record, previous }: OrderChange): Pick<OrderRecord, 'status'> | null {
  return previous?.version === record.version ? (record.status_history.at(-2) ?? null) : previous
}

function toDeadLetters({ position, changes }: Commit): DeadLetter[] {
  return changes.flatMap(({ record }) => {
    const reason = findDefect(record)
    return reason === null ? [] : { eventId: eventIdOf(record), reason, position }
  })
}

/**
 * Whether the topic may lack events of the commit at `position`, given the position of the topic's newest message; of that commit the
 * topic may have a part. Positions of two logs (after the promotion of a standby) cannot be compared: the answer is then true, and the
 * topic drops duplicates by event id. Pure.
 */
export function mayBeMissing(position: string, newest: string | null): boolean {
  if (newest === null) return true
  const [log, lsn = ''] = position.split('/')
  const [newestLog, newestLsn = ''] = newest.split('/')
  return log !== newestLog || lsn >= newestLsn
}
