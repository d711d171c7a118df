import { identifier, type Sql, sql } from '../../db/sql.ts'
import { ORDER_EVENTS } from '../../lake/iceberg/lake-table.ts'
import type { CorruptMessage } from '../../topic/topic.ts'
import { type InFlightResult, MISSING_FROM_TOPIC } from './await-in-flight.ts'
import type { TablesRead } from './compare-tables.ts'
import type { ComparisonTables, TableName } from './comparison-tables.ts'
import { type Finding, type FindingKind, listFindings, MAX_EXAMPLES, type Place } from './finding.ts'
import type { LakeContents } from './read-lake.ts'
import { ALTERED_IN_LAKE } from './row-digest.ts'

// Joins a row of the topic or the lake with a range in which events were lost; the row is lost unless an order has its event.
export const IS_LOST = sql`sequence > lost_ranges.after and sequence <= lost_ranges.up_to`

/** What was known before the comparison. */
export interface Known {
  mailPosition: number
  topicEnd: number
  lake: LakeContents
  tablesRead: TablesRead
  inFlight: InFlightResult
}

/** Compares the tables of orders, topic, mails and lake with each other. */
export async function findDifferences(
  tables: ComparisonTables,
  { mailPosition, topicEnd, lake, tablesRead, inFlight }: Known,
): Promise<Finding[]> {
  const lost = inFlight.isSettled
    ? sql`from (${MISSING_FROM_TOPIC}) anti join held_events using (event_id) anti join dead_letters using (event_id)`
    : sql`from (${MISSING_FROM_TOPIC}) where false`
  const doubled = (table: TableName) => sql`from ${identifier(table)} group by event_id having count(*) > 1`
  const ofNoOrder = (table: TableName) =>
    sql`from ${identifier(table)} anti join topic_events using (event_id) anti join order_events using (event_id)`
  // Events that a restore has lost have no order, and no mail is sent for them.
  const isKept = sql`(event_id in (from order_events select event_id) or not exists (from lost_ranges where ${IS_LOST}))`
  const handled = (table: TableName, position: number) =>
    sql`from topic_events anti join ${identifier(table)} using (event_id) where topic_events.sequence <= ${position} and ${isKept}`
  const altered = sql`
    from topic_events as copy join order_events as original using (event_id)
    where copy.event_digest <> original.event_digest or copy.move_details <> original.move_details`
  const checks: [Place, FindingKind, Sql][] = [
    ['orders', 'corrupt', sql`from order_events where event_digest is null`],
    ['topic', 'missing', lost],
    ['topic', 'doubled', doubled('topic_events')],
    ['topic', 'altered', altered],
    [
      'topic',
      'unknown',
      sql`from topic_events anti join order_events using (event_id) where topic_events.sequence <= ${topicEnd} and ${isKept}`,
    ],
    ['mails', 'missing', sql`${handled('mail_events', mailPosition)} and is_mailed = 1`],
    ['mails', 'unknown', ofNoOrder('mail_events')],
    ['lake', 'missing', handled('lake_events', lake.lastSequence)],
    ['lake', 'doubled', doubled('lake_events')],
    ['lake', 'altered', sql`from (${ALTERED_IN_LAKE})`],
    ['lake', 'unknown', sql`${ofNoOrder('lake_events')} where ${isKept}`],
    ['tables', 'missing', sql`from unregistered_events where is_late = 1`],
    ['tables', 'doubled', doubled('table_events')],
    ['tables', 'unknown', sql`${ofNoOrder('table_events')} where ${isKept}`],
  ]
  const findings: Finding[] = []
  const deadLetters = await tables.select<{ event_id: string; reason: string }>(
    sql`select event_id, reason from (${MISSING_FROM_TOPIC}) join dead_letters using (event_id) order by event_id`,
  )
  if (deadLetters.length > 0)
    findings.push({
      place: 'change stream',
      kind: 'dead-lettered',
      count: deadLetters.length,
      examples: deadLetters.slice(0, MAX_EXAMPLES).map(({ event_id, reason }) => `${event_id}: ${reason}`),
    })
  if (inFlight.slotLost !== null) findings.push({ place: 'change stream', kind: 'lost', count: 1, examples: [inFlight.slotLost] })
  for (const [place, kind, from] of checks) {
    const { count, examples } = await tables.sample(sql`select event_id ${from}`)
    if (count === 0) continue
    findings.push({ place, kind, count, examples: place === 'tables' ? examples.map((id) => `${ORDER_EVENTS.name}: ${id}`) : examples })
  }
  const messages = await tables.select<CorruptMessage>(sql`select sequence, reason from corrupt_messages order by sequence`)
  return [
    ...findings,
    ...listFindings(
      'topic',
      'corrupt',
      messages.map(({ sequence, reason }) => `sequence ${sequence}: ${reason}`),
    ),
    ...listFindings(
      'lake',
      'corrupt',
      lake.corrupt.map(({ path, reason }) => `${path}: ${reason}`),
    ),
    ...listFindings('tables', 'corrupt', tablesRead.faults),
    ...listFindings('tables', 'moved', tablesRead.moved),
  ]
}
