import type { DuckDBConnection } from '@duckdb/node-api'
import type { CatalogueEvent } from '../../catalogue/catalogue-event.ts'
import { literal, type Sql, sql } from '../../db/sql.ts'
import { findDamage } from '../../lake/find-damage.ts'
import { examineTable } from '../../lake/iceberg/examine-table.ts'
import { CATALOGUE_EVENTS } from '../../lake/iceberg/lake-table.ts'
import { makeSpillPath, parquetRows, toDuckDB, withDuckDB } from '../../lake/lake-database.ts'
import { findEndOf } from '../../lake/lake-end.ts'
import { parseName, splitSuperseded } from '../../lake/lake-names.ts'
import { type LakeStore, repeatWhenGone } from '../../lake/lake-store.ts'
import { listLake } from '../../lake/list-files.ts'
import { selectRows } from '../../lake/query-duckdb.ts'
import { readBatches } from '../../topic/partition-messages.ts'
import type { Topic } from '../../topic/topic.ts'
import type { OnStep } from '../on-step.ts'
import { readRows } from './compare-tables.ts'
import type { Finding } from './finding.ts'

const MAX_ATTEMPTS = 5
const MAX_EXAMPLES = 100
const PLACE = 'catalogue in the lake'

export interface CatalogueLakeOptions {
  lake: LakeStore
  topic: Topic<CatalogueEvent>
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
 * Compares the lake's events of the catalogue with their partition of the topic, and those of their Iceberg table with both. Reads the table
 * first, then the lake: events may arrive meanwhile.
 */
export async function compareCatalogueLake({
  lake,
  topic,
  dueBefore,
  tableDueBefore,
  onStep = () => {},
}: CatalogueLakeOptions): Promise<CatalogueLakeReport & { isOverdue: boolean; findings: Finding[] }> {
  onStep('comparing the catalogue in the lake')
  return withDuckDB(makeSpillPath(), async (connection) => {
    const table = await repeatWhenGone(MAX_ATTEMPTS, () => readTable(lake, connection))
    const { files, end, corrupt } = await repeatWhenGone(MAX_ATTEMPTS, () => readFiles(lake, connection))
    await readTopic(topic, connection)
    const select = async (statement: Sql) => (await selectRows(connection, statement)).map(([value]) => String(value))
    const missing = sql`select distinct id from topic_ids anti join lake_ids using (id) where topic_ids.sequence <= ${end}`
    const doubled = sql`select id from lake_ids group by id having count(*) > 1`
    const unregistered = sql`
      select distinct id, (stored_at < ${tableDueBefore} or sequence <= (select coalesce(max(sequence), 0) from table_ids)) as is_late
      from lake_ids anti join table_ids using (id)`
    const inTable = (ids: Sql) => sql`select ${literal(`${CATALOGUE_EVENTS.name}: `)} || id as id from (${ids})`
    const later = sql`from topic_ids anti join lake_ids using (id) where topic_ids.sequence > ${end}`
    const [events = '0'] = await select(sql`select count(*) from lake_ids`)
    const [waiting = '0'] = await select(sql`select count(*) ${later}`)
    const [tableEvents = '0'] = await select(sql`select count(*) from table_ids`)
    const [tableWaiting = '0'] = await select(sql`select count(*) from (${unregistered}) where ${table.isMoved ? 1 : 0} = 1 or not is_late`)
    const [overdue = '0'] = await select(sql`select count(*) ${later} and changed_at < ${dueBefore}`)
    const found = async (kind: Finding['kind'], ids: Sql, place: Finding['place'] = PLACE): Promise<Finding[]> => {
      const [count = '0'] = await select(sql`select count(*) from (${ids})`)
      const examples = await select(sql`${ids} order by id limit ${literal(MAX_EXAMPLES)}`)
      return count === '0' ? [] : [{ place, kind, count: Number(count), examples }]
    }
    const list = (kind: Finding['kind'], all: readonly string[], place: Finding['place']): Finding[] =>
      all.length === 0 ? [] : [{ place, kind, count: all.length, examples: all.slice(0, MAX_EXAMPLES) }]
    return {
      files,
      events: Number(events),
      waiting: Number(waiting),
      isOverdue: overdue !== '0',
      table: { events: Number(tableEvents), waiting: Number(tableWaiting) },
      findings: [
        ...[...(await found('missing', missing)), ...(await found('doubled', doubled)), ...list('corrupt', corrupt, PLACE)],
        ...(table.isMoved ? [] : await found('missing', inTable(sql`select id from (${unregistered}) where is_late`), 'tables')),
        ...(await found('doubled', inTable(sql`select id from table_ids group by id having count(*) > 1`), 'tables')),
        ...(await found(
          'unknown',
          inTable(sql`select distinct id from table_ids anti join topic_ids using (id) anti join lake_ids using (id)`),
          'tables',
        )),
        ...list('corrupt', table.faults, 'tables'),
      ],
    }
  })
}

/** Copies the ids of the Iceberg table into `table_ids`. */
async function readTable(lake: LakeStore, connection: DuckDBConnection): Promise<{ isMoved: boolean; faults: string[] }> {
  await connection.run('create or replace table table_ids (id varchar, sequence bigint)')
  const { files, movedFrom } = await examineTable(lake, CATALOGUE_EVENTS)
  const faults = await readRows(lake, files, (rows) => connection.run(toDuckDB(sql`insert into table_ids ${rows}`)))
  return { isMoved: movedFrom !== null, faults }
}

/** Copies the ids of sound files into `lake_ids`. */
async function readFiles(lake: LakeStore, connection: DuckDBConnection): Promise<{ files: number; end: number; corrupt: string[] }> {
  await connection.run('create or replace table lake_ids (id varchar, sequence bigint, stored_at bigint)')
  const all = await listLake(lake, 'catalogue')
  const { current } = splitSuperseded(all)
  const corrupt: string[] = []
  for (const file of current) {
    const { first = 0, last = 0 } = parseName(file.name) ?? {}
    const reason = await lake.withCopies(
      [file],
      async ([path = '']) => {
        const damage = await findDamage(path, file.name)
        if (damage !== null) return damage
        await connection.run(
          toDuckDB(sql`insert into lake_ids select event_id, sequence, ${Math.floor(file.storedAt)} from ${parquetRows([path])}`),
        )
        const strays = await selectRows(
          connection,
          sql`select count(*) from ${parquetRows([path])} where event_id is null or (sequence between ${first} and ${last}) is not true`,
        )
        return Number(strays[0]?.[0]) === 0 ? null : 'some of its rows are not in the range of its name'
      },
      { isFresh: true },
    )
    if (reason !== null) corrupt.push(`${lake.locate(file.name)}: ${reason}`)
  }
  return { files: current.length, end: await findEndOf(lake, all), corrupt }
}

async function readTopic(topic: Topic<CatalogueEvent>, connection: DuckDBConnection): Promise<void> {
  await connection.run('create table topic_ids (id varchar, sequence bigint, changed_at bigint)')
  const appender = await connection.createAppender('topic_ids')
  for await (const { messages } of readBatches(topic, 0)) {
    for (const { sequence, event } of messages) {
      appender.appendVarchar(event.id)
      appender.appendBigInt(BigInt(sequence))
      appender.appendBigInt(BigInt(Date.parse(event.time)))
      appender.endRow()
    }
  }
  appender.closeSync()
}
