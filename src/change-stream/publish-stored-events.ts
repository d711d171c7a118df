import type { Logger } from 'pino'
import type { Queryable } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { publishAcceptable } from '../topic/publish-acceptable.ts'
import type { Topic, TopicEvent } from '../topic/topic.ts'
import { CATALOGUE_DEAD_LETTERS, type DeadLetter, type DeadLetterTable, recordDeadLetters } from './dead-letters.ts'

// Unknown, so after a restart the stream may publish events again, which the topic drops by id.
const NO_POSITION = ''
const PROGRESS_MS = 10_000

export interface StoredEvents<Row, E extends TopicEvent> {
  deadLetters: DeadLetterTable
  subject: string
  /** Reads rows in key order, bounded by size: the first ones after null, and none at the end. */
  readAfter(db: Queryable, last: Row | null): Promise<Row[]>
  readOf(db: Queryable, ids: readonly string[]): Promise<Row[]>
  findDefect(row: Row): string | null
  eventIdOf(row: Row): string
  toEvents(row: Row): E[]
}

export interface PublishOptions<E extends TopicEvent> {
  db: Queryable
  topic: Topic<E>
  logger: Logger
  signal?: AbortSignal | undefined
  onProgress?: (events: number) => void
}

/** Faulty rows and refused events become dead letters. Returns false when `signal` aborts. */
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

/** Reads rows by id, and skips those that make no event. */
export async function makeEvents<Row, E extends TopicEvent>(
  db: Queryable,
  { readOf, findDefect, toEvents }: StoredEvents<Row, E>,
  ids: readonly string[],
): Promise<Map<string, E>> {
  const rows = await readOf(db, ids)
  const wanted = new Set(ids)
  const events = rows.filter((row) => findDefect(row) === null).flatMap(toEvents)
  return new Map(events.filter(({ id }) => wanted.has(id)).map((event) => [event.id, event]))
}

/** Publishes events. Those that the broker refuses become dead letters. */
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
  // Repaired rows lose their dead letters here. A broker does not list its events, so these would count as unpublished.
  if (deadLetters === CATALOGUE_DEAD_LETTERS)
    await db.query(sql`delete from catalogue_dead_letters where event_id = any(${[...published]}::text[])`)
}
