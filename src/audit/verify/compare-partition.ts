import { listDeadLetters } from '../../change-stream/dead-letters.ts'
import { type Sql, sql } from '../../db/sql.ts'
import type { LakeStore } from '../../lake/lake-store.ts'
import { readStoredSequence } from '../../topic/subscriber-lag.ts'
import type { TopicEvent } from '../../topic/topic.ts'
import { awaitInFlight, type InFlightOptions, type InFlightResult, MISSING_FROM_TOPIC, PATIENCE_MS } from './await-in-flight.ts'
import { findIncomplete, type TablesRead } from './compare-tables.ts'
import type { ComparedPartition } from './compared-partition.ts'
import { type ComparisonTables, withComparisonTables } from './comparison-tables.ts'
import { findDifferences, IS_LOST } from './find-differences.ts'
import { type Finding, listFindings } from './finding.ts'
import { readLake } from './read-lake.ts'
import { type RowFilter, readRecorded, readTopic } from './read-partition.ts'

export interface Lag {
  events: number
  seconds: number
}

export interface CompareOptions extends InFlightOptions {
  lake: LakeStore
  tablesRead: TablesRead
  /** Copies the mails for the comparison. Returns the position up to which mails were queued. */
  readMails?: (tables: ComparisonTables) => Promise<number>
  /** Ranges of sequences in which a restore has lost events. */
  lostRanges?: { after: number; up_to: number }[]
  /** Milliseconds since 1970. Earlier events should be in the mails, or in the lake. */
  dueBefore: { mails: number; lake: number }
  now: () => Date
}

export interface PartitionReport {
  rows: number
  recorded: number
  published: number
  inFlight: Lag
  isSettled: boolean
  mails: { status: string; n: number }[]
  mailLag: Lag & { isOverdue: boolean }
  lake: { files: number; events: number; lostEvents: number; lastSequence: number }
  lakeLag: Lag & { isOverdue: boolean }
  findings: Finding[]
}

/**
 * Reads topic and rows, and waits for events in flight. `topicEnd` is the last sequence that was read before the rows.
 */
export async function readPartition<Row extends object, E extends TopicEvent>(
  tables: ComparisonTables,
  partition: ComparedPartition<Row, E>,
  options: InFlightOptions & { filter?: RowFilter | undefined },
): Promise<{ rows: number; topicEnd: number; inFlight: InFlightResult }> {
  const { pool, filter, onStep } = options
  const topicEnd = await readTopic(partition, tables, 0, onStep)
  const rows = await readRecorded(pool, partition, tables, filter, onStep)
  await tables.add('dead_letters', await listDeadLetters(pool, partition.stored.deadLetters))
  return { rows, topicEnd, inFlight: await awaitInFlight(tables, partition, options, topicEnd) }
}

/**
 * Compares a partition. It reads first the positions, then mails and lake, then the topic and then the rows, so an
 * event in flight does not look like a fault. See docs/decisions/audit-verify.md.
 */
export async function comparePartition<Row extends object, E extends TopicEvent>(
  partition: ComparedPartition<Row, E>,
  options: CompareOptions,
): Promise<PartitionReport> {
  const { pool, streamUrl, lake, tablesRead, dueBefore, onStep = () => {} } = options
  return partition.keepRows(streamUrl, () =>
    withComparisonTables(async (tables) => {
      await tables.add('lost_ranges', options.lostRanges ?? [])
      const mailPosition = (await options.readMails?.(tables)) ?? 0
      const stored = await readStoredSequence(pool, partition.dataset.subscriber)
      const contents = await readLake(lake, partition.dataset.name, tables, onStep, partition.range)
      const { rows, topicEnd, inFlight } = await readPartition(tables, partition, options)
      onStep('comparing')
      // A lake without files is new, or of another store.
      const lakeEnd = contents.files.length === 0 ? 0 : Math.max(contents.lastSequence, stored)
      const findings = [
        ...(await findDifferences(tables, partition, { mailPosition, topicEnd, lakeEnd, lake: contents, tablesRead, inFlight })),
        ...listFindings('tables', 'missing', await findIncomplete(tables, tablesRead, partition.dataset.name)),
      ]
      const lagOf = async (events: Sql, due: number) => ({
        ...(await measureLag(tables, events, options.now())),
        isOverdue: (await tables.count(sql`${events} and changed_at < ${due}`)) > 0,
      })
      const onTheWay = inFlight.isSettled && !inFlight.isRefilled ? sql`semi join held_events using (event_id)` : sql``
      return {
        rows,
        recorded: await tables.count(sql`from recorded_events`),
        published: await tables.count(sql`from topic_events`),
        inFlight: await measureLag(tables, sql`from (${MISSING_FROM_TOPIC}) ${onTheWay}`, options.now()),
        isSettled: inFlight.isSettled,
        mails: await tables.select(sql`select status, count(*) as n from mail_events group by status`),
        mailLag: await lagOf(
          sql`from topic_events anti join mail_events using (event_id) where topic_events.sequence > ${mailPosition} and is_mailed = 1`,
          dueBefore.mails,
        ),
        lake: {
          files: contents.files.length,
          events: await tables.count(sql`from lake_events`),
          lostEvents: await tables.count(
            sql`from lake_events anti join recorded_events using (event_id) semi join lost_ranges on ${IS_LOST}`,
          ),
          lastSequence: contents.lastSequence,
        },
        lakeLag: await lagOf(
          sql`from topic_events anti join lake_events using (event_id) where topic_events.sequence > ${lakeEnd}`,
          dueBefore.lake,
        ),
        findings,
      }
    }),
  )
}

/** Milliseconds since 1970 before which a change should have arrived. */
export function dueBeforeOf(
  startedAt: number,
  { patienceMs = PATIENCE_MS, lakeFlushSeconds = 60 }: { patienceMs?: number | undefined; lakeFlushSeconds?: number },
): CompareOptions['dueBefore'] {
  const mails = startedAt - patienceMs
  return { mails, lake: mails - lakeFlushSeconds * 1_000 }
}

async function measureLag(tables: ComparisonTables, from: Sql, now: Date): Promise<Lag> {
  const [row] = await tables.select<{ events: number; oldest: number | null }>(
    sql`select count(*) as events, min(changed_at) as oldest from (select changed_at ${from})`,
  )
  const ageMs = row?.oldest == null ? 0 : Math.max(0, now.getTime() - row.oldest)
  return { events: row?.events ?? 0, seconds: Math.round(ageMs / 100) / 10 }
}
