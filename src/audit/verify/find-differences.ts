import { identifier, type Sql, sql } from '../../db/sql.ts'
import type { CorruptMessage } from '../../topic/topic.ts'
import { type InFlightResult, MISSING_FROM_TOPIC } from './await-in-flight.ts'
import type { TablesRead } from './compare-tables.ts'
import type { ComparedPartition } from './compared-partition.ts'
import { type ComparisonTables, STREAM, type TableName, VERSION } from './comparison-tables.ts'
import { type Finding, type FindingKind, findingOf, listFindings, MAX_EXAMPLES, type Place } from './finding.ts'
import type { LakeContents } from './read-lake.ts'
import { ALTERED_IN_LAKE } from './row-digest.ts'

// A row of the topic or the lake in a range of lost events is lost unless the database has its event.
export const IS_LOST = sql`sequence > lost_ranges.after and sequence <= lost_ranges.up_to`

const DEAD_LETTERED = sql`select event_id, reason from (${MISSING_FROM_TOPIC}) join dead_letters using (event_id)`

const IS_OTHER_MEMBER = sql`copy.erasable <> original.erasable and list_bool_or(list_transform(
  list_zip(string_split(copy.erasable, '|'), string_split(original.erasable, '|')),
  lambda pair: pair[1] <> '' and pair[2] <> '' and pair[1] <> pair[2]
))`

/** Events that follow a later version. A replay or a refill publishes late by its nature. */
const UNORDERED = sql`
  select event_id
  from (
    select event_id, sequence, max(case when is_in_turn = 1 then sequence end) over (
      partition by ${STREAM} order by ${VERSION}
      rows between unbounded preceding and 1 preceding
    ) as earlier
    from topic_events semi join recorded_events using (event_id)
  )
  where sequence < earlier`

export interface Known {
  mailPosition: number
  topicEnd: number
  lakeEnd: number
  lake: LakeContents
  tablesRead: TablesRead
  inFlight: InFlightResult
}

/** Compares the tables of one partition: rows, topic, mails and lake. */
export async function findDifferences(
  tables: ComparisonTables,
  { places, keepsRows }: Pick<ComparedPartition<never, never>, 'places' | 'keepsRows'>,
  { mailPosition, topicEnd, lakeEnd, lake, tablesRead, inFlight }: Known,
): Promise<Finding[]> {
  const lost =
    inFlight.isSettled && !inFlight.isRefilled
      ? sql`from (${MISSING_FROM_TOPIC}) anti join held_events using (event_id) anti join dead_letters using (event_id)`
      : sql`from (${MISSING_FROM_TOPIC}) where false`
  const doubled = (table: TableName) => sql`from ${identifier(table)} group by event_id having count(*) > 1`
  const ofNoRow = (table: TableName) =>
    sql`from ${identifier(table)} anti join topic_events using (event_id) anti join recorded_events using (event_id)`
  // Events that a restore has lost have no row, and no mail is sent for them.
  const isKept = sql`(event_id in (from recorded_events select event_id) or not exists (from lost_ranges where ${IS_LOST}))`
  const handled = (table: TableName, position: number) =>
    sql`from topic_events anti join ${identifier(table)} using (event_id) where topic_events.sequence <= ${position} and ${isKept}`
  const altered = sql`
    from topic_events as copy join recorded_events as original using (event_id)
    where copy.digest <> original.digest or ${IS_OTHER_MEMBER}`
  const unknown: [Place, FindingKind, Sql][] = [
    [
      places.topic,
      'unknown',
      sql`from topic_events anti join recorded_events using (event_id) where topic_events.sequence <= ${topicEnd} and ${isKept}`,
    ],
    ['mails', 'unknown', ofNoRow('mail_events')],
    [places.lake, 'unknown', sql`${ofNoRow('lake_events')} where ${isKept}`],
  ]
  const checks: [Place, FindingKind, Sql][] = [
    [places.rows, 'corrupt', sql`from recorded_events anti join (${DEAD_LETTERED}) using (event_id) where digest is null`],
    [places.topic, 'missing', lost],
    [places.topic, 'doubled', doubled('topic_events')],
    [places.topic, 'unordered', sql`from (${UNORDERED})`],
    [places.topic, 'altered', altered],
    ['mails', 'missing', sql`${handled('mail_events', mailPosition)} and is_mailed = 1`],
    [places.lake, 'missing', handled('lake_events', lakeEnd)],
    [places.lake, 'doubled', doubled('lake_events')],
    [places.lake, 'altered', sql`from (${ALTERED_IN_LAKE})`],
    ...(keepsRows ? unknown : []),
  ]
  const findings = findingOf(
    places.stream,
    'dead-lettered',
    await tables.sample(sql`select event_id || ': ' || reason as event_id from (${DEAD_LETTERED})`),
  )
  if (inFlight.slotLost !== null) findings.push({ place: 'change stream', kind: 'lost', count: 1, examples: [inFlight.slotLost] })
  for (const [place, kind, from] of checks) {
    findings.push(...findingOf(place, kind, await tables.sample(sql`select event_id ${from}`)))
  }
  const messages = await tables.select<CorruptMessage>(
    sql`select sequence, reason from corrupt_messages order by sequence limit ${MAX_EXAMPLES}`,
  )
  return [
    ...findings,
    ...findingOf(places.topic, 'corrupt', {
      count: await tables.count(sql`from corrupt_messages`),
      examples: messages.map(({ sequence, reason }) => `sequence ${sequence}: ${reason}`),
    }),
    ...listFindings(
      places.lake,
      'corrupt',
      lake.corrupt.map(({ path, reason }) => `${path}: ${reason}`),
    ),
    ...listFindings('tables', 'corrupt', tablesRead.faults),
    ...listFindings('tables', 'moved', tablesRead.moved),
  ]
}
