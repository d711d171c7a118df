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
  pool: Queryable
  slotName: string
  topic: Topic<E>
  logger: Logger
  onPublished?: (events: number) => void
  /** Called with the events before they are published. Its result is called at the end, with an error or null. */
  onPublishing?: (events: readonly E[]) => (error: unknown) => void
  /** Throws if nothing may be published yet. For `signal` see `onOpened` of the slot reader. */
  beforePublishing?: (signal: AbortSignal) => Promise<void>
}

export interface RowEvents<Row, Previous extends keyof Row, E extends TopicEvent> {
  source: StreamSource<Row, Previous>
  deadLetters: DeadLetterTable
  subject: string
  findDefect(record: Row): string | null
  eventIdOf(record: Row): string
  /** The process does other work between two publications. By default all events are published together. */
  publishAtMost?: number
  /** Throws if the topic has changed since the slot was opened. */
  beforeEachPublish?: () => Promise<void>
  /** The events of valid changes, without those that are known to be published. */
  toMessages(commits: readonly Commit<RowChange<Row, Previous>>[]): Promise<OutgoingMessage<E>[]>
  /** For a lost slot: see `SlotRefillOptions`. */
  publishStored(signal: AbortSignal): Promise<boolean>
  findGap?: (signal: AbortSignal) => Promise<string | null>
  onOpened?: () => Promise<void>
}

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
      // The check follows the opening, because a refill is recorded before its slot exists, and nothing else can move
      // an open slot.
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
      // After a crash between publish and confirm, the slot delivers commits again that the topic already has.
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
        // Some of the messages may be stored, so the retry asks the topic again.
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

/**
 * Adds the incarnation to a position. A restored database reuses its log's positions, and the incarnation makes them
 * positions of another log.
 */
function inIncarnation(position: string, incarnation: number): string {
  return incarnation === 0 ? position : position.replace('/', `.${incarnation}/`)
}

function countChanges(commits: readonly Commit<unknown>[]): number {
  return commits.reduce((sum, { changes }) => sum + changes.length, 0)
}

/**
 * Whether the topic may lack a commit. `newest` is the topic's newest message, whose commit may be published in part.
 * True for positions of two logs, which cannot be compared: the topic drops duplicates by event id.
 */
export function mayBeMissing(position: string, newest: string | null): boolean {
  if (newest === null) return true
  const [log, lsn = ''] = position.split('/')
  const [newestLog, newestLsn = ''] = newest.split('/')
  return log !== newestLog || lsn >= newestLsn
}
