import type { Logger } from 'pino'
import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { publishAcceptable } from '../topic/publish-acceptable.ts'
import type { Topic, TopicEvent } from '../topic/topic.ts'
import { CATALOGUE_DEAD_LETTERS, type DeadLetter, type DeadLetterTable, recordDeadLetters } from './dead-letters.ts'

// Unknown, so after a restart the change stream may publish events again, which the topic drops by event id.
const NO_POSITION = ''
/** The shortest time between two lines in the log. */
const PROGRESS_MS = 10_000

export interface StoredEvents<Row, E extends TopicEvent> {
  deadLetters: DeadLetterTable
  /** What a row is of, for the log: `an order`. */
  subject: string
  /** The next rows in the order of their keys, none at the end; the first ones after null. Bounded by their sizes. */
  readAfter(db: Queryable, last: Row | null): Promise<Row[]>
  /** The rows that events with these ids are made of. */
  readOf(db: Queryable, ids: readonly string[]): Promise<Row[]>
  /** Why no event can be made of a row, null when one can. */
  findDefect(row: Row): string | null
  /** The id of the newest event of a row. */
  eventIdOf(row: Row): string
  /** All events of a valid row, in order. */
  toEvents(row: Row): E[]
}

export interface PublishOptions<E extends TopicEvent> {
  db: Queryable
  topic: Topic<E>
  logger: Logger
  signal?: AbortSignal | undefined
  /** Called after each batch with the number of events so far. */
  onProgress?: (events: number) => void
}

/**
 * Publishes every event of a table, all of a row together; the topic drops those that it has already. Rows of which none can be made, and events
 * that the broker refuses, become dead letters. Returns whether it came to the end, which it does not when `signal` aborts.
 */
export async function publishStoredEvents<Row, E extends TopicEvent>(
  stored: StoredEvents<Row, E>,
  { db, topic, logger, signal, onProgress }: PublishOptions<E>,
  beforeEach: () => Promise<unknown> = async () => {},
): Promise<boolean> {
  let last: Row | null = null
  let loggedAt = performance.now()
  for (let events = 0; signal?.aborted !== true; ) {
    const rows: Row[] = await stored.readAfter(db, last)
    last = rows.at(-1) ?? null
    if (last === null) return true
    await beforeEach()
    events += await publishRows(stored, rows, { db, topic, logger })
    onProgress?.(events)
    if (performance.now() - loggedAt < PROGRESS_MS) continue
    logger.info({ events }, `events of each ${stored.subject.split(' ').at(-1)} are being published from the database`)
    loggedAt = performance.now()
  }
  return false
}

async function publishRows<Row, E extends TopicEvent>(
  { deadLetters, subject, findDefect, eventIdOf, toEvents }: StoredEvents<Row, E>,
  rows: readonly Row[],
  { db, topic, logger }: PublishOptions<E>,
): Promise<number> {
  const defects = rows.flatMap((row): DeadLetter[] => {
    const reason = findDefect(row)
    return reason === null ? [] : [{ eventId: eventIdOf(row), reason, position: NO_POSITION }]
  })
  if (defects.length > 0) await recordDeadLetters(db, deadLetters, defects)
  for (const { eventId, reason } of defects) logger.error({ event: eventId, reason }, `no event can be made of this change of ${subject}`)
  const valid = rows.filter((row) => findDefect(row) === null)
  const events = valid.flatMap(toEvents)
  await publishMade(deadLetters, events, { db, topic })
  return events.length
}

/** Publishes events that were made from rows. Those that the broker refuses become dead letters. */
export async function publishMade<E extends TopicEvent>(
  deadLetters: DeadLetterTable,
  events: readonly E[],
  { db, topic }: Pick<PublishOptions<E>, 'db' | 'topic'>,
): Promise<void> {
  const messages = events.map((event) => ({ position: NO_POSITION, event }))
  const published = new Set(events.map(({ id }) => id))
  await publishAcceptable(topic, messages, async (refused, reason) => {
    const letters = refused.map(({ event }) => ({ eventId: event.id, reason, position: NO_POSITION }))
    for (const { eventId } of letters) published.delete(eventId)
    await recordDeadLetters(db, deadLetters, letters)
  })
  // Rows that were repaired lose their dead letters: a broker does not list what it has, so a remaining one would count as unpublished.
  if (deadLetters === CATALOGUE_DEAD_LETTERS)
    await db.query(sql`delete from catalogue_dead_letters where event_id = any(${[...published]}::text[])`)
}
