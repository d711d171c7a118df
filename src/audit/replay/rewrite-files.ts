import { join } from 'node:path'
import { sql } from '../../db/sql.ts'
import { commitFiles, eventTableOf, type LakeSnapshot, type LiveFile } from '../../lake/iceberg/event-table.ts'
import type { DataFile } from '../../lake/iceberg/manifest.ts'
import { ifDamaged, readablePath } from '../../lake/lake-database.ts'
import type { LakeDataset } from '../../lake/lake-dataset.ts'
import { LakeBusy } from '../../lake/lake-lock.ts'
import { newName } from '../../lake/lake-names.ts'
import { LakeFileGone, type LakeStore } from '../../lake/lake-store.ts'
import { type NewFile, writeParquet } from '../../lake/parquet-writer.ts'
import { queryDuckDB } from '../../lake/query-duckdb.ts'
import { readBatches } from '../../topic/partition-messages.ts'
import type { Topic, TopicEvent, TopicMessage } from '../../topic/topic.ts'
import type { ComparisonTables } from '../verify/comparison-tables.ts'

const BATCH_SIZE = 10_000
/** Events are published in the order of their times, except for the length of a transaction. */
const SKEW_MS = 60_000

export interface RewriteOptions<E extends TopicEvent> {
  store: LakeStore
  dataset: LakeDataset<E>
  topic: Topic<E>
  makeEvents: (ids: readonly string[]) => Promise<ReadonlyMap<string, E>>
  now: () => Date
  /** `lake_events` has the rows that stay, and `dropped_rows` has the others. */
  tables: ComparisonTables
}

interface FaultyFile extends LiveFile {
  index: number
  isDamaged: boolean
}

/** One snapshot replaces the old files by new ones: docs/decisions/lake-snapshots.md#repairs. */
export class RewrittenFiles<E extends TopicEvent> {
  readonly #options: RewriteOptions<E>
  readonly #snapshot: LakeSnapshot
  readonly #added: DataFile[]
  readonly #removed: LiveFile[] = []
  readonly quarantined: string[] = []
  readonly lost = new Set<string>()
  readonly lostRows = new Map<string, number | null>()
  written = 0

  /** `found` are files that the new snapshot must have in addition to those of `snapshot`. */
  constructor(options: RewriteOptions<E>, snapshot: LakeSnapshot, found: readonly DataFile[]) {
    this.#options = options
    this.#snapshot = snapshot
    this.#added = [...found]
  }

