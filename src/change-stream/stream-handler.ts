import type { Logger } from 'pino'
import type { Queryable } from '../db/pool.ts'
import { listIncarnations } from '../topic/incarnations.ts'
import { publishAcceptable } from '../topic/publish-acceptable.ts'
import type { OutgoingMessage, Topic, TopicEvent } from '../topic/topic.ts'
import { ChangeStream } from './change-stream.ts'
import { type DeadLetter, type DeadLetterTable, recordDeadLetters } from './dead-letters.ts'
import { refillLostSlot } from './refill-slot.ts'
import { assertNotLost, isOlderThanPublication } from './replication-slot.ts'
import { adoptSlot, readRecordedPosition, recordLostSlot, recordPosition } from './slot-positions.ts'
import type { Commit, RowChange, StreamSource } from './slot-reader.ts'

export interface StreamHandlerOptions<E extends TopicEvent> {
  url: string
  /** Pool of the same database, for recording changes that cannot be published. */
  pool: Queryable
  slotName: string
  topic: Topic<E>
  logger: Logger
  onPublished?: (events: number) => void
  /** Called with the events that are about to be published. Its result is called at the end, with an error, or null for none. */
  onPublishing?: (events: readonly E[]) => (error: unknown) => void
  /**
   * Called each time the slot has been opened, and before a refill. Throws when nothing may be published yet; `signal` as of `onOpened` in
   * `ChangeStreamOptions`.
   */
  beforePublishing?: (signal: AbortSignal) => Promise<void>
}

/** The rows that a stream reads, and their events. */
export interface RowEvents<Row, Previous extends keyof Row, E extends TopicEvent> {
  source: StreamSource<Row, Previous>
  deadLetters: DeadLetterTable
  /** What a row is of, for the log: `an order`. */
  subject: string
  /** Why no event can be made of a row, null when one can. */
  findDefect(record: Row): string | null
  eventIdOf(record: Row): string
  /** How many are published at a time, so that the process does other work in between; by default all that were read together. */
  publishAtMost?: number
  /** Called before each of these. Throws when the topic is not as it was when the slot was opened. */
  beforeEachPublish?: () => Promise<void>
  /** The events of valid changes, without those that are known to have been published. */
  toMessages(commits: readonly Commit<RowChange<Row, Previous>>[]): Promise<OutgoingMessage<E>[]>
  /** Publishes every event of the table, for a slot that was lost; see `SlotRefillOptions`, also for `findGap`. */
  publishStored(signal: AbortSignal): Promise<boolean>
  findGap?: (signal: AbortSignal) => Promise<string | null>
  /** Called when the slot has been opened, before `beforePublishing`. Throws when nothing may be published yet. */
  onOpened?: () => Promise<void>
}

/** Reads changes of rows from the change stream and publishes an event for each to the notification topic. */
export function createStreamHandler<Row extends object, Previous extends keyof Row, E extends TopicEvent>(
  { pool, topic, logger, onPublished, onPublishing, beforePublishing, url, slotName }: StreamHandlerOptions<E>,
  {
    source,
    deadLetters: table,
    subject,
    findDefect,
    eventIdOf,
    toMessages,
    publishAtMost,
    beforeEachPublish,
    publishStored,
    findGap,
    onOpened,
  }: RowEvents<Row, Previous, E>,
): ChangeStream<Row, Previous> {
  let newest: string | null = null
  let incarnation = 0
  /** What was recorded of the slot before it was opened. */
  let recordedPosition: string | null = null
  const toDeadLetters = ({ position, changes }: Commit<RowChange<Row, Previous>>): DeadLetter[] =>
    changes.flatMap(({ record }) => {
      const reason = findDefect(record)
      return reason === null ? [] : { eventId: eventIdOf(record), reason, position }
    })
  return new ChangeStream({
    ...{ url, slotName, source, logger },
    async beforeOpening(signal) {
      await refillLostSlot({ url, pool, slotName, logger, publishStored, beforePublishing, findGap }, signal)
      recordedPosition = await readRecordedPosition(pool, slotName)
    },
    beforeConfirming: (logId, position) => recordPosition(pool, slotName, logId, position),
    async onFailed(error) {
      if (await isOlderThanPublication(pool, { slotName, publication: source.publication }, error))
        await recordLostSlot(
          pool,
          slotName,
          `the replication slot ${slotName} is older than the publication ${source.publication}`,
          recordedPosition,
        )
    },
    async onOpened(signal) {
      // Another process may have published meanwhile, and the topic may have been lost.
      newest = null
      // This follows the opening: a refill is recorded before its slot exists, and nothing else can move a slot that is
      // being read.
      await assertNotLost(pool, slotName)
      signal.throwIfAborted()
      await adoptSlot(pool, slotName)
      signal.throwIfAborted()
      await onOpened?.()
      signal.throwIfAborted()
      await beforePublishing?.(signal)
      signal.throwIfAborted()
      const incarnations = await listIncarnations(pool)
      signal.throwIfAborted()
      incarnation = incarnations.at(-1)?.number ?? 0
    },
    async onCommits(read) {
      const commits = read.map((commit) => ({ ...commit, position: inIncarnation(commit.position, incarnation) }))
      // After a crash between publish and confirm, the slot delivers commits again that the topic has already.
      newest ??= await topic.newestPosition()
      const missing = commits.filter((commit) => mayBeMissing(commit.position, newest))
      const valid = missing.map(({ position, changes }) => ({
        position,
        changes: changes.filter(({ record }) => findDefect(record) === null),
      }))
      if (countChanges(valid) < countChanges(missing)) {
        const deadLetters = missing.flatMap(toDeadLetters)
        await recordDeadLetters(pool, table, deadLetters)
        for (const { eventId, reason } of deadLetters)
          logger.error({ event: eventId, reason }, `no event can be made of this change of ${subject}`)
      }
      const messages = await toMessages(valid)
      if (messages.length === 0) return
      let published = 0
      const onEnd = onPublishing?.(messages.map(({ event }) => event))
      try {
        const size = publishAtMost ?? messages.length
        for (let from = 0; from < messages.length; from += size) {
          await beforeEachPublish?.()
          published += await publishAcceptable(topic, messages.slice(from, from + size), (refused, reason) => {
            logger.error({ events: refused.map(({ event }) => event.id), reason }, `events of ${subject} are left out`)
            return recordDeadLetters(
              pool,
              table,
              refused.map(({ event, position }) => ({ eventId: event.id, reason, position })),
            )
          })
        }
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

function countChanges(commits: readonly Commit<unknown>[]): number {
  return commits.reduce((sum, { changes }) => sum + changes.length, 0)
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
