import { makeEvents, publishMade } from '../../change-stream/publish-stored-events.ts'
import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { TopicEvent } from '../../topic/topic.ts'
import { countOf, type OnStep } from '../on-step.ts'
import { type InFlightOptions, MISSING_FROM_TOPIC } from '../verify/await-in-flight.ts'
import { readPartition } from '../verify/compare-partition.ts'
import type { ComparedPartition } from '../verify/compared-partition.ts'
import { type ComparisonTables, STREAM, VERSION, withComparisonTables } from '../verify/comparison-tables.ts'
import { type RowFilter, readTopic } from '../verify/read-partition.ts'

export interface ReplayOptions extends InFlightOptions {
  filter?: RowFilter
}

export interface ReplayReport {
  compared: number
  published: number
  /** Events that the topic lacks although it accepted them, or because they are too large. */
  dropped: string[]
  inFlight: number
  /** Event ids that the row does not describe, because the status history lacks them or the row is malformed. */
  unknown: string[]
  /** Messages that are no events. Until their deletion the topic drops events published under their ids. */
  corrupt: number
  /** Why the change stream must first recreate and refill its slot, or null. */
  slotLost: string | null
}

const BATCH_SIZE = 500

/** Safe at any time: the ids are those of the change stream, and every subscriber dedupes by them. */
export async function replay<Row extends object, E extends TopicEvent>(
  partition: ComparedPartition<Row, E>,
  options: ReplayOptions,
): Promise<ReplayReport> {
  const { pool, streamUrl, onStep = () => {} } = options
  return partition.keepRows(streamUrl, (assertKept) =>
    withComparisonTables(async (tables) => {
      const { inFlight } = await readPartition(tables, partition, options)
      const unknown = await publishMissing(pool, partition, tables, { assertKept, onStep })
      // A broker may drop a message as a duplicate of a deleted one, so acknowledgements are not enough.
      await readTopic(partition, tables, inFlight.topicEnd)
      const dropped = await tables.select<{ event_id: string }>(sql`
        select event_id from missing_events anti join topic_events using (event_id) order by number`)
      return {
        compared: await tables.count(sql`from recorded_events`),
        published: (await tables.count(sql`from missing_events`)) - dropped.length,
        dropped: dropped.map(({ event_id }) => event_id).filter((id) => !unknown.has(id)),
        inFlight: await tables.count(sql`from (${MISSING_FROM_TOPIC}) semi join held_events using (event_id)`),
        unknown: [...unknown],
        corrupt: await tables.count(sql`from corrupt_messages`),
        slotLost: inFlight.slotLost,
      }
    }),
  )
}

/** The oldest first, and events of one order or product by version, even after a clock error. */
async function publishMissing<Row extends object, E extends TopicEvent>(
  pool: Pool,
  { topic, stored }: ComparedPartition<Row, E>,
  tables: ComparisonTables,
  { assertKept, onStep }: { assertKept: () => Promise<unknown>; onStep: OnStep },
): Promise<Set<string>> {
  await tables.run(sql`
    create table missing_events as
    select event_id, row_number() over (order by not_before, stream, version) as number
    from (
      select event_id, stream, version, max(changed_at) over (partition by stream order by version) as not_before
      from (
        select event_id, changed_at, ${STREAM} as stream, ${VERSION} as version
        from (${MISSING_FROM_TOPIC}) anti join held_events using (event_id)
      )
    )`)
  const total = await tables.count(sql`from missing_events`)
  const unknown = new Set<string>()
  for (let from = 1; from <= total; from += BATCH_SIZE) {
    onStep(`publishing ${countOf(from)} of ${countOf(total)} missing events`)
    const batch = await tables.select<{ event_id: string }>(
      sql`select event_id from missing_events where number between ${from} and ${from + BATCH_SIZE - 1} order by number`,
    )
    const events = await makeEvents(
      pool,
      stored,
      batch.map(({ event_id }) => event_id),
    )
    for (const { event_id } of batch) if (!events.has(event_id)) unknown.add(event_id)
    await assertKept()
    const found = batch.flatMap(({ event_id }) => events.get(event_id) ?? [])
    await publishMade(stored.deadLetters, found, { db: pool, topic })
  }
  return unknown
}
