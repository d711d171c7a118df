import type { Pool } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { findDefect } from '../../orders/event-defects.ts'
import { hasWholeHistory, type OrderEvent, toOrderEvents } from '../../orders/events.ts'
import { publishAcceptable } from '../../topic/publish-acceptable.ts'
import type { Topic } from '../../topic/topic.ts'
import { countOf, type OnStep } from '../on-step.ts'
import { awaitInFlight, type InFlightOptions, MISSING_FROM_TOPIC } from '../verify/await-in-flight.ts'
import { type ComparisonTables, withComparisonTables } from '../verify/comparison-tables.ts'
import { getOrderRecords, type OrderFilter, readOrders } from '../verify/read-orders.ts'
import { readTopic } from '../verify/read-topic.ts'

export interface ReplayOptions extends InFlightOptions {
  /** The changes to replay. */
  filter?: OrderFilter
}

export interface ReplayReport {
  /** The number of events that were compared with the topic. */
  compared: number
  /** The number of events that the topic lacked and has now. */
  published: number
  /** Events that the topic still lacks, although it accepted them, or because they are too large for it. */
  dropped: string[]
  /** The number of events that the change stream has yet to deliver. */
  inFlight: number
  /** Event ids of versions that the order's row does not describe: its status history lacks them, or it is malformed. */
  unknown: string[]
  /** Messages of the topic that are no order events. Until they are deleted, the topic drops events published under their ids. */
  corrupt: number
  /** Why the change stream has to recreate and refill its slot first; null when it does not. */
  slotLost: string | null
}

const BATCH_SIZE = 500
// Unknown, so after a restart the change stream may publish events again, which the topic drops by event id.
const NO_POSITION = ''

/**
 * Publishes the events that the topic lacks, made from `orders`. Safe at any time: the ids are those of the change stream, and every
 * subscriber dedupes by them. A lost slot is left to the change stream, which may refill it meanwhile.
 */
export async function replay(options: ReplayOptions): Promise<ReplayReport> {
  const { pool, topic, filter = {}, onStep = () => {} } = options
  return withComparisonTables(async (tables) => {
    const compared = await readTopic(topic, tables, 0, onStep)
    await readOrders(pool, tables, filter, undefined, onStep)
    const { slotLost, topicEnd } = await awaitInFlight(tables, options, compared)
    const unknown = await publishMissing(pool, topic, tables, onStep)
    // Reads the topic instead of relying on acknowledgements: a broker may drop a message as a duplicate of a deleted one.
    await readTopic(topic, tables, topicEnd)
    const dropped = await tables.select<{ event_id: string }>(sql`
      select event_id from missing_events anti join topic_events using (event_id) order by number`)
    return {
      compared: await tables.count(sql`from order_events`),
      published: (await tables.count(sql`from missing_events`)) - dropped.length,
      dropped: dropped.map(({ event_id }) => event_id).filter((id) => !unknown.has(id)),
      inFlight: await tables.count(sql`from (${MISSING_FROM_TOPIC}) semi join held_events using (event_id)`),
      unknown: [...unknown],
      corrupt: await tables.count(sql`from corrupt_messages`),
      slotLost,
    }
  })
}

/**
 * Publishes oldest first, and each order's events by version, even if a wrong clock made a later version look older. Returns the ids of
 * events that cannot be made.
 */
async function publishMissing(pool: Pool, topic: Topic, tables: ComparisonTables, onStep: OnStep): Promise<Set<string>> {
  await tables.run(sql`
    create table missing_events as
    select event_id, order_id, row_number() over (order by not_before, order_id, version) as number
    from (
      select event_id, order_id, version, max(changed_at) over (partition by order_id order by version) as not_before
      from (
        select event_id, changed_at, split_part(event_id, '.', 1) as order_id, split_part(event_id, '.', 2)::integer as version
        from (${MISSING_FROM_TOPIC}) anti join held_events using (event_id)
      )
    )`)
  const total = await tables.count(sql`from missing_events`)
  const unknown = new Set<string>()
  for (let from = 1; from <= total; from += BATCH_SIZE) {
    onStep(`publishing ${countOf(from)} of ${countOf(total)} missing events`)
    const batch = await tables.select<{ event_id: string; order_id: string }>(
      sql`select event_id, order_id from missing_events where number between ${from} and ${from + BATCH_SIZE - 1} order by number`,
    )
    const events = await loadEvents(pool, [...new Set(batch.map((row) => row.order_id))])
    const found = batch.flatMap(({ event_id }) => events.get(event_id) ?? [])
    for (const { event_id } of batch) if (!events.has(event_id)) unknown.add(event_id)
    const messages = found.map((event) => ({ position: NO_POSITION, event }))
    // What is refused is found missing afterwards.
    await publishAcceptable(topic, messages, async () => {})
  }
  return unknown
}

/** The events of orders, by id. Skips rows that no event can be made of. */
export async function loadEvents(pool: Pool, orderIds: readonly string[]): Promise<Map<string, OrderEvent>> {
  const records = await getOrderRecords(pool, orderIds)
  const whole = records.filter((record) => findDefect(record) === null && hasWholeHistory(record))
  return new Map(whole.flatMap(toOrderEvents).map((event) => [event.id, event]))
}
