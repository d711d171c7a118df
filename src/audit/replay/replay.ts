import { publishMade } from '../../change-stream/publish-stored-events.ts'
import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { TopicEvent } from '../../topic/topic.ts'
import { countOf, type OnStep } from '../on-step.ts'
import { type InFlightOptions, MISSING_FROM_TOPIC } from '../verify/await-in-flight.ts'
import { readPartition } from '../verify/compare-partition.ts'
import { type ComparedPartition, makeEvents } from '../verify/compared-partition.ts'
import { type ComparisonTables, STREAM, VERSION, withComparisonTables } from '../verify/comparison-tables.ts'
import { type RowFilter, readTopic } from '../verify/read-partition.ts'

export interface ReplayOptions extends InFlightOptions {
  /** The changes to replay. */
  filter?: RowFilter
}

export interface ReplayReport {
  compared: number
  published: number
  /** Events that the topic still lacks, although it accepted them, or because they are too large for it. */
  dropped: string[]
  /** The number of events that the change stream has yet to deliver. */
  inFlight: number
  /** Event ids that the row does not describe: the status history of an order lacks them, or the row is malformed. */
  unknown: string[]
  /** Messages of the topic that are no events. Until they are deleted, the topic drops events published under their ids. */
  corrupt: number
  /** Why the change stream has to recreate and refill its slot first; null when it does not. */
  slotLost: string | null
}

const BATCH_SIZE = 500

/**
 * Publishes the events of a partition that the topic lacks, made from their rows. Safe at any time: the ids are those of the change stream, and
 * every subscriber dedupes by them. A lost slot is left to the change stream, which may refill it meanwhile.
 */
export async function replay<Row extends object, E extends TopicEvent>(
  partition: ComparedPartition<Row, E>,
  options: ReplayOptions,
): Promise<ReplayReport> {
  const { pool, streamUrl, onStep = () => {} } = options
  return partition.keepRows(streamUrl, (assertKept) =>
    withComparisonTables(async (tables) => {
      const { inFlight } = await readPartition(tables, partition, options)
      const unknown = await publishMissing(pool, partition, tables, { assertKept, onStep })
      // Reads the topic instead of relying on acknowledgements: a broker may drop a message as a duplicate of a deleted one.
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

/**
 * Publishes oldest first, and events of one order or product by version, even if a wrong clock made a later version look older. Returns the
 * ids of events that cannot be made.
 */
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
    // What is refused is found missing afterwards.
    const found = batch.flatMap(({ event_id }) => events.get(event_id) ?? [])
    await publishMade(stored.deadLetters, found, { db: pool, topic })
  }
  return unknown
}
