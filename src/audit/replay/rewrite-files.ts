import { join } from 'node:path'
import { commaList, type Sql, sql } from '../../db/sql.ts'
import { findDamage } from '../../lake/find-damage.ts'
import { jsonRows, writeJsonLines } from '../../lake/json-lines.ts'
import { ifDamaged, readablePath } from '../../lake/lake-database.ts'
import type { LakeDataset } from '../../lake/lake-dataset.ts'
import { type FileRange, nameOf, parseName } from '../../lake/lake-names.ts'
import type { LakeRepairs } from '../../lake/lake-repairs.ts'
import { type LakeFile, LakeFileGone, type LakeStore } from '../../lake/lake-store.ts'
import { queryDuckDB } from '../../lake/query-duckdb.ts'
import { readBatches } from '../../topic/partition-messages.ts'
import type { Topic, TopicEvent, TopicMessage } from '../../topic/topic.ts'
import type { ComparisonTables } from '../verify/comparison-tables.ts'

const BATCH_SIZE = 1_000
/** Levels above the rewritten files, and so above a merge of the same files that may still be written. */
export const LEVELS_ABOVE = 2

/** A file that was compared. `index`: its value in the column `file` of `lake_events`. */
interface ComparedFile extends LakeFile {
  index: number
  isDamaged: boolean
  /** All of its rows stay, so it needs no copy aside. */
  isKeptWhole: boolean
}

/** A range of files to rewrite: one file, and all files within its range, which the new file supersedes as well. */
export interface FileGroup {
  range: FileRange
  files: ComparedFile[]
}

/** Groups the widest ranges first, so that a file within the range of another one is rewritten with it. Pure. */
export function groupNested(files: readonly ComparedFile[], isInvalid: (file: ComparedFile) => boolean): FileGroup[] {
  const ranges = files.flatMap((file) => {
    const range = parseName(file.name)
    return range === null ? [] : [{ file, range }]
  })
  const done = new Set<ComparedFile>()
  const groups: FileGroup[] = []
  const invalid = ranges.filter(({ file }) => isInvalid(file))
  for (const { file, range } of invalid.toSorted((a, b) => b.range.last - b.range.first - (a.range.last - a.range.first))) {
    if (done.has(file)) continue
    const isWithin = (other: FileRange) => other.folder === range.folder && other.first >= range.first && other.last <= range.last
    const members = ranges.filter(({ file, range }) => !done.has(file) && isWithin(range)).map(({ file }) => file)
    for (const member of members) done.add(member)
    groups.push({ range, files: members })
  }
  return groups
}

export interface RewriteOptions<E extends TopicEvent> {
  store: LakeStore
  dataset: LakeDataset<E>
  topic: Topic<E>
  /** Makes events that the topic has lost from the database, by id. */
  makeEvents: (ids: readonly string[]) => Promise<ReadonlyMap<string, E>>
  now: () => Date
  /** The comparison: `lake_events` with the rows that stay, and `dropped_rows`. */
  tables: ComparisonTables
  repairs: LakeRepairs
  /** Called before superseded files are deleted. When it throws, they stay. */
  beforeDelete: () => Promise<void>
}

/**
 * Rewrites files of the lake, each group in one atomic step: the new file has the range of the old ones at a higher level, so it
 * supersedes them (decision 0052). It contains their valid rows, and the events of its range that no file of the lake has.
 */
export class RewrittenFiles<E extends TopicEvent> {
  readonly #options: RewriteOptions<E>
  readonly quarantined: string[] = []
  readonly lost = new Set<string>()
  written = 0

  constructor(options: RewriteOptions<E>) {
    this.#options = options
  }

  async rewrite({ range, files }: FileGroup): Promise<void> {
    const { store, tables, repairs, beforeDelete } = this.#options
    const name = nameOf({ ...range, level: Math.max(...files.map((file) => parseName(file.name)?.level ?? 0)) + LEVELS_ABOVE })
    await store.withWorkspace(async (folder) => {
      const made = await this.#makeRows(range, files, folder)
      const valid = files.filter((file) => !file.isDamaged)
      const path = join(folder, 'file')
      await store.withCopies(valid, async (paths) => {
        await tables.run(sql`create or replace table kept_files (path VARCHAR, file BIGINT)`)
        for (const [place, { index }] of valid.entries())
          await tables.run(sql`insert into kept_files values (${paths[place] ?? ''}, ${index})`)
        const kept = paths.length === 0 ? [] : [selectKept(paths)]
        const all = [...kept, ...made].reduce((some, one) => sql`${some} union all by name (${one})`, sql`select * from no_lake_rows`)
        await tables.writeLakeFile(sql`select * from (${all}) order by sequence`, path, name)
      })
      // This precedes the new file, which supersedes them: a merge deletes what is superseded.
      for (const file of files) if (!file.isKeptWhole) this.quarantined.push(await store.quarantineCopy(file.name))
      await repairs.put(name, path)
    })
    await this.#assertSound(name)
    await beforeDelete()
    for (const file of files) await store.delete(file.name)
  }

