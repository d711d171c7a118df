import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { eventTableOf } from '../../lake/iceberg/event-table.ts'
import { readBatches } from '../../topic/partition-messages.ts'
import { EPOCH_SEQUENCES, type TopicEvent } from '../../topic/topic.ts'
import { countOf, type OnStep } from '../on-step.ts'
import type { ComparedPartition } from './compared-partition.ts'
import type { ComparisonTables, TableRow } from './comparison-tables.ts'
import { digestContent } from './event-digest.ts'
import { isInRange } from './id-range.ts'
import { ROW_DIGESTS } from './row-digest.ts'

/**
 * Which events to read. `since` selects changes at or after this time, together with the earlier versions of the same
 * orders.
 */
export interface RowFilter {
  since?: Date | undefined
  orderId?: string | undefined
}

type Recorded = TableRow<'recorded_events'>

const COMPARED_COLUMNS = {
  digest: sql`VARCHAR`,
  erasable: sql`VARCHAR`,
  changed_at: sql`BIGINT`,
  is_mailed: sql`BIGINT`,
  is_in_turn: sql`BIGINT`,
}

/** Messages that are no events go into `corrupt_messages`. Returns the last sequence. */
export async function readTopic<Row extends object, E extends TopicEvent>(
  { topic, dataset, range, contentOf, isMailed }: ComparedPartition<Row, E>,
  tables: ComparisonTables,
  after = 0,
  onStep: OnStep = () => {},
): Promise<number> {
  let position = after
  // Sequences without their epoch: the topic may skip some.
  const newest = countOf((await topic.newestSequence()) % EPOCH_SEQUENCES)
  for await (const { messages, corrupt, last } of readBatches(topic, after)) {
    await tables.add('corrupt_messages', corrupt)
    const compared = messages.filter(({ event }) => range === undefined || isInRange(range, event.id))
    const lines = compared.map((message) =>
      JSON.stringify({
        ...dataset.toRow(message, message.event.time),
        ...digestContent(contentOf(message.event)),
        changed_at: Date.parse(message.event.time),
        is_mailed: isMailed(message.event) ? 1 : 0,
        is_in_turn: message.isInTurn === true ? 1 : 0,
      }),
    )
    position = last
    onStep(`read the topic up to ${countOf(last % EPOCH_SEQUENCES)} of ${newest}`)
    if (lines.length === 0) continue
    const rows = await tables.spoolRows(lines, { ...eventTableOf(dataset.name).columns, ...COMPARED_COLUMNS })
    await tables.runWide(sql`
      insert into topic_events
      select event_id, digest, erasable, changed_at, sequence, ${ROW_DIGESTS[dataset.name]}, is_mailed, is_in_turn from ${rows}`)
  }
  return position
}

/** A row that makes no event gets no digest. Returns the number of rows. */
export async function readRecorded<Row extends object, E extends TopicEvent>(
  pool: Pool,
  { stored, table, contentOf, idsOf, changedAt }: ComparedPartition<Row, E>,
  tables: ComparisonTables,
  { since, orderId }: RowFilter = {},
  onStep: OnStep = () => {},
): Promise<number> {
  const toRecorded = (row: Row): Recorded[] => {
    const time = Number(changedAt(row))
    return stored.findDefect(row) === null
      ? stored
          .toEvents(row)
          .map((event) => ({ event_id: event.id, ...digestContent(contentOf(event)), changed_at: Date.parse(event.time) }))
      : idsOf(row).map((id) => ({ event_id: id, digest: null, erasable: null, changed_at: Number.isFinite(time) ? time : Date.now() }))
  }
  const isWanted = ({ changed_at }: Recorded) => since === undefined || Number(changed_at) >= since.getTime()
  let read = 0
  for (let last: Row | null = null; ; ) {
    const rows: Row[] =
      orderId === undefined ? await stored.readAfter(pool, last) : last === null ? await stored.readOf(pool, [orderId]) : []
    last = rows.at(-1) ?? null
    if (last === null) return read
    read += rows.length
    const events = rows.map(toRecorded)
    await tables.add(
      'recorded_events',
      events.flatMap((versions) => versions.slice(0, versions.findLastIndex(isWanted) + 1)),
    )
    onStep(`read ${countOf(read)} rows of ${table}`)
  }
}