  async rewrite({ index, isDamaged, ...file }: FaultyFile): Promise<void> {
    const { store, tables, dataset } = this.#options
    this.#removed.push(file)
    try {
      if (!isDamaged && (await tables.count(sql`from lake_events where file = ${index}`)) > 0) {
        await this.#add(file.ingestDate, file, (target) =>
          store.withCopies([file], ([path = '']) => tables.writeLakeFile(target, selectKept(path, index), eventTableOf(dataset.name))),
        )
      }
      this.quarantined.push(await store.quarantineCopy(file.name))
    } catch (error) {
      if (!isMissing(error)) throw error
    }
  }

  /**
   * Adds events up to the end of the lake that it lacks. These are missing events of the topic, and events of the
   * faulty files that the topic has lost.
   */
  async addMissing(faulty: readonly FaultyFile[]): Promise<void> {
    const { topic, tables } = this.#options
    await tables.run(sql`
      create or replace table missing_events as
      select min(sequence) as sequence, event_id
      from topic_events anti join lake_events using (event_id)
      where sequence <= ${this.#snapshot.sequence}
      group by event_id`)
    const [first] = await tables.select<{ least: number | null; greatest: number | null }>(
      sql`select min(sequence) as least, max(sequence) as greatest from missing_events`,
    )
    let position = (first?.least ?? 0) - 1
    let waiting: TopicMessage<E>[] = []
    for await (const { messages, last } of first?.least == null ? [] : readBatches(topic, position)) {
      const wanted = await tables.select<{ sequence: number }>(
        sql`select sequence from missing_events where sequence > ${position} and sequence <= ${last}`,
      )
      const sequences = new Set(wanted.map(({ sequence }) => sequence))
      waiting.push(...messages.filter(({ sequence }) => sequences.has(sequence)))
      if (waiting.length >= BATCH_SIZE) await this.#write(waiting.splice(0))
      position = last
      if (position >= (first?.greatest ?? 0)) break
    }
    await this.#write(waiting)
    const leftover = await this.#readLeftover(faulty)
    await tables.run(sql`create or replace table attributed_events as select event_id from missing_events limit 0`)
    waiting = await this.#makeLost(leftover.flatMap(({ keys }) => keys))
    await this.#write(waiting)
    for (const { file, keys, isUnread } of leftover) {
      const lost = isUnread ? await this.#countLost(file) : new Set(keys.map(({ event_id }) => event_id)).intersection(this.lost).size
      if (lost !== 0) this.lostRows.set(file.name, lost)
    }
  }

  /** Unknown numbers are null. Events published by a replay are far behind those of their time. */
  async #countLost({ first, last, oldest, newest, data }: FaultyFile): Promise<number | null> {
    const { tables } = this.#options
    const known = await tables.count(sql`
      select sequence from lake_events where sequence between ${first} and ${last}
      union select sequence from topic_events where sequence between ${first} and ${last}`)
    const unknown = last - first + 1 - known
    if (data.record_count === 0) return unknown > 0 ? null : 0
    const before = await tables.count(sql`from attributed_events`)
    await tables.run(sql`
      insert into attributed_events
      select event_id
      from (
        select 1 as place, event_id from missing_events where sequence between ${first} and ${last}
        union all
        select 2, event_id
        from topic_events
        where changed_at between ${oldest} and ${newest}
          and sequence > ${last}
          and sequence > (select min(sequence) from topic_events where changed_at > ${newest + SKEW_MS})
      ) as found
        anti join lake_events using (event_id)
        anti join attributed_events using (event_id)
      group by event_id
      order by min(place)
      limit ${data.record_count}`)
    const found = (await tables.count(sql`from attributed_events`)) - before
    return Math.min(data.record_count - found, unknown)
  }

  /** Makes everything visible in one step. Throws LakeBusy, without a change, after a change by another process. */
  async commit(isRebuilt: boolean): Promise<void> {
    if (!isRebuilt && this.#added.length + this.#removed.length === 0) return
    const change = { added: this.#added, removed: this.#removed, endsSnapshots: true }
    if (!(await commitFiles(this.#snapshot, change, this.#options.now())))
      throw new LakeBusy('another process has changed the files of the lake meanwhile: run the repair again')
    // No remaining snapshot has these files, and a reader of plain files would fail.
    for (const { name } of this.#removed) await this.#options.store.delete(name)
  }

  async #write(messages: readonly TopicMessage<E>[]): Promise<void> {
    const [first, last] = [messages[0]?.sequence, messages.at(-1)?.sequence]
    if (first === undefined || last === undefined) return
    const { dataset, now } = this.#options
    const ingestedAt = now().toISOString()
    const lines = messages.map((message) => JSON.stringify(dataset.toRow(message, ingestedAt)))
    await this.#add(ingestedAt.slice(0, 10), { first, last }, (file) => writeParquet(file, lines, eventTableOf(dataset.name)))
    this.written += messages.length
  }

  async #add(ingestDate: string, { first, last }: { first: number; last: number }, write: (file: NewFile) => Promise<DataFile>) {
    const { store, dataset } = this.#options
    const name = newName(dataset.name, ingestDate, first, last)
    await store.withWorkspace(async (folder) => {
      const file = { path: join(folder, 'file'), location: this.#snapshot.table.locate(name) }
      this.#added.push(await write(file))
      await store.put(name, file.path)
    })
  }

  /** Keys of the readable rows that do not stay: the topic may have lost their events. */
  async #readLeftover(files: readonly FaultyFile[]): Promise<LeftoverRows[]> {
    const { store, tables } = this.#options
    const leftover: LeftoverRows[] = []
    for (const file of files) {
      const dropped = await tables.select<EventKey>(sql`select event_id, sequence from dropped_rows where file = ${file.index}`)
      const read = () => store.withCopies([file], ([path = '']) => readKeys(path), { isFresh: true })
      const rows = file.isDamaged ? await read().catch(ifMissing(null)) : []
      const keys = [...dropped, ...(rows ?? [])].filter(({ event_id }) => EVENT_ID.test(event_id ?? ''))
      leftover.push({ file, keys, isUnread: rows === null })
    }
    return leftover
  }

  /** Events that only the database has, at their former sequences. `storefront replay` publishes the others. */
  async #makeLost(leftover: readonly EventKey[]): Promise<TopicMessage<E>[]> {
    const { makeEvents, tables } = this.#options
    await tables.add('leftover_rows', leftover)
    const wanted = await tables.select<{ event_id: string; sequence: number | null; is_taken: boolean }>(sql`
      select
        event_id,
        min(sequence) filter (
          where sequence between 1 and ${this.#snapshot.sequence} and sequence not in (select sequence from topic_events)
        ) as sequence,
        bool_and(sequence in (select sequence from topic_events)) as is_taken
      from leftover_rows
        anti join lake_events using (event_id)
        anti join topic_events using (event_id)
      group by event_id
      order by sequence`)
    const messages: TopicMessage<E>[] = []
    const events = await makeEvents(wanted.map(({ event_id }) => event_id))
    for (const { event_id, sequence, is_taken } of wanted) {
      const event = events.get(event_id)
      // An unknown id at the sequence of another event is a damaged id, and no event.
      if (event === undefined && !is_taken) this.lost.add(event_id)
      else if (event !== undefined && sequence !== null) messages.push({ sequence, event })
    }
    return messages
  }
}

interface EventKey {
  event_id: string
  sequence: number
}

/** `isUnread` is true if the file is missing or unreadable. */
interface LeftoverRows {
  file: FaultyFile
  keys: EventKey[]
  isUnread: boolean
}

const EVENT_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\.stock)?\.[1-9]\d{0,8}$/

function selectKept(path: string, index: number) {
  return sql`
    select *
    from read_parquet(${readablePath(path)}, hive_partitioning = false)
    where (event_id, sequence) in (select event_id, sequence from lake_events where file = ${index})
    qualify row_number() over (partition by event_id) = 1
    order by sequence`
}

async function readKeys(path: string): Promise<EventKey[] | null> {
  const select = sql`select event_id, sequence from read_parquet(${readablePath(path)}, hive_partitioning = false)`
  const rows = await queryDuckDB(select).catch(ifDamaged(null))
  return rows?.map(([id, sequence]) => ({ event_id: String(id), sequence: Number(sequence) })) ?? null
}

function ifMissing<T>(fallback: T): (error: unknown) => T {
  return (error) => {
    if (isMissing(error)) return fallback
    throw error
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof LakeFileGone || (error as NodeJS.ErrnoException).code === 'ENOENT'
}