  /** Reads the new file back from the store, before the files that it replaces are deleted. */
  async #assertSound(name: string): Promise<void> {
    const { store } = this.#options
    const [file] = (await store.list(name)).filter((listed) => listed.name === name)
    if (file === undefined) throw new LakeFileGone(`${store.locate(name)} is gone`)
    const damage = await store.withCopies([file], ([path = '']) => findDamage(path, name), { isFresh: true })
    if (damage !== null) throw new Error(`${store.locate(name)}: ${damage}; run the repair again`)
  }

  /** Rows of the events that the lake lacks in this range, as selects from files in `folder`. */
  async #makeRows(range: FileRange, files: readonly ComparedFile[], folder: string): Promise<Sql[]> {
    const { dataset, topic, tables } = this.#options
    const ingestedAt = this.#ingestedAt(range.ingestDate)
    const selects: Sql[] = []
    const write = async (messages: readonly TopicMessage<E>[]) => {
      if (messages.length === 0) return
      const lines = messages.map((message) => JSON.stringify(dataset.toRow(message, ingestedAt)))
      const spool = await writeJsonLines(join(folder, `${selects.length}.ndjson`), lines)
      selects.push(sql`select * from ${jsonRows(spool, dataset.columns)}`)
      this.written += messages.length
    }
    const leftover = await this.#readLeftover(files)
    await tables.run(sql`
      create or replace table made_events as
      select min(sequence) as sequence, event_id
      from topic_events anti join lake_events using (event_id)
      where sequence between ${range.first} and ${range.last}
      group by event_id`)
    let position = range.first - 1
    for await (const { messages, last } of readBatches(topic, position)) {
      const wanted = await tables.select<{ sequence: number }>(
        sql`select sequence from made_events where sequence > ${position} and sequence <= ${last}`,
      )
      const sequences = new Set(wanted.map(({ sequence }) => sequence))
      await write(messages.filter(({ sequence }) => sequences.has(sequence)))
      position = last
      if (position >= range.last) break
    }
    await write(await this.#makeLost(leftover, range))
    await tables.run(sql`insert into lake_events select event_id, sequence, null, null from made_events`)
    return selects
  }

  /** `ingest_date` must be the date of `ingested_at`, so rows written on a later day get the last instant of the file's day. */
  #ingestedAt(ingestDate: string): string {
    const now = this.#options.now().toISOString()
    return now.startsWith(ingestDate) ? now : `${ingestDate}T23:59:59.999Z`
  }

  /** Keys of the rows that do not stay, as far as they can be read: the topic may have lost their events. */
  async #readLeftover(files: readonly ComparedFile[]): Promise<EventKey[]> {
    const { store, tables } = this.#options
    const rows: EventKey[] = []
    for (const file of files) {
      rows.push(...(await tables.select<EventKey>(sql`select event_id, sequence from dropped_rows where file = ${file.index}`)))
      if (file.isDamaged) rows.push(...(await store.withCopies([file], ([path = '']) => readKeys(path), { isFresh: true })))
    }
    return rows.filter(isKey)
  }

  /** Notes which events of files that were quarantined as a whole exist nowhere else. */
  async recordLost(rows: readonly EventKey[]): Promise<void> {
    await this.#options.tables.run(sql`create or replace table made_events (sequence BIGINT, event_id VARCHAR)`)
    await this.#makeLost(rows.filter(isKey), { first: 1, last: 0 })
  }

  /**
   * Events that neither lake nor topic has, made from the database, at their former sequences. An event whose sequence is taken or outside of
   * the range is skipped: `storefront replay` publishes it with a new one.
   */
  async #makeLost(leftover: readonly EventKey[], { first, last }: Pick<FileRange, 'first' | 'last'>): Promise<TopicMessage<E>[]> {
    const { makeEvents, tables } = this.#options
    const messages: TopicMessage<E>[] = []
    for (let from = 0; from < leftover.length; from += BATCH_SIZE) {
      const some = leftover.slice(from, from + BATCH_SIZE)
      await tables.run(sql`truncate leftover_rows`)
      await tables.add('leftover_rows', some)
      const wanted = await tables.select<{ event_id: string; sequence: number | null; is_taken: boolean }>(sql`
        select
          event_id,
          min(sequence) filter (
            where sequence between ${first} and ${last} and sequence not in (select sequence from topic_events)
          ) as sequence,
          bool_and(sequence in (select sequence from topic_events)) as is_taken
        from leftover_rows
          anti join lake_events using (event_id)
          anti join topic_events using (event_id)
          anti join made_events using (event_id)
        group by event_id`)
      const events = await makeEvents(wanted.map(({ event_id }) => event_id))
      for (const { event_id, sequence, is_taken } of wanted) {
        const event = events.get(event_id)
        // An unknown id at the sequence of another event is a damaged id, and no event.
        if (event === undefined && !is_taken) this.lost.add(event_id)
        else if (event !== undefined && sequence !== null) {
          messages.push({ sequence, event })
          await tables.run(sql`insert into made_events values (${sequence}, ${event_id})`)
        }
      }
    }
    return messages
  }
}

/** The key of a lake row. */
export interface EventKey {
  event_id: string
  sequence: number
}

const EVENT_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\.stock)?\.[1-9]\d{0,8}$/

function isKey({ event_id }: EventKey): boolean {
  return EVENT_ID.test(event_id ?? '')
}

/** DuckDB: the rows that stay of the files in `kept_files`, each once. */
function selectKept(paths: readonly string[]): Sql {
  return sql`
    select * exclude (filename)
    from read_parquet([${commaList(paths.map(readablePath))}], union_by_name = true, hive_partitioning = false, filename = true) as file
    where (filename, event_id, sequence) in (select path, event_id, sequence from lake_events join kept_files using (file))
    qualify row_number() over (partition by event_id) = 1`
}

/** The keys of a file's rows; none when it cannot be read. */
export async function readKeys(path: string): Promise<EventKey[]> {
  const select = sql`select event_id, sequence from read_parquet(${readablePath(path)}, hive_partitioning = false)`
  const rows = await queryDuckDB(select).catch(ifDamaged([]))
  return rows.map(([id, sequence]) => ({ event_id: String(id), sequence: Number(sequence) }))
}
