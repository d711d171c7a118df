import type { CatalogueEvent } from '../../catalogue/catalogue-event.ts'
import type { Pool } from '../../db/pool.ts'
import { type Sql, sql } from '../../db/sql.ts'
import { examineTable } from '../../lake/iceberg/examine-table.ts'
import { CATALOGUE_EVENTS } from '../../lake/iceberg/lake-table.ts'
import { CATALOGUE_DATASET } from '../../lake/lake-dataset.ts'
import { type LakeStore, repeatWhenGone } from '../../lake/lake-store.ts'
import { readStoredSequence } from '../../topic/subscriber-lag.ts'
import type { Topic } from '../../topic/topic.ts'
import type { OnStep } from '../on-step.ts'
import { addUnregistered, findIncomplete, readRows, type TablesRead } from './compare-tables.ts'
import { type ComparisonTables, withComparisonTables } from './comparison-tables.ts'
import { type Finding, findingOf, listFindings } from './finding.ts'
import { readLake } from './read-lake.ts'
import { readCatalogueTopic } from './read-topic.ts'
import { ALTERED_IN_LAKE } from './row-digest.ts'

const MAX_ATTEMPTS = 5
const PLACE = 'catalogue in the lake'

export interface CatalogueLakeOptions {
  pool: Pool
  lake: LakeStore
  topic: Topic<CatalogueEvent>
  /** All Iceberg tables, read before the lake. */
  tablesRead: Pick<TablesRead, 'written'>
  /** Milliseconds since 1970: events from before it should be in the lake. */
  dueBefore: number
  /** Milliseconds since 1970: files from before it should be in the Iceberg table. 0: it is not known. */
  tableDueBefore: number
  onStep?: OnStep
}

export interface CatalogueLakeReport {
  files: number
  events: number
  /** Events of the topic after the end of the lake. */
  waiting: number
  /** The events in the Iceberg table `catalogue_events`, and those of the lake that wait for its next commit. */
  table: { events: number; waiting: number }
}

/**
 * Compares the lake's events of the catalogue with their partition of the topic, and those of their Iceberg table with both. Reads the position
 * of the subscriber first, then the table, then the lake: events may arrive meanwhile.
 */
export async function compareCatalogueLake({
  pool,
  lake,
  topic,
  tablesRead,
  dueBefore,
  tableDueBefore,
  onStep = () => {},
}: CatalogueLakeOptions): Promise<CatalogueLakeReport & { isOverdue: boolean; findings: Finding[] }> {
  onStep('comparing the catalogue in the lake')
  return withComparisonTables(async (tables) => {
    const stored = await readStoredSequence(pool, CATALOGUE_DATASET.subscriber)
    const table = await repeatWhenGone(MAX_ATTEMPTS, () => readTable(lake, tables))
    const contents = await readLake(lake, CATALOGUE_DATASET, tables)
    await addUnregistered(tables, contents, table, tableDueBefore)
    await readCatalogueTopic(topic, tables)
    // The newest file may have been deleted, and the lake ends before it then. Without any file it is a new lake, or that of another store.
    const end = contents.files.length === 0 ? 0 : Math.max(contents.lastSequence, stored)
    const later = sql`from topic_events anti join lake_events using (event_id) where topic_events.sequence > ${end}`
    const found = async (kind: Finding['kind'], from: Sql): Promise<Finding[]> =>
      findingOf(PLACE, kind, await tables.sample(sql`select distinct event_id ${from}`))
    const ofTable = async (kind: Finding['kind'], from: Sql): Promise<Finding[]> => {
      const { count, examples } = await tables.sample(sql`select distinct event_id ${from}`)
      return findingOf('tables', kind, { count, examples: examples.map((id) => `${CATALOGUE_EVENTS.name}: ${id}`) })
    }
    const corrupt = contents.corrupt.map(({ path, reason }) => `${path}: ${reason}`)
    return {
      files: contents.files.length,
      events: await tables.count(sql`from lake_events`),
      waiting: await tables.count(later),
      isOverdue: (await tables.count(sql`${later} and changed_at < ${dueBefore}`)) > 0,
      table: {
        events: await tables.count(sql`from table_events`),
        waiting: await tables.count(sql`from unregistered_events where is_late = 0`),
      },
      findings: [
        ...(await found('missing', sql`from topic_events anti join lake_events using (event_id) where topic_events.sequence <= ${end}`)),
        ...(await found('doubled', sql`from lake_events group by event_id having count(*) > 1`)),
        ...(await found('altered', sql`from (${ALTERED_IN_LAKE})`)),
        ...listFindings(PLACE, 'corrupt', corrupt),
        ...(await ofTable('missing', sql`from unregistered_events where is_late = 1`)),
        ...(await ofTable('doubled', sql`from table_events group by event_id having count(*) > 1`)),
        ...(await ofTable(
          'unknown',
          sql`from table_events anti join topic_events using (event_id) anti join lake_events using (event_id)`,
        )),
        ...listFindings('tables', 'missing', await findIncomplete(tables, tablesRead, CATALOGUE_DATASET.name)),
        ...listFindings('tables', 'corrupt', table.faults),
      ],
    }
  })
}

/** Copies the ids of the Iceberg table into `table_events`. */
async function readTable(lake: LakeStore, tables: ComparisonTables): Promise<{ isMoved: boolean; faults: string[] }> {
  await tables.run(sql`truncate table_events`)
  const { files, movedFrom } = await examineTable(lake, CATALOGUE_EVENTS)
  const faults = await readRows(lake, files, (rows) => tables.runWide(sql`insert into table_events ${rows}`))
  return { isMoved: movedFrom !== null, faults }
}
