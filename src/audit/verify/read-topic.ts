import type { CatalogueEvent } from '../../catalogue/catalogue-event.ts'
import { sql } from '../../db/sql.ts'
import { LAKE_COLUMNS, toLakeRow } from '../../lake/lake-row.ts'
import { isImported, isMailed } from '../../orders/events.ts'
import { readBatches } from '../../topic/partition-messages.ts'
import { EPOCH_SEQUENCES, type Topic, type TopicMessage } from '../../topic/topic.ts'
import { countOf, type OnStep } from '../on-step.ts'
import type { ComparisonTables } from './comparison-tables.ts'
import { eventDigest, moveDetailsOf } from './event-digest.ts'
import { ROW_DIGESTS } from './row-digest.ts'

const COLUMNS = { ...LAKE_COLUMNS, event_digest: sql`VARCHAR`, move_details: sql`VARCHAR`, changed_at: sql`BIGINT`, is_mailed: sql`BIGINT` }

/** Copies the messages after `after` into `topic_events`, those that are no order events into `corrupt_messages`. Returns the last sequence. */
export async function readTopic(topic: Topic, tables: ComparisonTables, after = 0, onStep: OnStep = () => {}): Promise<number> {
  let position = after
  // Sequences without their epoch: the topic may skip some.
  const newest = countOf((await topic.newestSequence()) % EPOCH_SEQUENCES)
  for await (const { messages, corrupt, last } of readBatches(topic, after)) {
    await tables.add('corrupt_messages', corrupt)
    const rows = await tables.spoolRows(messages.map(toLine), COLUMNS)
    await tables.runWide(sql`
      insert into topic_events
      select event_id, event_digest, move_details, changed_at, sequence, ${ROW_DIGESTS}, is_mailed from ${rows}`)
    position = last
    onStep(`read the topic up to ${countOf(last % EPOCH_SEQUENCES)} of ${newest}`)
  }
  return position
}

/**
 * Copies the catalogue messages into `topic_events`, without digests of their content. Leaves out messages that are no
 * events.
 */
export async function readCatalogueTopic(topic: Topic<CatalogueEvent>, tables: ComparisonTables): Promise<void> {
  for await (const { messages } of readBatches(topic, 0)) {
    const rows = messages.map(({ sequence, event }) => ({
      event_id: event.id,
      changed_at: Date.parse(event.time),
      sequence,
      ...NO_DIGESTS,
    }))
    await tables.add('topic_events', rows)
  }
}

const NO_DIGESTS = { event_digest: null, move_details: null, digests: null, is_mailed: null }

/** Everything that is compared, as one line of JSON. */
function toLine(message: TopicMessage): string {
  const { event } = message
  return JSON.stringify({
    ...toLakeRow(message, event.time),
    event_digest: eventDigest(event),
    move_details: moveDetailsOf(event),
    changed_at: Date.parse(event.time),
    is_mailed: isMailed(event) && !isImported(event) ? 1 : 0,
  })
}
